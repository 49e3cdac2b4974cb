# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf.sweep and alf.pbt: stand-ins take the place of runs."""

import inspect
import json
import os
import signal
import threading

import gin
import pytest

import alf
from alf.bin import pbt, sweep
from alf.errors import ConfigError
from alf.studies import run_study
from alf.studies.ranges import LogUniform
from tests.studies import stand_ins

POPULATION = {
    "Population.settings": {"Adam.learning_rate": LogUniform(1e-4, 1e-2)},
    "Population.interval": 100,
}


@pytest.fixture
def given(monkeypatch):
    """The arguments of the runs, by seed. The return of a stand-in is ten times its seed."""
    make, given = run_study.make_arguments, {}

    def replace(gin_file, run):
        given[run.seed] = make(gin_file, run)
        return stand_ins.make_arguments()(run)

    monkeypatch.setattr(run_study, "make_arguments", replace)
    return given


def test_a_sweep_gives_its_best_run_and_all_runs(tmp_path, given, capsys):
    root_dir = tmp_path / "sweep"
    settings = dict(grid={"learning_rate": [0.1, 0.01]}, gamma=0.9)
    best, table = alf.sweep("CartPole-v1", root_dir, steps=500, seeds=[1, 2], **settings)
    assert [(x["Adam.learning_rate"], x["seed"], x["objective"]) for x in table] == [
        (rate, seed, 10 * seed) for rate in ("0.1", "0.01") for seed in (1, 2)
    ]
    assert best == str(root_dir / table[1]["folder"]) and {x["status"] for x in table} == {"finished"}
    config = (root_dir / "config.gin").read_text()
    for line in ("PPOAlgorithm.discount = 0.9", "StopCriteria.num_env_steps = 500", "'CartPole-v1'"):
        assert line in config
    assert given[2][2:5] == [
        "train",
        str(root_dir / "config.gin"),
        f"--output={root_dir / table[3]['folder']}",
    ]
    assert "--Adam.learning_rate=0.01" in given[2] and "--Experiment.seed=2" in given[2]
    assert gin.config_str() == "" and f"alf play {best}" in capsys.readouterr().out
    again = alf.sweep("CartPole-v1", root_dir, steps=500, seeds=[1, 2], **settings)
    assert again == (best, table) and "starts" not in capsys.readouterr().out


def test_a_population_gives_its_best_member_and_all_intervals(tmp_path, monkeypatch, capsys):
    stand_ins.replace_members(monkeypatch)
    root_dir = tmp_path / "pbt"
    best, table = alf.pbt("CartPole-v1", root_dir, population=2, steps=500, **POPULATION)
    assert best == str(root_dir / "members" / "1")
    assert {(x["member"], x["env_steps"], x["objective"]) for x in table} == {(0, 200, 0.0), (1, 200, 10.0)}
    assert all(1e-4 <= x["Adam.learning_rate"] <= 1e-2 for x in table)
    config = (root_dir / "config.gin").read_text()
    assert "'CartPole-v1'" in config and "Population.interval = " not in config and gin.config_str() == ""
    assert "all members have ended" in capsys.readouterr().out


@pytest.mark.parametrize("in_notebook", [False, True])
def test_ctrl_c_lets_the_runs_of_a_sweep_save(tmp_path, monkeypatch, capsys, in_notebook):
    root_dir, is_over = tmp_path / "sweep", threading.Event()
    slow = stand_ins.make_arguments(seconds=600)
    monkeypatch.setattr(run_study, "make_arguments", lambda gin_file, run: slow(run))
    monkeypatch.setattr("alf.studies.calls.is_notebook", lambda: in_notebook)
    monkeypatch.setattr("alf.training.ending.is_notebook", lambda: in_notebook)

    def press():
        while not is_over.wait(0.02):
            if (root_dir / "events").exists():  # a run has started
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
                return

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    try:
        if in_notebook:
            best, table = alf.sweep("CartPole-v1", root_dir, max_cores=1)
            assert best is None and len(table) == 1
            text = capsys.readouterr().out
        else:
            with pytest.raises(KeyboardInterrupt) as raised:
                alf.sweep("CartPole-v1", root_dir, max_cores=1)
            text = str(raised.value)
    finally:
        is_over.set()
        signal.signal(signal.SIGINT, before)
    assert f"stopped by SIGINT: its runs are saved in {root_dir}. The same call goes on with them" in text
    (done,) = root_dir.glob("runs/*/*/done.json")
    assert json.loads(done.read_text()) == {"status": "INTERRUPTED"}


def test_ranges_of_a_sweep_are_objects(tmp_path, given):
    ranges = {"Sweep.settings": {"Adam.learning_rate": LogUniform(1e-4, 1e-2)}, "Sweep.num_samples": 2}
    _, table = alf.sweep("CartPole-v1", tmp_path / "sweep", **ranges)
    assert len({x["Adam.learning_rate"] for x in table}) == 2


WRONG = {
    "seeds": (alf.sweep, dict(seeds=[1, 1]), "seeds is 1,1: 1 is there twice"),
    "a negative seed": (alf.sweep, dict(seeds=[-1]), r"sweep.seeds\[0\] is -1: "),
    "cores": (alf.sweep, dict(run_cores=0), "sweep.run_cores is 0: "),
    "grid": (alf.sweep, dict(grid={"lerning_rate": [0.1]}), "grid lerning_rate=.0.1.: .*learning_rate"),
    "a setting": (alf.sweep, dict(lerning_rate=0.1), "lerning_rate.*learning_rate"),
    "population": (alf.pbt, dict(population=1, **POPULATION), "pbt.population is 1: "),
    "no ranges": (alf.pbt, dict(population=2), "Population"),
    "an environment of nowhere": (alf.sweep, dict(what=lambda: None), "each run is a process of its own"),
}


@pytest.mark.parametrize("call, values, message", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line_before_anything_is_written(tmp_path, call, values, message):
    with pytest.raises(ConfigError, match=message) as error:
        call(**{"what": "CartPole-v1", "root_dir": tmp_path / "study"} | values)
    assert "\n" not in str(error.value) and not os.listdir(tmp_path) and gin.config_str() == ""


def test_the_words_are_those_of_the_commands():
    for call, command in ((alf.sweep, sweep), (alf.pbt, pbt)):
        words = {*inspect.signature(call).parameters} - {"what", "settings", "root_dir"}
        assert words == {*command.FLAGS} - {"output", "o", "replicate"}
