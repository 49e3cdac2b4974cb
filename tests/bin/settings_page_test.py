# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""docs/settings.md and the tables of docs/migration are what docs/make_settings.py makes of the sources.

Not in the process of the tests: the shortest names of settings depend on what other tests have registered.
"""

import shutil

import pytest

from tests.programs import ROOT

pytestmark = pytest.mark.programs

STALE = "docs/settings.md is stale: run make docs-settings\n"


@pytest.fixture
def make_settings(forks, tmp_path):
    """A function that runs make_settings.py, which is in `tmp_path` with its pages, with arguments."""
    script = tmp_path / "make_settings.py"
    script.write_text((ROOT / "docs" / "make_settings.py").read_text())
    (tmp_path / "settings.md").write_text((ROOT / "docs" / "settings.md").read_text())
    shutil.copytree(ROOT / "docs" / "migration", tmp_path / "migration")
    return lambda *args: forks.run("tests.bin.fork_jobs:run_script", script, *args, cwd=tmp_path)


def test_the_pages_are_not_stale(make_settings):
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


def test_a_table_that_is_stale_or_missing(make_settings, tmp_path):
    path = tmp_path / "migration" / "sb3.md"
    page = path.read_text()
    path.write_text(
        page.replace("| `PPOAlgorithm.clip_range` | `0.2` |", "| `PPOAlgorithm.clip_range` | `0.3` |")
    )
    assert make_settings("--check") == (1, STALE.replace("settings.md", "migration/sb3.md", 1), "")
    assert make_settings() == (0, "", "") and path.read_text() == page
    path.write_text(page.partition("| argument")[0])
    status, _, error = make_settings("--check")
    assert status != 0 and "there is no table below 'PPO'" in error
