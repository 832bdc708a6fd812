"""Machines to work in by hand: made by `up`, kept by a process of their own, entered from any other."""
