# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Two learner processes have equal weights, which are those of one process that learns from both batches."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import Experience
from alf.learner import peers
from tests.learner.peers_program import NUM_ITERATIONS, TIMEOUT, make_driver
from tests.peer_processes import find_free_ports, finish, running_peers, tf_config

pytestmark = pytest.mark.programs

DEADLINE = 250  # seconds, for what takes 20


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the two processes pickled."""
    folder = tmp_path_factory.mktemp("peers")
    with running_peers([["tests.learner.peers_program", str(folder)]] * 2) as processes:
        for status, _, stderr in finish(processes, DEADLINE):
            assert status == 0, stderr
    return [pickle.loads((folder / str(index)).read_bytes()) for index in range(2)]


def distance(a, b):
    return max(float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True))


def test_they_begin_with_the_weights_of_the_first(results):
    first, second = results
    assert distance(first["own start"], first["start"]) == 0
    assert distance(first["start"], second["start"]) == 0
    assert distance(second["own start"], second["start"]) > 0.01


def test_each_collects_experience_of_its_own(results):
    first, second = (result["observed"][0].observation for result in results)
    assert first.shape == second.shape and distance([first], [second]) > 0.01


def test_they_make_the_update_of_one_process(results):
    first, second = results
    assert all(np.array_equal(a, b) for a, b in zip(first["end"], second["end"], strict=True))
    learner = make_driver(None).learner
    for variable, value in zip(learner.variables, first["start"], strict=True):
        variable.assign(value)
    summaries = []
    for both in zip(first["observed"], second["observed"], strict=True):
        learner.observe(Experience(*tf.nest.map_structure(lambda *x: tf.concat(x, 0), *both)))
        summaries.append(learner.train())
    assert learner.progress.updates == 2 * NUM_ITERATIONS
    # A gradient of norm 1 has a rounding error of 1e-6 at most; 6 steps of 0.1 follow it.
    expected = [v.numpy() for v in learner.variables]
    is_count = [v.dtype.is_integer for v in learner.variables]
    for ours, theirs, exact in zip(first["end"], expected, is_count, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0 if exact else 1e-6, atol=0 if exact else 1e-5)
    assert distance(first["end"], first["start"]) > 0.01
    for result in results:
        for ours, theirs in zip(result["summaries"], summaries, strict=True):
            for name in ("loss", "value_loss", "kl", "gradient_norm"):
                assert abs(ours[name] - float(theirs[name])) < 1e-4, name


def test_an_update_that_another_process_does_not_make(results):
    error = results[0]["update too many"]
    assert error.startswith("learner process 0 of 2 cannot go on, because another one"), error
    assert f"waited for Peers.timeout = {TIMEOUT:g} s" in error


def test_what_listens_is_no_learner_process(monkeypatch):
    ports = find_free_ports(2)
    monkeypatch.setenv("TF_CONFIG", tf_config(ports, 1))
    make = "peers._CONNECT_SECONDS = 1.0; peers.make_multi_worker_strategy()"
    command = [sys.executable, "-c", f"import alf; from alf.learner import peers; {make}"]
    with peers.socket.create_server(("localhost", ports[0])):
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1
    assert "Timeout (0:00:01)!" in done.stderr and "in make_multi_worker_strategy" in done.stderr
