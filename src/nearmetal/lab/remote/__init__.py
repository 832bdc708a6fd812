"""Machines that are reached by a connection, whatever that is, and commands in them."""
