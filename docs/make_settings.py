# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Writes settings.md, beside this file, from the docstrings: `python docs/make_settings.py [--check]`.

With --check nothing is written; the exit status is 1 if the page is stale.
"""

import sys
from pathlib import Path

from alf.core.startup import start_tensorflow

start_tensorflow()
from alf.config.listing import format_page, list_settings  # noqa: E402
from alf.config.registry import import_settings  # noqa: E402

PAGE = Path(__file__).with_name("settings.md")


def main(arguments):
    import_settings()
    page = format_page(list_settings())
    if arguments != ["--check"]:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        print("docs/settings.md is stale: run make docs-settings")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
