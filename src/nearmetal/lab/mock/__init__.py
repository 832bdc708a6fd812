"""Machines that are pretended: what they hold, and what their programs answer."""
