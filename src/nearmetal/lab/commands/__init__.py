"""How commands run on a site: started, heard, refused, and ended with whoever started them."""
