# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Compares online, offline and hybrid training: `python -m benchmarks.hybrid_training --out=FILE`.

SAC on MountainCarContinuous-v0, where exploring pays nothing until the goal is reached once by chance. The
file holds one demonstration, by a script that always pushes as hard as it can: nothing in it says what other
actions lead to. Each run makes the same number of updates; the greedy policy is evaluated in between, which
is not timed. Prints one JSON object, and draws the returns: means over the seeds, and their 95 % bootstrap
intervals.
"""

import contextlib
import functools
import json
import os
import sys
import tempfile
import time

import numpy as np
import tensorflow as tf
from absl import app, flags
from matplotlib.figure import Figure

from alf.algorithms import SacAlgorithm
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, OfflineDriver, SyncOffPolicyDriver, reserve_threads
from alf.environments import BehaviorEnvironment, load
from alf.evaluation import episodes as evaluation
from alf.learner import LearnerSettings, ReplayLearner, optimizers
from alf.networks import CriticsNetwork, PolicyNetwork
from alf.plots.picture import draw_line, finish_axes
from alf.policies import SacPolicy
from alf.policies.agent import Agent
from alf.replay import HybridReplayer, UniformReplayer, load_replayer
from alf.tools.throughput import TrainIteration

_OUT = flags.DEFINE_string("out", None, "File to write the picture to.", required=True)
_RUNS = flags.DEFINE_integer("runs", 3, "Of each kind, with the seeds 0, 1, ...", lower_bound=1)
_UPDATES = flags.DEFINE_integer("updates", 6_000, "Of each run.", lower_bound=1)
_EVALUATE_EVERY = flags.DEFINE_integer("evaluate_every", 500, "Updates.", lower_bound=1)
_EPISODES = flags.DEFINE_integer("episodes", 1, "Demonstrated.", lower_bound=1)

_TARGET = 90.0  # from where on the task counts as solved
_BATCH_SIZE = 8
KINDS = ("online", "offline", "hybrid")


def push(time_step, state):
    """Pushes mountain cars where they roll: a behavior."""
    return np.where(time_step.observation[:, 1:] < 0, -1, 1).astype(np.float32), state


def make_env(seed, batch_size=_BATCH_SIZE):
    return load("MountainCarContinuous-v0", batch_size, seed=seed, num_workers=0)


def make_learner(env, kind, path=None, unroll_length=8, updates_per_train_iter=16):
    """Makes a learner of SAC with a replay buffer: a new one, the one in the file `path`, or both."""
    layers = dict(fc_layer_params=(64, 64))
    specs = EnvSpecs([env])
    policy = SacPolicy(specs.observation, specs.action, functools.partial(PolicyNetwork, **layers))
    algorithm = SacAlgorithm(
        policy, functools.partial(CriticsNetwork, **layers), discount=0.99, initial_alpha=0.1, tau=0.01
    )
    replayer = None if kind == "online" else load_replayer(path)
    if kind != "offline":
        online = UniformReplayer(specs.unroll_spec(policy, unroll_length), specs.num_groups)
        replayer = online if replayer is None else HybridReplayer(online, replayer)
    return ReplayLearner(
        algorithm,
        {group: optimizers.Adam(1e-3) for group in algorithm.parameter_groups()},
        replayer,
        num_updates_per_train_iter=updates_per_train_iter,
        settings=LearnerSettings(jit_compile=True),
    )


def demonstrate(path, num_episodes):
    """Writes a buffer of at least so many episodes; returns their returns."""
    env = BehaviorEnvironment(make_env(seed=1_000, batch_size=1), push)
    learner = make_learner(env, "online", unroll_length=10)
    driver = SyncOffPolicyDriver([env], learner.policy, unroll_length=10, overwrite_policy_output=True)
    driver.start()
    try:
        metrics = {metric.name: metric for metric in driver.get_metrics()}
        while metrics["NumberOfEpisodes"].result() < num_episodes:
            for experience in driver.collect():
                learner.observe(experience)
        learner.replayer.save(path)
        return {name: float(metric.result()) for name, metric in metrics.items()}
    finally:
        driver.stop()


def run(kind, path, seed, num_updates, evaluate_every, updates_per_train_iter=16):
    """Trains once; returns lists: updates, environment steps, seconds, returns."""
    tf.keras.utils.set_random_seed(seed)
    env = make_env(seed=100 * seed)
    learner = make_learner(env, kind, path, updates_per_train_iter=updates_per_train_iter)
    if kind == "offline":
        driver = OfflineDriver(learner.policy)
    else:
        driver = AsyncOffPolicyDriver([env], learner.policy, unroll_length=8)
    rows, seconds, due = [], 0.0, 0
    train_iteration = TrainIteration(driver, learner)
    driver.start()
    try:
        while True:
            updates = int(learner.train_step_counter)
            if updates >= due:
                rows.append((updates, int(learner.progress.env_steps), seconds, evaluate(learner.policy)))
                due += evaluate_every
            if updates >= num_updates:
                return [list(column) for column in zip(*rows, strict=True)]
            start = time.perf_counter()
            train_iteration()
            seconds += time.perf_counter() - start
    finally:
        driver.stop()
        env.close()


def evaluate(policy):
    """Average return of the greedy policy, of `_BATCH_SIZE` episodes."""
    with contextlib.closing(make_env(seed=2_000)) as env:
        return float(evaluation.evaluate(Agent(policy), env, _BATCH_SIZE).returns.mean())


def draw(path, runs, title):
    """The returns of `runs`, a dict of lists of what `run` returns, against updates."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for i, (label, several) in enumerate(runs.items()):
        style = dict(color=f"C{i}")
        draw_line(axes, [np.array(one[0]) for one in several], [one[3] for one in several], label, style)
    finish_axes(axes, _TARGET)
    axes.set(title=title, xlabel="updates", ylabel="return of the greedy policy")
    figure.legend(loc="outside lower center", frameon=False, ncols=len(runs))
    figure.savefig(path, dpi=120)


def summary(one):
    """Where a run first was at the target, and how often it was from there on."""
    updates, env_steps, seconds, returns = map(np.array, one)
    there = returns >= _TARGET
    if not there.any():
        return {"best": float(returns.max()), "last": float(returns[-1])}
    i = int(np.argmax(there))
    return {
        "updates": int(updates[i]),
        "env_steps": int(env_steps[i]),
        "seconds": round(float(seconds[i]), 1),
        "share_at_target_since": round(float(there[i:].mean()), 2),
        "last": float(returns[-1]),
    }


def main(_):
    reserve_threads(16)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "demonstrations.npz")
        result = {"demonstrations": demonstrate(path, _EPISODES.value)}
        runs = {kind: [] for kind in KINDS}
        for seed in range(_RUNS.value):
            for kind in KINDS:
                one = run(kind, path, seed, _UPDATES.value, _EVALUATE_EVERY.value)
                runs[kind].append(one)
                print(kind, seed, [round(x) for x in one[3]], file=sys.stderr, flush=True)
    draw(_OUT.value, runs, "MountainCarContinuous-v0")
    print(json.dumps({**result, **{kind: [summary(one) for one in runs[kind]] for kind in KINDS}}, indent=1))


if __name__ == "__main__":
    app.run(main)
