"""`python -m nearmetal` is `nearmetal`."""

from nearmetal.cli import main

if __name__ == "__main__":
    main()
