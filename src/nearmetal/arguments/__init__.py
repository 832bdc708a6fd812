"""What each command takes, and the call that it makes: one module for those that belong together.

What is heavy is imported where it is used: --help answers at once.
"""
