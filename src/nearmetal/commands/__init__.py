"""What the commands do: one module for each command, or for those that belong together.

`nearmetal.arguments` names them.
"""
