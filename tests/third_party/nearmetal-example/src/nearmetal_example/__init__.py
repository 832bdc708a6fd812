"""One plugin of each kind for nearmetal, each in a file of its own."""
