# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Warm start: which variables come from another run's checkpoint, and what is refused."""

import functools
import re
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.bin.command import first_line
from alf.core.nest_utils import to_tensor_spec
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.networks import GRU, ActorCriticNetwork, ObservationEncoder
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy
from alf.policies.data_transformers import ObservationNormalizer
from alf.runs.warm_start import warm_start
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.builders import (
    build_checkpointer,
    build_learner,
    build_offline_driver,
    variables_of,
    write_checkpoint,
)
from tests.training import small_runs

ENCODER = functools.partial(ObservationEncoder, vector_layer_params=(6,))


class Environment(MatchObservationEnvironment):
    """Counts how often it was closed."""

    def __init__(self, seed, made):
        super().__init__(4, seed=seed)
        self.closed = 0
        made.append(self)

    def close(self):
        self.closed += 1


def make_trainer(root_dir, iterations=3, rnn=None, units=8, share_layers=None, made=None, **kwargs):
    """A trainer of `ActorCriticNetwork`s with an encoder that has weights; they move without learning."""
    network = functools.partial(
        ActorCriticNetwork,
        fc_layer_params=(units,),
        encoder=ENCODER,
        rnn=rnn,
        share_layers=share_layers,
    )
    optimizer = optimizers.Adam(0.01)
    move = small_runs.add_to_weights
    experiment = {
        "env": functools.partial(Environment, made=[] if made is None else made),
        "policy": functools.partial(ActorCriticPolicy, network=network),
        "data_transformers": (ObservationNormalizer,),
        "learner": functools.partial(small_runs.make_idle_learner, optimizer=optimizer, move=move),
        "seed": None,
    }
    trainer = small_runs.make_trainer(root_dir, {"num_iterations": iterations}, experiment, **kwargs)
    trainer.optimizer = optimizer
    return trainer


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The directory of a run of 3 iterations, and its trainer."""
    folder = tmp_path_factory.mktemp("source")
    trainer = make_trainer(folder)
    for variable in variables_of(trainer.optimizer):  # as if it had learned
        variable.assign_add(tf.ones_like(variable))
    trainer.train()
    return str(folder), trainer


def values(module):
    return [variable.numpy() for variable in module.variables]


def split(policy, word):
    """The values of the variables of a policy's network inside and outside its attribute `_{word}`."""
    inside = {id(v) for v in getattr(policy._network._torso, f"_{word}").variables}
    parts = [], []
    for variable in policy._network.variables:
        parts[id(variable) not in inside].append(variable.numpy())
    return parts


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_different(ours, theirs):
    """No two kernels are the same; biases start as zeros."""
    kernels = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.ndim == 2]
    assert kernels and not any(np.array_equal(a, b) for a, b in kernels)


@pytest.mark.parametrize("place", ["{}", "{}/checkpoints/ckpt-3"])
def test_the_whole_of_a_run(tmp_path, source, caplog, place):
    folder, theirs = source
    caplog.set_level("INFO", "absl")
    ours = make_trainer(tmp_path / "new", initial_checkpoint=place.format(folder))
    policy = ours.learner.policy
    assert_same(values(policy._network), values(theirs.learner.policy._network))
    assert_same(values(policy.data_transformer), values(theirs.learner.policy.data_transformer))
    assert int(policy.data_transformer._parts[0]._statistics[0]._count) > 0
    assert f"variables of {folder}/checkpoints/ckpt-3" in caplog.text
    # What belongs to the run itself starts anew.
    assert ours.counters == {"iterations": 0, "env_steps": 0}
    assert ours.learner.train_step_counter == 0
    assert len(variables_of(ours.optimizer)) > 9
    assert not any(np.any(variable) for variable in variables_of(ours.optimizer))
    assert ours.train() == (True, "num_iterations=3 reached")


@pytest.mark.parametrize("part", ["encoder", "network/torso/encoder", "/torso/encoder/"])
def test_a_part_of_the_policy(tmp_path, source, part):
    folder, theirs = source
    ours = make_trainer(tmp_path / "new", initial_checkpoint=f"{part}@{folder}", units=9)
    (encoder, rest), (their_encoder, _) = (split(x.learner.policy, "encoder") for x in (ours, theirs))
    assert_same(encoder, their_encoder)
    fresh = make_trainer(tmp_path / "fresh", units=9)
    assert_different(rest, split(fresh.learner.policy, "encoder")[1])
    assert not values(ours.learner.policy.data_transformer)[0].any(), "the statistics"
    for trainer in (ours, fresh):
        trainer.close()


def test_a_part_with_another_head_and_a_recurrent_layer(tmp_path, source):
    folder, theirs = source
    ours = make_trainer(tmp_path / "new", initial_checkpoint=f"torso/layers@{folder}", rnn=GRU)
    (layers, rest), (their_layers, _) = (split(x.learner.policy, "layers") for x in (ours, theirs))
    assert_same(layers, their_layers)
    assert len(rest) > len(split(theirs.learner.policy, "layers")[1])
    ours.close()


def test_a_run_with_several_policies_has_no_single_algorithm(tmp_path):
    path, learner_group = str(tmp_path / "ckpt-1"), tf.Module()
    write_checkpoint(path, learner_group)
    with pytest.raises(ConfigError, match="^Trainer.initial_checkpoint is .*ckpt-1 is of a run with several"):
        make_trainer(tmp_path / "new", initial_checkpoint=path)


def test_a_run_that_continues_ignores_it(tmp_path, source, caplog):
    folder, _ = source
    first = make_trainer(tmp_path / "new", initial_checkpoint=folder)
    first.train()
    caplog.set_level("INFO", "absl")
    again = make_trainer(tmp_path / "new", initial_checkpoint="/has/gone/since", iterations=5)
    assert_same(values(again.learner.policy), values(first.learner.policy))
    assert caplog.text.count("Trainer.initial_checkpoint is ignored") == 1
    assert again.train() == (True, "num_iterations=5 reached")


NOT_THERE = [
    ("nowhere", "nowhere is neither a run nor a checkpoint: "),
    ("encoder@nowhere", "nowhere is neither a run nor a checkpoint: "),
    ("{}/checkpoints/ckpt-2", "ckpt-2 is neither a run nor a checkpoint: "),
    ("{}/checkpoints", r"holds no run: there is no run\.json"),
    ("decoder@{}", "no variable of the checkpoint has 'decoder' in its name; .*torso, encoder, "),
    ("encode@{}", "no variable of the checkpoint has 'encode' in its name"),
    ("progress@{}", "no variable of the checkpoint has 'progress' in its name"),
    ("@{}", "there is no name before the @"),
    ("", "it must be a path"),
    (3, "it must be a path"),
]


def test_what_is_not_there_is_refused(source, subtests):
    folder, trainer = source
    for place, message in NOT_THERE:
        place = place.format(folder) if isinstance(place, str) else place
        with (
            subtests.test(msg=str(place)),
            pytest.raises(ConfigError, match=f"^Trainer.initial_checkpoint is {place!r}: .*{message}"),
        ):
            warm_start(trainer.learner, place)


def test_a_run_that_is_refused_writes_nothing_and_closes_its_environments(tmp_path):
    made = []
    with pytest.raises(ConfigError, match="^Trainer.initial_checkpoint is 'nowhere': "):
        make_trainer(tmp_path / "new", initial_checkpoint="nowhere", made=made)
    assert [env.closed for env in made] == [1]
    assert not (tmp_path / "new").exists()


def test_a_damaged_checkpoint_is_refused(tmp_path, source):
    shutil.copytree(source[0], tmp_path / "source")
    path = tmp_path / "source" / "checkpoints" / "ckpt-3" / "weights.index"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ConfigError, match="ckpt-3 is damaged"):
        warm_start(source[1].learner, str(tmp_path / "source"))


def test_weights_that_are_not_finite_are_refused(tmp_path, source):
    root_dir = shutil.copytree(source[0], tmp_path / "source")
    learner, path = tf.Module(), str(root_dir / "checkpoints" / "ckpt-3")
    trainer = make_trainer(tmp_path / "new")
    learner.algorithm = trainer.learner.algorithm
    variable = learner.algorithm.policy.trainable_variables[0]
    variable.assign(tf.fill(variable.shape, np.inf))
    write_checkpoint(path, learner)
    with pytest.raises(ConfigError, match="ckpt-3 does not fit: policy/network/[^;]* is not finite there$"):
        warm_start(source[1].learner, str(root_dir))
    trainer.close()


def test_shapes_that_do_not_match_are_listed(tmp_path, source):
    with pytest.raises(ConfigError) as info:
        make_trainer(tmp_path / "new", initial_checkpoint=source[0], units=9)
    text = first_line(info.value)
    assert "\n" not in text and "ckpt-3 does not fit: " in text
    assert "policy/network/head/kernel is float32 [8, 4] there, float32 [9, 4] here" in text
    assert text.count(";") == 2, "the head's kernel, a hidden layer's kernel and bias"


def test_names_that_do_not_match_are_listed_up_to_five(tmp_path, source):
    recurrent = make_trainer(tmp_path / "recurrent", rnn=GRU)
    recurrent.save()
    settings = {"rnn": GRU, "share_layers": False}
    with pytest.raises(ConfigError) as info:
        make_trainer(tmp_path / "new", initial_checkpoint=source[0], **settings)
    text = first_line(info.value)
    assert text.count(";") == 4 and re.search(r" and \d+ more$", text)
    assert "policy/network/torso/rnn/weights/0 is not in the checkpoint" in text
    with pytest.raises(ConfigError, match="policy/network/torso/rnn/[^;]* is only in the checkpoint"):
        warm_start(source[1].learner, str(tmp_path / "recurrent"))
    recurrent.close()


def make_algorithm(policy, algorithm, continuous=False):
    env = MatchObservationEnvironment(1, continuous=continuous)
    return algorithm(policy(to_tensor_spec(env.observation_spec()), to_tensor_spec(env.action_spec())))


def start_with(algorithm, place):
    """Lets an algorithm without an optimizer start with the weights of a checkpoint."""
    warm_start(types.SimpleNamespace(learners={"policy": types.SimpleNamespace(algorithm=algorithm)}), place)


def save(folder, algorithm):
    """Writes a checkpoint of an algorithm, none of whose variables is as it was made; returns its path."""
    for number, variable in enumerate(algorithm.variables):
        variable.assign_add(tf.cast(tf.fill(variable.shape, number + 1), variable.dtype))
    learner = build_learner(algorithm, optimizers.Adam())
    return build_checkpointer(folder, build_offline_driver(learner)).save()


def test_a_target_network_is_restored_with_the_whole_and_copied_with_a_part(tmp_path):
    source, whole, part = (make_algorithm(EpsilonGreedyPolicy, DqnAlgorithm) for _ in range(3))
    path = save(tmp_path, source)
    learned, target = values(source.policy.network), values(source._target_network)
    assert not any(np.array_equal(x, y) for x, y in zip(learned, target, strict=True))
    start_with(whole, path)
    assert_same(values(whole.policy.network), learned)
    assert_same(values(whole._target_network), target)
    start_with(part, f"network@{path}")
    assert_same(values(part.policy.network), learned)
    assert_same(values(part._target_network), learned)


@pytest.mark.parametrize(
    "policy, algorithm, continuous",
    [
        (SacPolicy, SacAlgorithm, True),
        (EpsilonGreedyPolicy, DqnAlgorithm, False),
        (ActorCriticPolicy, functools.partial(PPOAlgorithm, target_update_period=2), False),
    ],
)
def test_every_variable_of_algorithm_and_policy_has_a_name(tmp_path, policy, algorithm, continuous):
    source, new = (make_algorithm(policy, algorithm, continuous) for _ in range(2))
    start_with(new, save(tmp_path, source))
    modules = [module for module in new.submodules if hasattr(module, "progress")]
    counters = {id(v) for m in modules for v in tf.nest.flatten(m.progress)}
    assert len(new.variables) > len(counters)
    for ours, theirs in zip(new.variables, source.variables, strict=True):
        if id(ours) not in counters:
            np.testing.assert_array_equal(ours, theirs, err_msg=ours.name)
    assert int(new.progress.updates) == int(new.progress.env_steps) == 0
