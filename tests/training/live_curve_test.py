# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LiveCurve: pictures below the cell of a notebook, by a stand-in for IPython."""

import sys
import types

import pytest

import alf
from alf.training.live_curve import LiveCurve, can_show_curves

pytest.importorskip("matplotlib")
SMALL = {"num_envs": 4, "num_groups": 1, "unroll_length": 16, "seed": 0}


@pytest.fixture
def notebook(monkeypatch):
    """IPython in a notebook; yields the list of the pictures that are shown, as (is_new, bytes)."""
    shown = []
    handle = types.SimpleNamespace(update=lambda image: shown.append((False, image)))

    def display(image, display_id):
        assert display_id
        shown.append((True, image))
        return handle

    module = types.ModuleType("IPython")
    module.version_info = (9, 0)  # Matplotlib asks for it
    module.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    module.display = types.SimpleNamespace(Image=lambda data: data, display=display)
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module.display)
    return shown


def test_alf_train_shows_a_curve_in_a_notebook(tmp_path, notebook):
    assert can_show_curves()
    alf.train("CartPole-v1", "impala", 2_000, tmp_path / "run", **SMALL, **{"LiveCurve.interval": 0.0})
    assert len(notebook) > 3
    assert [is_new for is_new, _ in notebook] == [True] + [False] * (len(notebook) - 1)
    assert all(image.startswith(b"\x89PNG") for _, image in notebook)
    assert notebook[0][1] != notebook[-1][1]


def test_no_picture_comes_before_its_time(tmp_path, notebook):
    alf.train("CartPole-v1", "impala", 2_000, tmp_path / "run", **SMALL, **{"LiveCurve.interval": 1e6})
    assert len(notebook) <= 2  # the first one and the last


def test_elsewhere_there_is_none(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not can_show_curves()
    terminal = types.ModuleType("IPython")
    terminal.get_ipython = lambda: types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert not can_show_curves()
    terminal.get_ipython = lambda: None  # a script that only imports it
    assert not can_show_curves()
    assert LiveCurve().get_state() is None
