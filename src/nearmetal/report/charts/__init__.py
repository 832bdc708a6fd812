"""The report's pictures as Vega-Lite 6 specifications: plain data, drawn by `drawing.py`.

Written as the grammar itself rather than with a builder library, whose import alone would take a sixth of the time a
report may take. Labels and figures arrive as data, never as part of an expression, so a name in a study cannot become
code. Rows are numbered and their names drawn as text above or beside them, which keeps a picture readable in 328 px.
"""
