"""nearmetal: what does this way of virtualizing cost me, for this workload, and can I trust the answer?"""

__version__ = "0.1.0"
