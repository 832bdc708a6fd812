"""The chapters of the report, one file each."""
