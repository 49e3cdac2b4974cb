# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Writes what docs/measured.md shows of all runs in benchmarks/results: `python -m benchmarks.report`.

A table is between the lines `<!-- results: NAME -->` and `<!-- end of results -->` of the page. Pictures of
learning curves are in docs/curves.
"""

import pathlib
import re

from benchmarks import defaults_table, task_pictures, task_table
from benchmarks.series import RESULTS, read_rows

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "measured.md"
_FORMATS = {"tasks": task_table.format_tables, "defaults": defaults_table.format_tables}
_REGION = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def replace_tables(page):
    """Returns the text of the page with the tables of the runs in the files."""

    def format_region(match):
        begin, name, end = match.groups()
        return f"{begin}{_FORMATS[name](read_rows(RESULTS / f'{name}.jsonl'))}\n{end}"

    return _REGION.sub(format_region, page)


if __name__ == "__main__":
    PAGE.write_text(replace_tables(PAGE.read_text()))
    task_pictures.write_pictures(read_rows(RESULTS / "tasks.jsonl"), PAGE.parent / "curves")
