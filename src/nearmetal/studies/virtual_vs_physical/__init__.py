"""HTTP through virtual networks: the studies, what was published of them in 2017, and their chapter."""
