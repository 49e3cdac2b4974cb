# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Writes settings.md and the tables in migration/ beside it: `python docs/make_settings.py [--check]`.

The settings come from docstrings, and the tables from alf/config/translations.json and the defaults. With
--check nothing is written; the exit status is 1 if a page is stale.
"""

import re
import sys
from pathlib import Path

from alf.config.listing import format_page, list_settings
from alf.config.registry import import_settings
from alf.config.settings import find_setting
from alf.config.translations import read_tables
from alf.core.startup import import_tensorflow

DOCS = Path(__file__).parent


def fill_tables(text, tables):
    """Returns the text of a page with each table of `read_tables` in place of the first below its heading."""
    for table in tables:
        heading = re.escape(table["heading"])
        found = re.search(rf"^#+ {heading}\n(?:(?!#+ ).*\n)*?((?:\|.*\n)+)", text, re.MULTILINE)
        assert found, f"there is no table below {table['heading']!r}"
        text = text[: found.start(1)] + format_table(table) + text[found.end(1) :]
    return text


def format_table(table):
    """Returns a table in Markdown."""
    if len(table["rows"][0]) == 2:
        rows = [[table["column"], "in ALF"], *table["rows"]]
    else:
        rows = [[table["column"], "its default", "ALF", "its default", "what differs"]]
        rows += [
            [theirs, default, *show_setting(name), difference]
            for theirs, default, name, difference in table["rows"]
        ]
    rows.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)


def show_setting(name):
    """Returns the cells of a setting's name and default."""
    if name == "-":
        return "-", "-"
    default = find_setting(name).default_text
    return f"`{name}`", "-" if default is None else f"`{default}`"


def make_pages():
    """Returns a dict from paths to texts."""
    pages = {DOCS / "settings.md": format_page(list_settings())}
    for page in read_tables():
        path = DOCS / "migration" / f"{page['page']}.md"
        pages[path] = fill_tables(path.read_text(encoding="utf-8"), page["tables"])
    return pages


def main(arguments):
    import_tensorflow()
    import_settings()
    stale = []
    for path, text in make_pages().items():
        if arguments != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(f"docs/{path.relative_to(DOCS)} is stale: run make docs-settings")
    print("\n".join(stale), end="\n" * bool(stale))
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
