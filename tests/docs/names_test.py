# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the pages name is there: files, settings, the defaults of RLlib in its page of docs/migration."""

import re

import pytest

from alf.config import registry
from alf.config.listing import list_settings
from alf.config.registry import find_all, shorten
from alf.config.translations import read_tables
from tests.docs.blocks import PAGES, ROOT

pytestmark = pytest.mark.programs

registry.import_settings()

_FOLDERS = ("alf", "benchmarks", "docs", "tests")
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}
MIGRATIONS = [name for name in TEXTS if name.startswith("docs/migration/") and "index" not in name]


def find_code(text):
    """Lists the texts between backticks, without the blocks of code."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", TEXTS)
def test_files_exist(page):
    pattern = rf"(?<![\w/.-])(?:{'|'.join(_FOLDERS)})/[\w/.-]+\.(?:py|gin|md|sh|yaml)\b"
    named = set(re.findall(pattern, TEXTS[page]))
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.fixture(scope="module")
def configurables():
    """A dict from the names by which gin files may call them to what they are."""
    names = {}
    for selector, configurable in find_all().items():
        if selector.startswith("alf."):
            for name in (shorten(selector), selector.rpartition(".")[2]):
                names[name] = configurable
    return names


@pytest.fixture(scope="module")
def defaults():
    """A dict from "NAME.PARAMETER" to the default as text; "no default" where there is none."""
    return {f"{x.name}.{p.name}": p.default for x in list_settings() for p in x.parameters}


@pytest.fixture(scope="module")
def classes():
    """The names of all classes in the repository, and of those of libraries that pages name."""
    sources = (path.read_text() for path in ROOT.glob("alf/**/*.py"))
    own = {name for source in sources for name in re.findall(r"^class (\w+)", source, re.MULTILINE)}
    return own | {"N", "NAME", "GROUP"}


@pytest.mark.parametrize("page", [page for page in TEXTS if page not in MIGRATIONS])
def test_settings_exist(page, configurables, classes, defaults):
    wrong = []
    for code in find_code(TEXTS[page]):
        found = re.match(r"(?:\w+/)*((?:[\w]+\.)+)(\w+)(?: = .*)?$", code)
        name, parameter = (found[1].rstrip("."), found[2]) if found else (None, None)
        last = (name or "").rpartition(".")[2]
        if last[:1].isupper() and last not in configurables and last not in classes:
            wrong.append(code)
        if name in configurables and parameter[0].islower():
            short = {
                key.rpartition(".")[2]
                for key in defaults
                if f".{key}".rpartition(".")[0].endswith(f".{name}")
            }
            if parameter not in short and not hasattr(configurables[name], parameter):
                wrong.append(code)
    assert not wrong


@pytest.mark.parametrize("page", MIGRATIONS)
def test_tables_of_migration_pages_are_made_of_data(page):
    """tests/config/translations_test.py checks the data, and tests/bin/settings_page_test.py the tables."""
    tables = {f"docs/migration/{x['page']}.md": x["tables"] for x in read_tables()}
    assert len(re.findall(r"^\| ---", TEXTS[page], re.MULTILINE)) == len(tables.get(page, []))


def test_rllib_defaults_are_those_of_the_installed_one():
    """Of the sources: RLlib itself needs packages that are not here."""
    ray = pytest.importorskip("ray")
    if not ray.__version__.startswith("2.60."):
        pytest.skip(f"the page is about Ray 2.60, and this is {ray.__version__}")
    folder = ROOT.__class__(ray.__file__).parent / "rllib" / "algorithms"
    if not folder.exists():
        pytest.skip("this Ray has no RLlib")
    (page,) = (page for page in read_tables() if page["page"] == "rllib")
    wrong = []
    for table in page["tables"][1:]:
        algorithm = {"PPO and APPO": "ppo", "SAC": "sac", "DQN": "dqn"}.get(table["heading"], "impala")
        theirs = {}
        for path in folder / "algorithm_config.py", folder / algorithm / f"{algorithm}.py":
            # The second overrides the first.
            for name, value in re.findall(
                r"^        self\.(\w+) = ([^\s(#]+)", path.read_text(), re.MULTILINE
            ):
                if value != name:
                    theirs[name] = value.strip("\"'")
        for names, shown, *_ in table["rows"]:
            for name, value in zip(find_code(names), shown.split(", ")):
                if value != "-" and "[" not in name and theirs.get(name) != value:
                    wrong.append((table["heading"], name, value, theirs.get(name)))
    assert not wrong


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    """Those of docs/ are checked when the site is built."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    for path, _, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(#([^)]*))?\)", text):
        target = ROOT / path if path else ROOT / page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in [slug(heading) for heading in headings], f"{path}#{anchor}"
