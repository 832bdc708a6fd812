"""An environment of one file that uses the lab by `nearmetal.lab.api` alone."""
