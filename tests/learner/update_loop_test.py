# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UpdateLoop: XLA makes the same updates, on copies of the variables, or says why it does not."""

import functools
import random
import re
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.core.tf_private import find_written
from alf.drivers import EnvSpecs
from alf.errors import ConfigError, DivergedError, EnvError
from alf.learner import UnrollLearner, optimizers, update_loop
from alf.networks import GRU, ActorCriticNetwork
from alf.ops.draws import Stream
from alf.policies import ActorCriticPolicy
from tests.builders import build_learner
from tests.learner.small_learners import collect, make_env, make_learner

SMALL_GRU = functools.partial(GRU, units=4)
TARGET = functools.partial(PPOAlgorithm, target_update_period=3)
STOPPING = functools.partial(PPOAlgorithm, target_kl=1e-3)


def make(algorithm, jit_compile, continuous=False, rnn=None, **settings):
    """A learner whose weights and draws are the same in each call."""
    random.seed(0)
    settings.setdefault("optimizer", optimizers.Adam(0.02))
    learner = make_learner(algorithm, make_env(continuous), rnn, jit_compile=jit_compile, **settings)
    learner.stream = Stream(1)
    return learner


def train(learner, continuous=False, count=3, change=lambda experience: experience):
    """Trains on some unrolls, the same in each call; returns what the last call showed."""
    for i in range(count):
        random.seed(i)
        tf.random.set_seed(i)
        learner.observe(change(collect(make_env(continuous), learner)))
        shown = learner.train()
    return {name: float(value) for name, value in shown.items()}


def assert_same(ours, theirs, **tolerances):
    for x, y in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_allclose(x, y, **(tolerances or {"atol": 1e-5}), err_msg=x.name)


@pytest.mark.parametrize(
    "algorithm, continuous, rnn, settings",
    [
        (ImpalaAlgorithm, False, None, {}),
        (PPOAlgorithm, False, SMALL_GRU, {"max_grad_norm": 0.1}),
        (TARGET, True, None, {"max_policy_lag": 2}),
        (STOPPING, False, None, {}),
        (DqnAlgorithm, False, SMALL_GRU, {}),
        (SacAlgorithm, True, None, {}),
        (SacAlgorithm, False, None, {}),
    ],
)
def test_xla_makes_the_same_updates(algorithm, continuous, rnn, settings):
    plain, compiled = (make(algorithm, way, continuous, rnn, **settings) for way in (False, True))
    shown, compiled_shown = (train(learner, continuous) for learner in (plain, compiled))
    assert compiled._loop.compiles(10, 0) and not plain._loop.compiles(10, 10**9)
    assert compiled._loop._copies, "it went the plain way"
    assert compiled_shown == pytest.approx(shown, rel=1e-4, abs=1e-5)
    assert_same(compiled, plain)
    assert int(plain.progress.updates) > 2


def test_a_divergence_from_the_proximal_policy_stops_after_the_same_update():
    plain, compiled = (make(STOPPING, way, optimizer=optimizers.SGD(1.0)) for way in (False, True))
    counts = []
    for learner in (plain, compiled):
        train(learner)
        counts.append(int(learner.progress.updates))
    assert counts[0] == counts[1] < 3 * 4, "no update was skipped"


class DivergesAtThird(PPOAlgorithm):
    """The loss of the third update is NaN."""

    def calc_loss(self, experience, train_info):
        info = super().calc_loss(experience, train_info)
        factor = tf.where(tf.equal(self.progress.updates, 2), float("nan"), 1.0)
        return info._replace(loss=info.loss * factor)


def test_after_an_update_that_is_not_finite_those_before_it_are_there():
    plain, compiled = (make(DivergesAtThird, way) for way in (False, True))
    for learner in (plain, compiled):
        with pytest.raises(DivergedError, match="after 2 updates"):
            train(learner, count=1)
    assert_same(compiled, plain)
    assert int(compiled.progress.updates) == 2
    assert all(np.all(np.isfinite(x)) for x in compiled.algorithm.trainable_variables)


@pytest.mark.parametrize("algorithm", [ImpalaAlgorithm, PPOAlgorithm])
def test_a_reward_that_is_not_finite_is_named(algorithm):
    learner = make(algorithm, True)
    before = [np.array(x) for x in learner.list_learned()]
    with pytest.raises(EnvError, match="reward"):
        train(learner, count=1, change=lambda x: x._replace(reward=x.reward * float("nan")))
    for x, y in zip(before, learner.list_learned(), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_program_writes_none_of_the_variables_that_actors_read(monkeypatch):
    called = []
    call_flat = update_loop.call_flat
    note = lambda *args: called.append(args) or call_flat(*args)  # noqa: E731
    monkeypatch.setattr(update_loop, "call_flat", note)
    learner = make(PPOAlgorithm, True)
    train(learner, count=1)
    (program, _, captured) = called[-1]
    written = {id(handle) for handle in find_written(program)}
    variables = {id(variable.handle) for variable in learner.variables}
    assert {id(x.handle) for x in learner.algorithm.trainable_variables} <= written <= variables
    assert not written & {id(tensor) for tensor in captured}, "actors would wait for the whole program"
    copies = {id(copy.handle) for copy in learner._loop._copies.values()}
    assert len(copies & {id(tensor) for tensor in captured}) == len(written)


def test_a_reader_of_the_weights_does_not_wait_for_the_program():
    specs = EnvSpecs([make_env()])
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(1024, 1024))
    policy = ActorCriticPolicy(specs.observation, specs.action, network)
    training = functools.partial(UnrollLearner, num_epochs=20, num_minibatches=2)
    learner = build_learner(PPOAlgorithm(policy), optimizers.Adam(1e-4), training, jit_compile=True)
    experience = collect(make_env(), learner)
    learner.observe(experience)
    learner.train()  # which compiles
    weight, shares = policy.trainable_variables[0], []
    for _ in range(5):
        learner.observe(experience)
        waits, is_done = [], threading.Event()

        def read(waits=waits, is_done=is_done):
            while not is_done.is_set():
                start = time.monotonic()
                weight.numpy()
                waits.append(time.monotonic() - start)

        reader = threading.Thread(target=read)
        reader.start()
        start = time.monotonic()
        learner.train()
        seconds = time.monotonic() - start
        is_done.set()
        reader.join()
        shares.append(max(waits) / seconds)
    # A program that wrote the weights themselves would hold their locks for nearly all of its time. The best
    # of five, because other processes may stop the reader for a while.
    assert min(shares) < 0.3, shares


def test_the_copies_follow_what_others_assign():
    plain, compiled = (make(PPOAlgorithm, way) for way in (False, True))
    for learner in (plain, compiled):
        train(learner, count=1)
        for variable in learner.list_learned():
            variable.assign(tf.cast(variable, variable.dtype) * 0)
        train(learner, count=1)
    assert_same(compiled, plain)


class Checking(PPOAlgorithm):
    """Its loss has a check, as users write it."""

    bound = 10.0

    def calc_loss(self, experience, train_info):
        tf.debugging.assert_less(tf.reduce_max(tf.abs(experience.reward)), self.bound, "too large a reward")
        return super().calc_loss(experience, train_info)


class CallingPython(PPOAlgorithm):
    """A hook calls Python."""

    calls = 0

    def after_update(self, experience, train_info):
        def count():
            CallingPython.calls += 1

        tf.py_function(count, [], [])


class WithTexts(PPOAlgorithm):
    """A hook has an operation that XLA does not know."""

    def summarize_train(self, experience, train_info, loss_info):
        return {"length": tf.strings.length(tf.as_string(loss_info.loss))}


UNKNOWN = tf.Variable(0)


class WritingElsewhere(PPOAlgorithm):
    """A hook writes a variable that the algorithm does not hold."""

    def after_update(self, experience, train_info):
        UNKNOWN.assign_add(1)


@pytest.mark.parametrize(
    "algorithm, reason",
    [
        (Checking, r"has no .*[Aa]ssert.*, which calc_loss \(.*update_loop_test.py:\d+\) adds"),
        (CallingPython, r"has no EagerPyFunc, which after_update \(.*update_loop_test.py:\d+\) adds"),
        (WithTexts, "XLA|compil"),
        (WritingElsewhere, "variable that no attribute of the algorithm holds"),
    ],
)
def test_what_xla_cannot_do_is_done_without_it(algorithm, reason, caplog):
    learner, plain = (make(algorithm, way) for way in (True, False))
    calls, unknown = CallingPython.calls, int(UNKNOWN)
    train(learner)
    (record,) = [record for record in caplog.records if "jit_compile" in record.message]
    assert not learner._loop.compiles(10, 10**9)
    assert re.search(reason, record.message), record.message
    train(plain)
    assert_same(learner, plain)
    updates = 3 * 4
    assert CallingPython.calls - calls in (0, 2 * updates) and int(UNKNOWN) - unknown in (0, 2 * updates)


def test_the_check_of_a_loss_is_not_lost(monkeypatch):
    monkeypatch.setattr(Checking, "bound", -1.0)
    learner = make(Checking, True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large a reward"):
        train(learner, count=1)


def test_an_error_that_compiling_does_not_cause_is_raised(monkeypatch):
    learner = make(PPOAlgorithm, True)

    def fail(*args):
        raise tf.errors.InvalidArgumentError(None, None, "the buffer is empty")

    monkeypatch.setattr(learner, "_compiled", fail)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the buffer is empty"):
        train(learner, count=1)
    assert learner._loop.compiles(10, 0)


def test_by_default_xla_comes_after_some_updates(monkeypatch):
    monkeypatch.setattr(update_loop, "PLAIN_UPDATES", 8)
    learner, plain, late = (make(PPOAlgorithm, way) for way in ("auto", False, "auto"))
    ways = []
    for _ in range(4):
        train(learner, count=1)
        ways.append(bool(learner._loop._copies))
    assert ways == [False, False, True, True]  # 4 updates each
    train(plain, count=4)
    late.progress.updates.assign(8)  # as in a run that goes on
    train(late, count=1)
    assert late._loop._copies
    assert int(learner.progress.updates) == int(plain.progress.updates) == 16
    monkeypatch.setattr(update_loop, "FEWEST_UPDATES", 5)
    assert not learner._loop.compiles(4, 16) and learner._loop.compiles(5, 16)


@pytest.mark.parametrize("setting", ["debug_summaries", "summarize_grads_and_vars"])
def test_histograms_go_without_xla(setting, caplog):
    learner = make(PPOAlgorithm, True, **{setting: True})
    train(learner, count=1)
    assert not learner._loop.compiles(10, 10**9) and learner.histograms()
    assert f"{setting}" in caplog.text


class Convolving(PPOAlgorithm):
    """A hook has a convolution."""

    def summarize_train(self, *_):
        image, kernel = tf.ones((1, 4, 4, 1)), tf.ones((2, 2, 1, 1))
        return {"extra": tf.reduce_sum(tf.nn.conv2d(image, kernel, 1, "SAME"))}


class Multiplying(PPOAlgorithm):
    """A hook has a product of 2.5e8 operations."""

    def summarize_train(self, *_):
        return {"extra": tf.reduce_sum(tf.matmul(tf.ones((500, 500)), tf.ones((500, 500))))}


@pytest.mark.parametrize("algorithm", [Convolving, Multiplying])
def test_by_default_large_updates_go_without_xla(algorithm, monkeypatch, caplog):
    monkeypatch.setattr(update_loop, "PLAIN_UPDATES", 0)
    learner = make(algorithm, "auto")
    train(learner, count=1)
    assert not learner._loop.compiles(10, 10**9) and not learner._loop._copies
    monkeypatch.setattr(update_loop, "PLAIN_UPDATES", 4)
    later = make(algorithm, "auto")
    train(later, count=2)
    assert not later._compiled.num_traces, "the first graph has shown how large it is"
    assert not [record for record in caplog.records if "jit_compile" in record.message]
    forced = make(algorithm, True)
    train(forced, count=1)
    assert forced._loop._copies


def test_replicas_cannot_be_compiled():
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with pytest.raises(ConfigError, match="XLA cannot compile for a strategy"):
        make(PPOAlgorithm, True, strategy=strategy)
    assert not make(PPOAlgorithm, "auto", strategy=strategy)._loop.compiles(10, 10**9)
