# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The picture of a study: there is one of any study, and a full disk loses none."""

import errno
import os

import pytest

from alf.errors import SaveError
from alf.studies.lineage import draw_lineage
from alf.studies.ranges import Choice, Uniform
from tests.studies.evolution_test import RANGES, make_evolution, make_reports

pytestmark = pytest.mark.programs


@pytest.mark.parametrize("first", RANGES)
def test_there_is_a_picture_of_any_study(tmp_path, first):
    evolution = make_evolution(quantile=0.4)
    for i, report in enumerate(make_reports(0, num_intervals=4)):
        evolution.report(**report)
        if i in (0, 3, 19):
            state = make_evolution(state=evolution.get_state()) if i == 19 else evolution
            draw_lineage(state.rows, {first: RANGES[first]}, "AverageReturn", str(tmp_path))
            assert (tmp_path / "lineage.png").stat().st_size > 10_000
            (tmp_path / "lineage.png").unlink()


@pytest.mark.parametrize("first", ["Adam.learning_rate", "A.kind"])
def test_a_picture_of_values_that_the_ranges_do_not_have_any_more(tmp_path, first):
    evolution = make_evolution(quantile=0.4)
    for report in make_reports(0, num_intervals=4):
        evolution.report(**report)
    others = {"Adam.learning_rate": Choice(["small", "large"]), "A.kind": Uniform(1.0, 2.0)}
    draw_lineage(evolution.rows, {first: others[first]}, "AverageReturn", str(tmp_path))
    assert (tmp_path / "lineage.png").stat().st_size > 10_000


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch):
    def draw():
        draw_lineage(evolution.rows, RANGES, "AverageReturn", str(tmp_path))

    def fsync(file):
        if os.readlink(f"/proc/self/fd/{file}") == str(tmp_path / "lineage.png.tmp"):
            raise OSError(errno.ENOSPC, "No space left on device")

    evolution = make_evolution(2)
    evolution.report(1, 100, 1.0)
    draw()
    before = (tmp_path / "lineage.png").read_bytes()
    monkeypatch.setattr(os, "fsync", fsync)
    evolution.report(0, 100, 2.0)
    with pytest.raises(SaveError, match="^.*/lineage.png cannot be written: No space left on device$"):
        draw()
    assert (tmp_path / "lineage.png").read_bytes() == before and not list(tmp_path.glob("*.tmp"))
