"""The report's pictures as Vega-Lite 6 specifications: plain data, drawn by `drawing.py`.

Written as the grammar itself rather than with a builder library, whose import alone would take a sixth of the time a
report may take. Labels and figures arrive as data, never as part of an expression, so a name in a study cannot become
code. Rows are numbered and their names drawn as text above or beside them, which keeps a picture readable in 328 px.
"""

from nearmetal.report.charts.axes import TOO_FAR as TOO_FAR
from nearmetal.report.charts.axes import Axis as Axis
from nearmetal.report.charts.axes import difference_axis as difference_axis
from nearmetal.report.charts.axes import ratio_axis as ratio_axis
from nearmetal.report.charts.forest import ForestRow as ForestRow
from nearmetal.report.charts.forest import Group as Group
from nearmetal.report.charts.forest import draw_forest as draw_forest
from nearmetal.report.charts.grammar import HALF as HALF
from nearmetal.report.charts.grammar import NARROW as NARROW
from nearmetal.report.charts.grammar import WIDE as WIDE
from nearmetal.report.charts.grammar import Spec as Spec
from nearmetal.report.charts.lines import Line as Line
from nearmetal.report.charts.lines import draw_lines as draw_lines
from nearmetal.report.charts.lines import thin_points as thin_points
from nearmetal.report.charts.strips import Strip as Strip
from nearmetal.report.charts.strips import describe_strips as describe_strips
from nearmetal.report.charts.strips import draw_strips as draw_strips
from nearmetal.report.charts.strips import has_dots as has_dots
from nearmetal.report.charts.tooltips import join_tip as join_tip
from nearmetal.report.charts.tooltips import name_block as name_block
