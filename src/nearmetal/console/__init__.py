"""What people read in a terminal, and scripts from it."""
