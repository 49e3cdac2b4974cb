# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Weights on another device than the queues, as on a machine with a GPU; actors on a device of their own."""

import json

import pytest

from tests.programs import ROOT, ForkServer, environment

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A function that runs the program with arguments, in a fork; it returns what that prints."""
    folder = tmp_path_factory.mktemp("forks")
    # TensorFlow must not have started there: the program sets up its devices.
    server = ForkServer(folder, environment(PYTHONPATH=str(ROOT)), "alf", "tests.devices_program")

    def run(*args):
        done = server.run("tests.devices_program:main", *args, cwd=ROOT)
        assert done.status == 0, done.err
        return [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]

    yield run
    server.close()


def test_the_learner_is_on_another_device_than_the_queues(run):
    results = run("learner")
    assert len(results) == 4
    for result in results:
        assert result["learner"] == result["actors"] == ["CPU:1"]
        assert result["updates"] > 0


def test_actors_of_small_networks_are_on_the_host(run):
    for result in run("auto"):
        assert result["learner"] == result["updated on"] == ["CPU:1"], result
        assert result["actors"] == result["rollout"] == ["CPU:0"], result
        assert result["updates"] > 0


def test_the_actors_are_on_a_device_of_their_own(run):
    (result,) = run("actors")
    assert result["learner"] == ["CPU:0"] and result["actors"] == result["rollout"] == ["CPU:1"]
    assert result["updates"] == 20 * 4


def test_learner_device_and_actor_device(run):
    ppo, dqn, synchronous = run("settings")
    for result in ppo, dqn, synchronous:
        assert result["learner"] == result["updated on"] == ["CPU:1"], result
        assert result["actors"] == result["rollout"] == ["CPU:2"], result
        assert result["batches"] == ["CPU:0"]
        assert result["updates"] > 0
    assert dqn["buffer"] == ["CPU:0"]
    assert synchronous["acted with the newest weights"]


def test_batches_are_loaded_to_the_learners_device_before_it_takes_them(run):
    (result,) = run("prefetch")
    assert result["batches"] == result["updated on"] == ["CPU:1"], result
    assert result["updates"] == 20 * 4


def test_checkpoints_do_not_depend_on_the_devices(run, tmp_path):
    (result,) = run("checkpoints", str(tmp_path))
    assert result == {"devices": [["CPU:1"], ["CPU:0"], ["CPU:1"]], "goes on": True}
