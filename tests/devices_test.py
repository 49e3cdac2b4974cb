# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The choice of devices; training on several devices is in devices_program_test.py, on a GPU in gpu/."""

import functools
import json

import gin
import pytest
import tensorflow as tf

from alf.core.devices import choose_for_answers, choose_for_updates
from alf.core.nest_utils import BoundedTensorSpec
from alf.drivers import AsyncOffPolicyDriver, DriverSettings
from alf.errors import ConfigError
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.policies.policy import count_row_flops
from alf.runs.devices import choose_device, count_update_rows, set_up_devices
from tests.example_runs import EXAMPLES, build


@pytest.mark.parametrize("name", ["Experiment.learner_device", "DriverSettings.actor_device"])
def test_a_device_that_is_not_there(tmp_path, name):
    with pytest.raises(ConfigError, match=f"^{name} is 'GPU:7': this process has CPU:0"):
        build(EXAMPLES / "impala_cartpole.gin", tmp_path, [f"{name} = 'GPU:7'"])


def make_policy(observation_spec):
    return ActorCriticPolicy(observation_spec, BoundedTensorSpec((), tf.int32, 0, 5))


def test_operations_of_a_row_are_those_of_products_and_convolutions():
    make_network = functools.partial(ActorCriticNetwork, fc_layer_params=(10, 20))
    action_spec = BoundedTensorSpec((), tf.int32, 0, 5)
    policy = ActorCriticPolicy(tf.TensorSpec((4,), tf.float32), action_spec, network=make_network)
    hidden = 2 * (4 * 10 + 10 * 20)
    # Then 6 logits; nobody asks for the value.
    assert count_row_flops(policy) == hidden + 2 * 20 * 6
    images = make_policy(tf.TensorSpec((84, 84, 4), tf.uint8))
    convolutions = 20 * 20 * 32 * 8 * 8 * 4 + 9 * 9 * 64 * 4 * 4 * 32 + 7 * 7 * 64 * 3 * 3 * 64
    assert count_row_flops(images) > 2 * (convolutions + 7 * 7 * 64 * 512)
    assert choose_for_updates(1e12) == "CPU:0"  # without a GPU


@pytest.mark.parametrize(
    "rows, learner, actors", [(1, "CPU:0", "CPU:0"), (30, "GPU:0", "CPU:0"), (150, "GPU:0", "GPU:0")]
)
def test_the_rule_of_auto(rows, learner, actors, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["a GPU"])
    flops = rows * 18.7e6  # the network of DQN on Atari
    assert choose_for_updates(flops) == learner
    assert choose_for_answers(flops, learner) == actors


@pytest.mark.parametrize(
    "bindings, num_rows",
    [
        ([], 16 * 8 * 2),
        (["UnrollLearner.num_minibatches = 4"], 16 * 8 * 2 // 4),
        (["UnrollLearner.mini_batch_size = 32"], 32),
        (["DriverSettings.mode = 'lockstep'"], 16 * 8 * 3),
    ],
)
def test_rows_of_an_update_from_unrolls(bindings, num_rows):
    gin.parse_config(["DriverSettings.learn_queue_cap = 2", *bindings])
    assert count_update_rows(["one_time"], DriverSettings(), 3, 16, 8) == num_rows


def test_rows_of_an_update_from_a_replay_buffer():
    gin.parse_config(["ReplayLearner.mini_batch_size = 64", "ReplayLearner.mini_batch_length = 5"])
    assert count_update_rows(["uniform"], DriverSettings(), 3, 16, 8) == 64 * 5


def test_work_that_cannot_be_counted_is_told(caplog, monkeypatch):
    def fail():
        raise TypeError("no graph")

    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["a GPU"])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *_: None)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda *_: None)
    assert set_up_devices("auto", "auto", False, 1000, fail) == "CPU:0"
    assert "the work of the policy cannot be counted (TypeError: no graph)" in caplog.text


@pytest.mark.parametrize(
    "setting, actor_device, needs_gpus, seen",
    [
        ("CPU:0", "auto", False, []),
        ("CPU:0", "CPU:0", False, []),
        ("CPU:0", "GPU:0", False, ["first"]),
        ("CPU:0", "GPU:1", False, ["first", "second"]),
        ("CPU:0", "auto", True, None),
    ],
)
def test_a_run_sees_the_gpus_that_it_uses(setting, actor_device, needs_gpus, seen, monkeypatch):
    found = []
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["first", "second", "third"])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda gpus, kind: found.append(gpus))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, grows: None)
    set_up_devices(setting, actor_device, needs_gpus, 1, None)
    assert found == ([] if seen is None else [seen])


@pytest.mark.parametrize("gpus", [[], ["a GPU"]])
def test_a_strategy_keeps_the_gpus(gpus, monkeypatch):
    hidden = []
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *args: hidden.append(args))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda *_: None)
    parts = AsyncOffPolicyDriver, "one_time", tf.distribute.get_strategy()
    assert choose_device("CPU:0", *parts, (1, 8, 4), None) == "CPU:0"
    assert hidden == []


def test_a_run_records_its_devices(tmp_path):
    trainer = build(EXAMPLES / "impala_cartpole.gin", tmp_path, ["StopCriteria.num_iterations = 1"])
    trainer.train()
    recorded = json.loads((tmp_path / "run.json").read_text())["devices"]
    assert recorded == {"learner": "CPU:0", "actors": "CPU:0"}
