# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures batches of single Python environments: `python -m benchmarks.environments --seconds=N`.

Prints a Markdown table of the environment steps per second of ALF's `PythonEnvironment` and of Gymnasium's
SyncVectorEnv and AsyncVectorEnv: medians over the rounds, in each of which all of them take their turn. Each
step of a batch waits for the step before.
"""

import functools
import os
import statistics
import time

import gymnasium
import numpy as np
from absl import app, flags

from alf.environments import PythonEnvironment

_SECONDS = flags.DEFINE_float("seconds", 1.0, "Seconds of each measurement.", lower_bound=0.1)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Measurements of each kind of batch.", lower_bound=1)
_BATCH_SIZES = (1, 8, 64)


class Busy(gymnasium.Wrapper):
    """Adds `iterations` numbers in every step, to take some time."""

    def __init__(self, env, iterations):
        super().__init__(env)
        self._iterations = iterations

    def step(self, action):
        _compute(self._iterations)
        return super().step(action)


def _compute(iterations):
    x = 0
    for i in range(iterations):
        x += i
    return x


def measure_iterations_per_ms():
    """Returns how many iterations of `_compute` take a millisecond on this machine now."""
    times = []
    for _ in range(20):
        start = time.perf_counter()
        _compute(10_000)
        times.append(time.perf_counter() - start)
    return int(10.0 / statistics.median(times))


def make_env(iterations):
    """Makes a CartPole environment; each of its steps takes `iterations` of `_compute` longer."""
    env = gymnasium.make("CartPole-v1", disable_env_checker=True)
    return Busy(env, iterations) if iterations else env


def _start_gymnasium(vector_env, fns):
    env = vector_env(fns)
    env.reset(seed=0)
    return env.step, env.close


def _start_alf(num_workers, fns):
    env = PythonEnvironment(fns, 0, num_workers)
    env.reset()
    return env.step, env.close


def _measure_rate(step, batch_size, seconds):
    action = np.zeros(batch_size, np.int64)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        step(action)
        steps += batch_size
    return steps / (time.perf_counter() - start)


def measure(batch_size, iterations, seconds, rounds):
    """Returns a dict from each kind of batch to its environment steps per second."""
    fns = [functools.partial(make_env, iterations)] * batch_size
    kinds = {
        "SyncVectorEnv": functools.partial(_start_gymnasium, gymnasium.vector.SyncVectorEnv),
        "AsyncVectorEnv": functools.partial(_start_gymnasium, gymnasium.vector.AsyncVectorEnv),
        "ALF in process": functools.partial(_start_alf, 0),
        "ALF workers": functools.partial(_start_alf, min(batch_size, os.cpu_count())),
        "ALF auto": functools.partial(_start_alf, "auto"),
    }
    rates = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, start in kinds.items():
            step, close = start(fns)
            try:
                _measure_rate(step, batch_size, seconds / 5)
                rates[kind].append(_measure_rate(step, batch_size, seconds))
            finally:
                close()
    return {kind: statistics.median(values) for kind, values in rates.items()}


def main(argv):
    del argv
    one_ms = measure_iterations_per_ms()
    header = None
    for name, iterations in (("CartPole", 0), ("CartPole + 1 ms", one_ms)):
        for batch_size in _BATCH_SIZES:
            rates = measure(batch_size, iterations, _SECONDS.value, _ROUNDS.value)
            if header is None:
                header = ["environment", "batch", *rates]
                print("| " + " | ".join(header) + " |\n|" + " --- |" * len(header))
            cells = [name, str(batch_size), *[f"{rate:,.0f}" for rate in rates.values()]]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    app.run(main)
