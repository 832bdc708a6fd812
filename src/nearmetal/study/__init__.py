"""A study: its text, what its factors and levels mean, and what each treatment asks for."""
