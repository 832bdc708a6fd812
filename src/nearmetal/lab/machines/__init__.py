"""What is known of a machine whoever made it: whose kernel it runs on, its first process, its control groups."""
