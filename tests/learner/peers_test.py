# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learner processes that train together: what is wrong before they do. `peers_program_test` starts some."""

import time
from unittest import mock

import gin
import pytest
import tensorflow as tf

from alf.errors import ConfigError, LostPeerError
from alf.learner import optimizers, peers
from alf.training import Experiment
from tests.example_runs import EXAMPLES, build
from tests.learner.learner_test import make_learner
from tests.peer_processes import find_free_ports, tf_config

EXAMPLE = tf_config([1, 2], 0)


WRONG_TEXTS = [
    "",
    "{}",
    "no JSON",
    EXAMPLE.replace('"worker": [', '"chief": ["a:1"], "worker": ['),
    EXAMPLE.replace('"index": 0', '"index": 2'),
    EXAMPLE.replace(":1", ":port"),
    EXAMPLE.replace(', "task": {"type": "worker", "index": 0}', ""),
]


def test_a_wrong_tf_config_is_named(monkeypatch, subtests):
    message = "the environment variable TF_CONFIG is wrong .* it could be {"
    for text in WRONG_TEXTS:
        monkeypatch.setenv("TF_CONFIG", text)
        with subtests.test(text), pytest.raises(ConfigError, match=message):
            peers.make_multi_worker_strategy()


def test_a_port_that_is_taken_is_named(monkeypatch):
    ports = find_free_ports(2)
    monkeypatch.setenv("TF_CONFIG", tf_config(ports, 0))
    with peers.socket.create_server(("", ports[0])):
        with pytest.raises(ConfigError, match=f"TF_CONFIG has port {ports[0]} here: .*in use"):
            peers.make_multi_worker_strategy()


def test_a_process_that_does_not_start_is_named(monkeypatch):
    ports, start = find_free_ports(2), time.monotonic()
    monkeypatch.setenv("TF_CONFIG", tf_config(ports, 1))
    message = f"start_timeout = 0.2 s nothing listens at localhost:{ports[0]}, .* learner process 0"
    with pytest.raises(LostPeerError, match=message):
        peers.make_multi_worker_strategy(start_timeout=0.2)
    assert 0.2 <= time.monotonic() - start < 60


def test_an_error_of_tensorflow_while_it_connects_is_shown(monkeypatch):
    error = tf.errors.UnavailableError(None, None, "no leader")
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", mock.Mock(side_effect=error))
    monkeypatch.setenv("TF_CONFIG", tf_config(find_free_ports(1), 0))
    with pytest.raises(LostPeerError, match="could not connect the learner processes: no leader"):
        peers.make_multi_worker_strategy()


def test_a_strategy_that_is_made_too_late_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("TF_CONFIG", tf_config(find_free_ports(1), 0))
    tf.zeros([])
    with pytest.raises(ConfigError, match="must be made before TensorFlow starts, as Exp"):
        build(
            EXAMPLES / "impala_cartpole.gin", tmp_path, ["Experiment.strategy = @MultiWorkerMirroredStrategy"]
        )


def build_with_three(tmp_path):
    build(EXAMPLES / "impala_cartpole.gin", tmp_path, ["Experiment.strategy = 3"])


OF_STRATEGY = "Experiment.strategy is 3: it must be a class or function"
WRONG_SETTINGS = [
    (lambda _: peers.Peers(timeout=0), "Peers.timeout is 0: it must be a number"),
    (
        lambda _: peers.make_multi_worker_strategy(start_timeout=None),
        "MultiWorkerMirroredStrategy.start_timeout is None: it must be",
    ),
    (lambda _: Experiment(strategy=3), OF_STRATEGY),
    (build_with_three, OF_STRATEGY),
]


@pytest.mark.parametrize("call, message", WRONG_SETTINGS)
def test_wrong_settings_are_named(tmp_path, call, message):
    with pytest.raises(ConfigError, match=message):
        call(tmp_path)


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
            "Experiment.strategy has 2 processes: they cannot have collectors yet",
        ),
        ("dqn_cartpole", "Experiment.num_collectors = 0", "2 learner processes: .* not 'prioritized'"),
    ],
)
def test_settings_that_several_processes_cannot_have_are_refused(tmp_path, gin_file, change, message):
    changes = ["Experiment.strategy = @two_processes", change]
    with pytest.raises(ConfigError, match=message):
        build(EXAMPLES / f"{gin_file}.gin", tmp_path, changes)


def test_a_process_that_continues_a_run_does_not_join_one_that_begins(tmp_path):
    learner = build(EXAMPLES / "impala_cartpole.gin", tmp_path, []).learner
    learner.synchronize()
    learner.progress.updates.assign(3)
    learner.peers.copy_from_first = lambda variables: [v.assign(tf.zeros_like(v)) for v in variables]
    with pytest.raises(ConfigError, match="continues after 3 updates, but the first one begins a run: its"):
        learner.synchronize()


def test_all_processes_begin_with_the_variables_of_the_first_ones_optimizer(monkeypatch):
    learner, copied = make_learner(optimizer=optimizers.Adam(0.5)), []
    monkeypatch.setattr(learner.peers, "copy_from_first", copied.extend)
    learner.synchronize()
    own = {*map(id, learner._optimizer.variables)} - {*map(id, learner.algorithm.variables)}
    assert len(own) == 1 + 2 * 2, "the step, and two averages for each of two variables"
    expected = learner.variables
    assert own < {*map(id, expected)}
    assert sorted(map(id, copied)) == sorted(map(id, expected))


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
