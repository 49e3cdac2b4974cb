# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Resources: the flags of a sweep and a population, and how many runs have room."""

import os
import re

import pytest

from alf.bin import pbt, sweep
from alf.errors import ConfigError
from alf.studies import resources as resources_module
from alf.studies.placement import find_gpus
from alf.studies.resources import Resources, check_resources, find_place

WRONG = {
    "run_cores": (dict(run_cores=0), "run_cores is 0: it must be a number above 0"),
    "max_cores": (dict(max_cores=0), "max_cores is 0: it must be an integer, at least 1"),
    "run_gpus": (dict(run_gpus=-1), "run_gpus is -1: it must be a number at least 0"),
    "a GPU and a half": (dict(run_gpus=1.5), "run_gpus is 1.5: above 1 it must be a whole number"),
    "few cores": (dict(max_cores=1, run_cores=2), "max_cores is 1: one run needs run_cores=2"),
    "memory": (dict(max_memory=4.0), "max_memory is 4: set run_memory"),
    "run_memory": (dict(run_memory=4.0), "run_memory is 4: set max_memory"),
    "little memory": (
        dict(max_memory=1.0, run_memory=2.0),
        "max_memory is 1: one run needs run_memory=2",
    ),
    "no memory": (dict(max_memory=1.0, run_memory=0.0), "run_memory is 0.0: it must be a number above 0"),
}
NO_ROOM = {
    "no GPUs": (dict(run_gpus=1000), "run_gpus is 1000: TensorFlow sees [0-9]+ GPUs in this process"),
    "many cores": (dict(max_cores=9999), "max_cores is 9999: this process may use [0-9]+ cores"),
    "many run_cores": (dict(run_cores=9999), "run_cores is 9999: this process may use"),
    "no answer": (dict(ray_address="127.0.0.1:1"), "no Ray cluster answers at '127.0.0.1:1'"),
}


@pytest.fixture(autouse=True)
def no_address(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.parametrize("values, message", WRONG.values(), ids=WRONG)
def test_a_wrong_number_is_one_line(values, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        check_resources(Resources(**values))


@pytest.mark.parametrize("values, message", NO_ROOM.values(), ids=NO_ROOM)
def test_where_no_run_has_room_is_one_line(values, message):
    resources = Resources(**values)
    if resources.ray_address is not None:
        pytest.importorskip("ray")
    check_resources(resources)
    with pytest.raises(ConfigError, match=f"^{message}"):
        find_place(resources)


def test_sweeps_and_populations_have_the_same_flags():
    for name, default in Resources._field_defaults.items():
        assert sweep.FLAGS[name].default == pbt.FLAGS[name].default == default
        assert sweep.FLAGS[name].help == pbt.FLAGS[name].help


ROOM = {
    "as many as cores": (8, dict(), 1, 8),
    "members with a core each": (8, dict(), 4, 8),
    "members that share": (2, dict(), 4, 4),
    "a third of two cores": (2, dict(), 3, 3),
    "max_cores": (8, dict(max_cores=2), 4, 4),
    "members that take turns": (8, dict(run_cores=4), 4, 2),
    "memory": (8, dict(run_memory=4.0, max_memory=10.0), 1, 2),
    "half a GPU": (8, dict(run_gpus=0.5), 1, 4),
    "two GPUs": (8, dict(run_gpus=2), 1, 1),
}


@pytest.mark.parametrize("cores, values, num_together, capacity", ROOM.values(), ids=ROOM)
def test_how_many_runs_have_room_on_this_machine(monkeypatch, cores, values, num_together, capacity):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(resources_module, "find_gpus", lambda: ["0", "1"])
    assert find_place(Resources(**values), num_together).capacity == capacity


def test_runs_see_no_gpu_by_default_and_a_line_says_so(monkeypatch, capsys):
    started = []
    monkeypatch.setattr(resources_module, "find_gpus", lambda: ["0", "1"])
    monkeypatch.setattr("alf.studies.placement.RunProcess", lambda *args: started.append(args[-1]))
    find_place(Resources()).start([], "")
    find_place(Resources(run_gpus=1)).start([], "")
    assert started == [[], ["0"]]
    assert re.fullmatch(r"the runs see none of 2 GPUs; run_gpus=1 .*\n", capsys.readouterr().out)


def test_which_gpus_the_runs_share(monkeypatch, subtests):
    for visible, count, gpus in (
        (None, 2, ["0", "1"]),
        ("3, GPU-a,1", 3, ["3", "GPU-a", "1"]),
        ("0,9", 1, ["0"]),  # TensorFlow knows no 9
        ("", 0, []),
        ("-1", 0, []),
    ):
        monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind, n=count: [kind] * n)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with subtests.test(CUDA_VISIBLE_DEVICES=visible):
            assert find_gpus() == gpus
            place = find_place(Resources(run_gpus=len(gpus)))
            assert place._free_gpus == gpus and (not gpus or place.capacity == 1)
