"""What was changed and made on a host, written down before it is so, and how it is put back."""
