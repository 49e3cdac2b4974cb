# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""docs/measured.md: each table has a machine, a day and a command; README's tables are of this page."""

import importlib
import re

import pytest

from tests.docs.blocks import PAGES, ROOT
from tests.docs.blocks_test import check_benchmark

pytestmark = pytest.mark.programs

PAGE = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
MACHINES = re.findall(r"\*\*([\w ]+)\*\*: an", PAGE)
COMPUTED = "Computed from the tables above, not measured: "


def read_tables(text):
    """Lists the tables of a text: the paragraph before each, its header and its rows, lists of cells."""
    parts = re.split(r"\n\n+", text)
    tables = []
    for before, part in zip(parts, parts[1:]):
        if part.startswith("| "):
            cells = [[x.strip() for x in line.strip()[1:-1].split("|")] for line in part.splitlines()]
            tables.append((re.sub("^<!-- results: .* -->\n", "", before), cells[0], cells[2:]))
    return tables


def test_each_table_has_a_machine_a_day_and_a_command(subtests):
    tables = read_tables(PAGE)
    assert len(tables) > 30 and {"Xeon", "EPYC"} <= set(MACHINES)
    caption = rf"(?:{'|'.join(MACHINES)}), 20\d\d-\d\d-\d\d, `([^`]+)`"
    for before, header, _ in tables:
        with subtests.test(header[0]):
            found = re.match(caption, before)
            assert found or before.startswith(COMPUTED), before
            if found:
                check_command(*re.sub(r"[\[\]]", "", found[1]).split())


def check_command(program, *arguments):
    """Asserts that a module of benchmarks has the flags, or that a subcommand and the files are there."""
    if program == "alf":
        importlib.import_module(f"alf.bin.{arguments[0]}")
    elif arguments[0] == "-m":
        check_benchmark(arguments[1:])
    files = [x for x in arguments if re.match(r"examples/[a-z].*\.gin$", x)]
    assert program in ("alf", "python") and all((ROOT / "alf" / x).is_file() for x in files)


def test_the_tables_of_the_readme_are_those_of_the_page():
    """Its rows and columns are some of a table there, without the ranges."""
    ours = [(header, rows) for _, header, rows in read_tables(README) if header[0] != "question"]
    assert len(ours) == 2
    for header, rows in ours:
        (there,) = [x for x in read_tables(PAGE) if set(header) <= set(x[1]) and find(x, header, rows[0])]
        assert not [row for row in rows if not find(there, header, row)]


def find(table, header, row):
    """Whether a row is in a table that has more columns."""
    _, names, rows = table
    columns = [names.index(name) for name in header]
    return row in [[re.sub(r" \([\d.,]+ to [\d.,]+\)", "", cells[i]) for i in columns] for cells in rows]


def test_no_other_page_has_figures_of_speed():
    """Only a rough magnitude, without the digits of a measurement."""
    others = [x for x in PAGES if x.name != "measured.md"]
    figure = re.compile(r"\d[\d,.]* (?:steps/s|updates/s|MB/s|GB/s|environment steps per second)")
    assert not [(x.name, found) for x in others for found in figure.findall(x.read_text(encoding="utf-8"))]
