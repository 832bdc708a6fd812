"""Domains of libvirt: what describes one, and how libvirt is spoken to."""
