"""Machines that are somebody's: held by one nearmetal at a time, used, and given back as they were."""
