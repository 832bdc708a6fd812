"""A virtual machine against a container: the study, what a course published of it, and its chapter."""
