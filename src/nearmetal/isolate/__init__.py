"""Keeping CPUs of this host free of everything that can be moved, until they are given back."""
