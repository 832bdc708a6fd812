"""A run's folder: manifest, journal, artifacts. It alone regenerates every table and plot."""
