"""What the loads of `http` and `httperf` have in common."""
