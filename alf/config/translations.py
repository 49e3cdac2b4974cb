# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Names of settings in other libraries, from translations.json, of which docs/migration is made, too.

Hints and short names look them up. Values are not translated, because many of them mean something else.
"""

import collections
import functools
import json
import re
from pathlib import Path
from typing import Any, NamedTuple


class Translation(NamedTuple):
    """What takes the place of a name of another library.

    Attributes:
        library: name of the library, such as "RLlib".
        setting: name of the setting, or None if it is not exactly one.
        text: how the setting differs ("" if it does not), or what takes the place of the name.
    """

    library: str
    setting: str | None
    text: str


def find_translations(name: str) -> list[Translation]:
    """Lists what takes the place of a name, with or without its class, ignoring upper and lower case."""
    return _list_translations().get(name.lower(), [])


@functools.cache
def read_tables() -> list[dict[str, Any]]:
    """Reads translations.json: a list of dicts, one for each page of docs/migration.

    A dict has the keys "page" (the name of its file), "library" and "tables". A table is a dict with the keys
    "heading" (of the part of the page), "column" (the title of its first column) and "rows". A row is a list
    of texts in Markdown: their names in backticks, their default, the name of ALF's setting or "-", and what
    differs; or only their names and what takes their place.
    """
    path = Path(__file__).with_name("translations.json")
    tables: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return tables


def find_names(cell: str) -> list[str]:
    """Returns the names in the first cell of a row: ["use_rnn", "rnn_type"] of "`--use_rnn`, `rnn_type`".

    Of an entry of a dict it is the key: ["net_arch"] of '`policy_kwargs["net_arch"]`'.
    """
    codes = [re.sub(r"\w+(\[.*\])", r"\1", code) for code in re.findall("`(.*?)`", cell)]
    return [name for code in codes for name in re.findall(r"[A-Za-z_][\w.]*", code)]


@functools.cache
def _list_translations():
    """Returns a dict from names in lower case, with and without the class, to lists of `Translation`s."""
    found = collections.defaultdict(list)
    for page in read_tables():
        for row in (row for table in page["tables"] for row in table["rows"]):
            setting = row[2] if len(row) > 2 and row[2] != "-" else None
            text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row[-1]).replace("`", "")  # without Markdown
            for name in find_names(row[0]):
                found[name.lower()].append(Translation(page["library"], setting, text))
    for name in [name for name in found if "." in name]:
        found[name.rpartition(".")[2]] += found[name]
    return found
