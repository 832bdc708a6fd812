"""The report of a run, from its folder alone: a page, tables, charts. Byte for byte the same for the same folder."""
