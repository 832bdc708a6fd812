"""What makes the documentation's generated pages, its site, and the man pages."""
