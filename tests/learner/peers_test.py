# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Two learner processes have equal weights, which are those of one process that learns from both batches."""

import pickle
import subprocess
import sys
import time
from unittest import mock

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import Experience
from alf.errors import ConfigError, LostPeerError
from alf.learner import peers
from alf.training import Experiment
from tests.example_runs import EXAMPLES, build
from tests.learner.peers_program import NUM_ITERATIONS, TIMEOUT, make_driver
from tests.peer_processes import find_free_ports, finish, running_peers, tf_config

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


EXAMPLE = tf_config([1, 2], 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "no JSON",
        EXAMPLE.replace('"worker": [', '"chief": ["a:1"], "worker": ['),
        EXAMPLE.replace('"index": 0', '"index": 2'),
        EXAMPLE.replace(":1", ":port"),
        EXAMPLE.replace(', "task": {"type": "worker", "index": 0}', ""),
    ],
)
def test_wrong_tf_config(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ConfigError, match="the environment variable TF_CONFIG is wrong .* it could be {"):
        peers.make_multi_worker_strategy()


def test_a_port_that_is_taken(monkeypatch):
    ports = find_free_ports(2)
    monkeypatch.setenv("TF_CONFIG", tf_config(ports, 0))
    with peers.socket.create_server(("", ports[0])):
        with pytest.raises(ConfigError, match=f"TF_CONFIG has port {ports[0]} here: .*in use"):
            peers.make_multi_worker_strategy()


def test_a_process_that_does_not_start(monkeypatch):
    ports, start = find_free_ports(2), time.monotonic()
    monkeypatch.setenv("TF_CONFIG", tf_config(ports, 1))
    message = f"start_timeout = 0.5 s nothing listens at localhost:{ports[0]}, .* learner process 0"
    with pytest.raises(LostPeerError, match=message):
        peers.make_multi_worker_strategy(start_timeout=0.5)
    assert 0.5 <= time.monotonic() - start < 60


def test_what_listens_is_no_learner_process(monkeypatch):
    ports = find_free_ports(2)
    monkeypatch.setenv("TF_CONFIG", tf_config(ports, 1))
    make = "peers._CONNECT_SECONDS = 1.0; peers.make_multi_worker_strategy()"
    command = [sys.executable, "-c", f"import alf; from alf.learner import peers; {make}"]
    with peers.socket.create_server(("localhost", ports[0])):
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1
    assert "Timeout (0:00:01)!" in done.stderr and "in make_multi_worker_strategy" in done.stderr


def test_tensorflow_cannot_connect(monkeypatch):
    error = tf.errors.UnavailableError(None, None, "no leader")
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", mock.Mock(side_effect=error))
    monkeypatch.setenv("TF_CONFIG", tf_config(find_free_ports(1), 0))
    with pytest.raises(LostPeerError, match="could not connect the learner processes: no leader"):
        peers.make_multi_worker_strategy()


def test_a_strategy_that_is_made_too_late(monkeypatch, tmp_path):
    monkeypatch.setenv("TF_CONFIG", tf_config(find_free_ports(1), 0))
    changes = ["alf.Learner.strategy = @MultiWorkerMirroredStrategy()"]
    with pytest.raises(ConfigError, match="before TensorFlow starts: set Experiment.strategy_ctor"):
        build(EXAMPLES / "impala_cartpole.gin", tmp_path, changes)


def test_wrong_settings(tmp_path):
    with pytest.raises(ConfigError, match="Peers.timeout is 0: it must be a number"):
        peers.Peers(timeout=0)
    with pytest.raises(ConfigError, match="MultiWorkerMirroredStrategy.start_timeout is None: it must be"):
        peers.make_multi_worker_strategy(start_timeout=None)
    with pytest.raises(ConfigError, match="Experiment.strategy_ctor is 3: .* without parentheses"):
        Experiment(strategy_ctor=3)
    changes = ["Experiment.strategy_ctor = 3"]
    with pytest.raises(ConfigError, match="Experiment.strategy_ctor = 3 is no class or function"):
        build(EXAMPLES / "impala_cartpole.gin", tmp_path, changes)


@gin.configurable
def two_processes():
    """Stands in for the strategy of two processes."""
    strategy = mock.Mock(spec=tf.distribute.MultiWorkerMirroredStrategy, num_replicas_in_sync=2)
    strategy.extended = mock.Mock(worker_devices=("CPU:0",))
    strategy.cluster_resolver.task_id = 1
    return strategy


@pytest.mark.parametrize(
    "gin_file, change, message",
    [
        (
            "impala_cartpole",
            "Experiment.num_collectors = 1",
            "Experiment.num_collectors is 1: several learner",
        ),
        ("dqn_cartpole", "Experiment.num_collectors = 0", "2 learner processes: .* not 'prioritized'"),
    ],
)
def test_what_several_processes_cannot_do(tmp_path, gin_file, change, message):
    changes = ["Experiment.strategy_ctor = @two_processes", change]
    with pytest.raises(ConfigError, match=message):
        build(EXAMPLES / f"{gin_file}.gin", tmp_path, changes)


def test_the_first_process_begins_a_run_that_another_one_continues(tmp_path):
    learner = build(EXAMPLES / "impala_cartpole.gin", tmp_path, []).learner
    learner.synchronize()
    learner.progress.updates.assign(3)
    learner.peers.copy_from_first = lambda variables: [v.assign(tf.zeros_like(v)) for v in variables]
    with pytest.raises(ConfigError, match="continues after 3 updates, but the first one begins a run: its"):
        learner.synchronize()


def test_a_signal_waits_for_the_end_of_the_iteration(tmp_path):
    trainer = build(EXAMPLES / "impala_cartpole.gin", tmp_path, [])
    with mock.patch.object(trainer.driver, "interrupt") as interrupt:
        trainer.learner.peers = mock.Mock(count=2)
        trainer.interrupt("a signal")
        assert not interrupt.called
        trainer.learner.peers = mock.Mock(count=1)
        trainer.interrupt("a signal")
        assert interrupt.called
    trainer.driver.stop()
