"""Machines that are reached from outside, by whatever connection, and commands in them."""
