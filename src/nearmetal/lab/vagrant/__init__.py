"""Vagrant: how it is spoken to, and our image as one of its boxes."""
