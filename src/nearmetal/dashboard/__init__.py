"""A run as a browser shows it while it goes on: what its folder says, followed, folded and drawn."""
