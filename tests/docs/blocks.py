# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The code blocks of README.md and docs/, and what a command in one of them is.

A block begins with ``` and its language, and perhaps title="FILE", the file that it is. The line before it
may be a comment that says why it is not run: <!-- not run: REASON -->.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
# One page is generated, from docstrings.
PAGES = [ROOT / "README.md", *sorted(x for x in (ROOT / "docs").rglob("*.md") if x.name != "settings.md")]

_BLOCK = re.compile(
    r'(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n)?^```(?P<language>\w*)(?: title="(?P<title>[^"\n]+)")?\n'
    r"(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A code block."""

    page: str  # path relative to the repository
    line: int  # of its ```
    language: str
    title: str | None  # name of the file that it is
    reason: str | None  # why it is not run
    text: str

    @property
    def first_line(self):
        return self.text.partition("\n")[0]


class Command(NamedTuple):
    """A command line of a block, without variables that are set before it and the folder of its program."""

    program: str
    arguments: list


def read_blocks(path):
    """Lists the blocks of a page."""
    text, page = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    blocks = []
    for found in _BLOCK.finditer(text):
        fields = found.groupdict()
        line = text.count("\n", 0, found.start("language")) + 1
        blocks.append(Block(page=page, line=line, **fields))
    return blocks


def read_commands(block):
    """Lists the `Command`s of a block; lines that end with a backslash are joined."""
    commands = []
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):
            del words[0]
        if words:
            commands.append(Command(words[0].removeprefix(".venv/bin/"), words[1:]))
    return commands
