"""Several clients on one link: the studies, what a thesis published of them, and their chapter."""
