"""The commands: one module for those that belong together says what they take, and does what they are for.

What is heavy is imported where it is used: --help answers at once. `nearmetal.cli` names them.
"""
