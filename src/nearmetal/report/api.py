"""What sections of the report in other packages may rely on: blocks of a section, and what a section is made from.

A name here keeps its meaning and its signature; a change of one is in the changelog. What `ReportInput` holds of a run
is as the run's folder has it.
"""

from nearmetal.report.blocks import Badge as Badge
from nearmetal.report.blocks import Block as Block
from nearmetal.report.blocks import Chart as Chart
from nearmetal.report.blocks import Column as Column
from nearmetal.report.blocks import Notice as Notice
from nearmetal.report.blocks import Panel as Panel
from nearmetal.report.blocks import Paragraph as Paragraph
from nearmetal.report.blocks import Quantity as Quantity
from nearmetal.report.blocks import Section as Section
from nearmetal.report.blocks import Source as Source
from nearmetal.report.blocks import Statement as Statement
from nearmetal.report.blocks import Statements as Statements
from nearmetal.report.blocks import Table as Table
from nearmetal.report.blocks import Terms as Terms
from nearmetal.report.blocks import Tone as Tone
from nearmetal.report.blocks import Value as Value
from nearmetal.report.report_input import ReportInput as ReportInput
from nearmetal.report.report_input import SectionPlugin as SectionPlugin
