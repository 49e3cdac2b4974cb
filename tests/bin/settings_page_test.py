# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""docs/settings.md is what docs/make_settings.py makes of the docstrings.

Not in the process of the tests: the shortest names of settings depend on what other tests have registered.
"""

import pytest

from tests.programs import ROOT

STALE = "docs/settings.md is stale: run make docs-settings\n"


@pytest.fixture
def make_settings(forks, tmp_path):
    """A function that runs make_settings.py, which is in `tmp_path` with its page, with arguments."""
    script = tmp_path / "make_settings.py"
    script.write_text((ROOT / "docs" / "make_settings.py").read_text())
    (tmp_path / "settings.md").write_text((ROOT / "docs" / "settings.md").read_text())
    return lambda *args: forks.run("tests.bin.fork_jobs:run_script", script, *args, cwd=tmp_path)


def test_the_page_is_not_stale(make_settings):
    assert make_settings("--check") == (0, "", "")


def test_a_page_that_is_stale_or_missing_and_one_that_is_written(make_settings, tmp_path):
    page = (tmp_path / "settings.md").read_text()
    stale = page.replace("Settings", "Setings")
    (tmp_path / "settings.md").write_text(stale)
    assert make_settings("--check") == (1, STALE, "")
    assert (tmp_path / "settings.md").read_text() == stale
    (tmp_path / "settings.md").unlink()
    assert make_settings("--check") == (1, STALE, "")
    assert not (tmp_path / "settings.md").exists()
    assert make_settings() == (0, "", "")
    assert (tmp_path / "settings.md").read_text() == page
