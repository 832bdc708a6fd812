"""A CPU kept for the server: the study, what a student published of it, and its chapter."""
