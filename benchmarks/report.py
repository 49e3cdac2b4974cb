# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Writes what the pages show of all runs in benchmarks/results: `python -m benchmarks.report`.

A table is between the lines `<!-- results: NAME -->` and `<!-- end of results -->` of README.md or
docs/measured.md. Pictures of learning curves are in docs/curves.
"""

import pathlib
import re

from benchmarks import defaults_table, task_pictures, task_table
from benchmarks.peers import scores, table
from benchmarks.series import RESULTS, read_rows

_ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = _ROOT / "docs" / "measured.md"
PAGES = PAGE, _ROOT / "README.md"
# By the name of a table: the file of its runs, and what makes the text of them.
_TABLES = {
    "tasks": ("tasks", task_table.format_tables),
    "defaults": ("defaults", defaults_table.format_tables),
    "returns": ("defaults", defaults_table.format_returns),
    "peers": ("peers", table.format_tables),
    "ratios": ("peers", table.format_last_ratios),
    "seconds": ("peers", scores.format_tables),
}
_REGION = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def replace_tables(page):
    """Returns the text of a page with the tables of the runs in the files."""

    def format_region(match):
        begin, name, end = match.groups()
        file, format_runs = _TABLES[name]
        return f"{begin}{format_runs(read_rows(RESULTS / f'{file}.jsonl'))}\n{end}"

    return _REGION.sub(format_region, page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(replace_tables(path.read_text()))
    task_pictures.write_pictures(read_rows(RESULTS / "tasks.jsonl"), PAGE.parent / "curves")
