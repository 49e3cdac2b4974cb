# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What `mkdocs build` adds to docs/: a page for each file of alf/examples/, and texts of the root.

README.md is the home page. Links of the pages, "../alf/examples/own_env.py" for instance, work in the
repository as they are. Here they become links to these pages.
"""

import os
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
_LANGUAGES = {".gin": "gin", ".py": "python", ".sh": "bash", ".yaml": "yaml"}
_EXAMPLES = "alf/examples"
# Pages that are files of the root.
_TEXTS = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
}
_INDEX = "examples.md"  # not examples/index.md: it would be the index of its section in the navigation


def list_examples():
    """Lists the paths of the files of alf/examples/, relative to this folder."""
    folder = ROOT / _EXAMPLES
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [path.as_posix() for path in files if not {"__pycache__", "__init__.py"} & {*path.parts}]


def on_files(files, config):
    """Adds the pages that are made of other files."""
    pages = {f"examples/{path}.md": _show_file(path) for path in list_examples()}
    pages[_INDEX] = _show_index(list_examples())
    pages |= {name: _show_text(path) for path, name in _TEXTS.items()}
    for name, text in pages.items():
        page = File.generated(config, name, content=text)
        if name.startswith("examples/") or name == "license.md":
            page.inclusion = page.inclusion.NOT_IN_NAV
        files.append(page)
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links to files of the repository into links to pages."""
    folder = os.path.dirname(page.file.src_uri)
    root = "" if page.file.src_uri in _TEXTS.values() else f"docs/{folder}"

    def replace(match):
        path, hash_sign, anchor = match[1].partition("#")
        found = os.path.normpath(os.path.join(root, path)).replace(os.sep, "/")
        name = _page_of(found)
        return match[0] if name is None else f"]({os.path.relpath(name, folder or '.')}{hash_sign}{anchor})"

    return re.sub(r"\]\((?!\w+:|#)([^)\s]+)\)", replace, markdown)


def on_page_content(html, page, config, files):
    """Keeps flags in a text on one line: browsers break `--NAME` after its hyphens."""
    inline = r"(?<!</span>)<code>([^<]*)</code>"  # blocks have a span before
    flag = r"(--[^\s<]+)"
    return re.sub(inline, lambda x: re.sub(flag, r'<span class="flag">\1</span>', x[0]), html)


def _page_of(path):
    """Returns the page of a path in the repository, or None if it is no other one than the path's own."""
    if path.startswith(_EXAMPLES):
        return _INDEX if os.path.isdir(ROOT / path) else f"{path.removeprefix('alf/')}.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return _TEXTS.get(path)


def _show_text(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    return text if path.endswith(".md") else f"# {path.title()}\n\n````text\n{text.rstrip()}\n````\n"


def _show_file(path):
    text = (ROOT / _EXAMPLES / path).read_text(encoding="utf-8")
    language = _LANGUAGES.get(os.path.splitext(path)[1], "text")
    return f"# examples/{path}\n\n````{language}\n{text.rstrip()}\n````\n"


def _show_index(paths):
    run = "`alf train alf:NAME.gin`, or the command that its beginning names"
    lines = ["# Examples", "", f"Each gin file runs as it is: {run}.", ""]
    lines += ["| file | what |", "| --- | --- |"]
    for path in paths:
        link = f"[{path}](examples/{path}.md)"
        lines.append(f"| {link} | {_first_sentence(path)} |")
    return "\n".join(lines) + "\n"


def _first_sentence(path):
    """The first sentence of a file's first comment or docstring, without copyright and how to run it."""
    lines = (ROOT / _EXAMPLES / path).read_text(encoding="utf-8").splitlines()
    lines = [line.strip('#" ') for line in lines if line.startswith(("#", '"'))]
    text = " ".join(line for line in lines if not line.startswith(("Copyright", "!")))
    command = r"(?:, from the folder of the repository)?: +(?=(?:pip|python|docker|kubectl|sbatch|alf) )"
    sentence = re.split(rf"(?<=\.) (?=[A-Z])|{command}", text.strip(), maxsplit=1)[0]
    return sentence.replace("|", "\\|")
