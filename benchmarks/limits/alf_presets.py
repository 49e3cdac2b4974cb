# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ALF's presets, and the lean programs of the same weights, settings and data."""

import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from alf.config.registry import list_bindings, own_config
from alf.data_structures import FIRST
from alf.learner.minibatches import shuffle_in_parts
from alf.learner.optimizers import Adam
from alf.ops.unit_box import action_to_unit_box
from alf.runs.presets import make_parts, read_what
from alf.runs.what import find_what
from benchmarks.limits.dqn import Dqn, Sequences
from benchmarks.limits.impala import Impala
from benchmarks.limits.parts import Batch
from benchmarks.limits.ppo import Ppo
from benchmarks.limits.sac import Sac, Transitions

_ACTOR_CRITIC = "policy", "value"  # the groups of variables of PPO and IMPALA


class Preset:
    """Driver and learner of a preset, and its settings.

    Args:
        env, algorithm: texts, as for `alf train`.
        **settings: more of them.
    """

    def __init__(self, env, algorithm, **settings):
        with own_config():
            read_what(find_what(env), algorithm, None, settings)
            self.driver, self.learner = make_parts()
            bound = list_bindings()
        self._bound = {name.rpartition(".")[2]: values for (_, name), values in bound.items()}

    def read(self, name, *arguments):
        """Returns a dict of settings of a class, by the names of its constructor's arguments."""
        return {x: self._bound[name][x] for x in arguments}

    @property
    def num_envs(self):
        return self._bound["Experiment"]["num_envs"]

    @property
    def unroll_length(self):
        return self._bound["Experiment"]["unroll_length"]

    @property
    def num_minibatches(self):
        train = self._bound["UnrollLearner"]
        if size := train.get("mini_batch_size"):
            return self.num_envs * self.unroll_length // size
        return train["num_minibatches"]

    def make_ppo(self):
        """Makes the lean program of PPO with the weights of now."""
        names = "discount", "lambda_", "clip_range", "value_loss_weight", "entropy_weight"
        return self._make(Ppo, "PPOAlgorithm", names)

    def make_impala(self):
        """Makes the lean program of IMPALA with the weights of now."""
        names = "discount", "vtrace_lambda", "value_loss_weight", "entropy_weight"
        return self._make(Impala, "ImpalaAlgorithm", names)

    def read_orders(self):
        """Returns a dict of the epochs, and of the steps of a segment, `recurrence`."""
        train = self._bound["UnrollLearner"]
        return {"num_epochs": train.get("num_epochs", 1), "recurrence": train["recurrence"]}

    def _make(self, program, algorithm, names):
        networks = [self.weights(group) for group in _ACTOR_CRITIC]
        segment = self.read_orders()["recurrence"]
        return program(*networks, segment=segment, **self.read(algorithm, *names), **self.adam())

    def adam(self):
        """Returns the arguments of `Weights`, with Adam's defaults for what the preset does not set."""
        defaults = {x.name: x.default for x in inspect.signature(Adam).parameters.values()}
        limit = self._bound.get("LearnerSettings", {}).get("max_grad_norm")
        return {**defaults, **self._bound["Adam"], "max_grad_norm": limit}

    def weights(self, group):
        """Returns the kernels and biases of a group of variables, arrays, from the input to the output."""
        variables = [x.numpy() for x in self.learner.algorithm.parameter_groups()[group]]
        if len(variables) == 1:
            return variables
        layers = list(zip(variables[1::2], variables[::2]))
        if layers[0][0].shape[1] != layers[1][0].shape[0]:
            layers = [*layers[1:], layers[0]]  # the head stands in front
        return [x for layer in layers for x in layer]

    def collect(self, number=1):
        """Returns `Experience`s of [Q, T+1, B, ...], and stops the driver."""
        batches = []
        self.learner.synchronize()
        self.driver.start()
        try:
            while len(batches) < number:
                batches += self.driver.collect()
        finally:
            self.driver.stop()
        return batches[:number]


class Pair(NamedTuple):
    """ALF and the lean program with the same weights, settings and data.

    Attributes:
        alf, lean: callables (), which make `updates` updates and return the mean loss, a float.
        alf_weights, lean_weights: callables () -> list of arrays, in one order.
    """

    updates: int
    alf: Callable[[], float]
    lean: Callable[[], float]
    alf_weights: Callable[[], list]
    lean_weights: Callable[[], list]

    def difference(self):
        """Returns the largest difference of a weight."""
        pairs = zip(self.alf_weights(), self.lean_weights(), strict=True)
        return max(float(np.abs(x - y).max()) for x, y in pairs)


def make_ppo(env="CartPole-v1", **settings):
    """Makes the `Pair` of PPO; the lean program gets the orders of minibatches that ALF draws."""
    return _make_fresh(Preset(env, "ppo", **settings), Preset.make_ppo)


def make_impala(env="CartPole-v1", **settings):
    """Makes the `Pair` of IMPALA; the lean program gets the orders of minibatches that ALF draws."""
    return _make_fresh(Preset(env, "impala", **settings), Preset.make_impala)


def _make_fresh(preset, make):
    (experience,) = preset.collect()
    sizes = preset.read_orders()
    lean, batch = make(preset), _join(experience)
    columns = (batch.reward.shape[0] - 1) // sizes["recurrence"] * batch.reward.shape[1]
    orders = _draw_orders(preset.learner, columns, sizes["num_epochs"], preset.num_minibatches)
    alf = functools.partial(_observe_and_train, preset.learner, experience)
    return _pair(preset, _ACTOR_CRITIC, alf, lean, lambda: float(lean.train(batch, orders)), orders.shape[0])


def copy_scales(lean, transformer):
    """Copies the moments of ALF's normalizers; the lean program derives the rest of their variables."""
    moments = [x for x in transformer.variables if x.dtype == tf.float64]
    for ours, theirs in zip(lean.scales.variables, moments, strict=True):
        ours.assign(theirs)


def make_dqn(env="CartPole-v1", updates=1, steps=1000, **settings):
    """Makes the `Pair` of DQN; the lean program gets the sequences that ALF draws now."""
    preset = _replay_preset(env, "dqn", updates, steps, settings)
    learner, names = preset.learner, ("discount", "tau")
    lean = Dqn(preset.weights("all"), **preset.read("DqnAlgorithm", *names), **preset.adam())
    copy_scales(lean, learner.policy.data_transformer)
    _set_priorities(learner.replayer, learner.progress)
    batches = [(rows, weight) for rows, weight, _ in _draw(preset, updates)]
    rows = [Sequences(x.step_type, x.reward, x.discount, x.observation, x.action, y) for x, y in batches]
    joined = tf.nest.map_structure(lambda *x: tf.stack(x), *rows)
    alf = functools.partial(_train, learner)
    return _pair(preset, ("all",), alf, lean, lambda: float(lean.train(joined)[0]), updates)


def make_sac(env="HalfCheetah-v5", updates=1, steps=256, **settings):
    """Makes the `Pair` of SAC; the lean program gets the transitions and the noise that ALF draws."""
    preset = _replay_preset(env, "sac", updates, steps, settings)
    learner, names = preset.learner, ("initial_alpha", "discount", "tau")
    critics = preset.weights("critic")
    half = len(critics) // 2
    actor, critics = preset.weights("actor"), (critics[:half], critics[half:])
    lean = Sac(actor, critics, **preset.read("SacAlgorithm", *names), **preset.adam())
    spec = learner.policy.action_spec
    rows = []
    for x, weight, (noise, next_noise) in _draw(preset, updates):
        action = action_to_unit_box(x.action[0], spec)
        weight = weight * tf.cast(x.step_type[1] != FIRST, tf.float32)
        observation = tf.cast(x.observation, tf.float32)  # MuJoCo's are float64
        ends = x.reward[1], x.discount[1], observation[1], weight
        rows.append(Transitions(observation[0], action, *ends, noise[0], next_noise[0]))
    joined = tf.nest.map_structure(lambda *x: tf.stack(x), *rows)
    groups = "critic", "actor", "alpha"
    return _pair(
        preset, groups, functools.partial(_train, learner), lean, lambda: float(lean.train(joined)), updates
    )


def _train(learner):
    return float(learner.train()["loss"])


def _replay_preset(env, algorithm, updates, steps, settings):
    """Makes a `Preset` that makes so many updates a call, with so many steps in its buffer."""
    ratio = {"replay_ratio": None, "num_updates_per_train_iter": updates}
    preset = Preset(env, algorithm, initial_collect_steps=0, **ratio, **settings)
    for experience in preset.collect(-(-steps // (preset.num_envs * preset.unroll_length))):
        preset.learner.observe(experience)
    return preset


def _set_priorities(replayer, progress):
    """Gives some sequences other priorities, as updates would: else the weights of all were 1."""
    _, sequences, _ = replayer.sample(1024, 3, progress)
    replayer.update_priorities(sequences, np.random.default_rng(0).uniform(0.1, 2.0, 1024))


def _draw(preset, updates):
    """Draws what the next call of `Learner.train` draws: rows, weights and `preprocess` of each update."""
    learner = preset.learner
    sizes = tuple(preset.read("ReplayLearner", "mini_batch_size", "mini_batch_length").values())
    size = sizes[0]
    with learner.stream.at([(0, learner.progress.updates)]):
        rows, _, weight = learner.replayer.sample(*sizes, learner.progress, updates)
        prepared = learner.algorithm.preprocess(rows)
    parts = [slice(i * size, (i + 1) * size) for i in range(updates)]

    def cut(nest, part):
        return tf.nest.map_structure(lambda x: x[:, part], nest)

    return [(cut(rows._replace(state=()), part), weight[part], cut(prepared, part)) for part in parts]


def _observe_and_train(learner, experience):
    """Makes the updates of a batch; returns the mean loss."""
    learner.observe(experience)
    return _train(learner)


def _pair(preset, groups, alf, lean, train, updates):
    """Makes a `Pair`; `groups` are ALF's groups of variables in the order of the lean program's networks."""

    def weights():
        return [x for group in groups for x in preset.weights(group)]

    return Pair(updates, alf, train, weights, lambda: tf.nest.flatten(list(lean.weights.numpy().values())))


def _join(experience):
    """Joins the unrolls of an `Experience` of [Q, T+1, B, ...] to columns of a `Batch`."""

    def join(x):
        return tf.concat(tf.unstack(x), 1)

    sums = experience.state.transformer[-1]
    return Batch(
        step_type=join(experience.step_type),
        reward=join(experience.reward),
        discount=join(experience.discount),
        observation=join(experience.observation),
        action=join(experience.info.raw),
        logits=join(experience.info.params),
        sums=tf.reshape(sums, [-1]),
    )


def _draw_orders(learner, columns, epochs, minibatches):
    """Draws the orders of columns that the next call of `Learner.train` draws, int32 [updates, size]."""
    return shuffle_in_parts(columns, epochs, minibatches, learner.stream.spawn(1), learner.progress.updates)
