"""Figures as words of a command line."""


def format_number(value: float | None) -> str:
    """Exactly, and never in a notation that starts with a sign."""
    if value is None:
        raise AssertionError("the parameters were validated to have it")
    return f"{value:.9f}".rstrip("0").rstrip(".")


def as_time(seconds: float) -> str:
    return f"{format_number(seconds)}s"
