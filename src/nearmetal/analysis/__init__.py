"""From the records of a run to verdicts. Pure: reads no file, no clock, no machine."""
