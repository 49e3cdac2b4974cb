# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The rows of the table of `benchmarks.limits`: each measures ALF and a lean program in turn."""

import functools
import statistics
import time

import alf
from benchmarks.limits import alf_presets as presets
from benchmarks.limits import loop
from benchmarks.limits.sampling import NumpyPolicy, make_tensorflow

_ENV = "CartPole-v1"
_COMPILED = {"jit_compile": True}  # as after the first thousand updates of a run


def _updates(make):
    """Seconds of an update of a `Pair`."""
    pair = make()
    return [functools.partial(_time, call, pair.updates) for call in (pair.alf, pair.lean)]


def _sampling(size, by_numpy):
    """Seconds of a step of so many environments."""
    preset = presets.Preset(_ENV, "ppo")
    lean = preset.make_ppo()
    compute = NumpyPolicy(lean) if by_numpy else make_tensorflow(lean)
    sampler = loop.make_sampler(preset, "PPOAlgorithm", compute, size)
    return [
        functools.partial(_time_alf, "ppo", "sampling", size, {"num_envs": size}),
        functools.partial(_time, sampler.collect, preset.unroll_length),
    ]


def _loop(name):
    """Seconds of a step of one environment, with the updates."""
    iterate, steps, _ = loop.MAKERS[name](presets.Preset(_ENV, name))
    return [
        functools.partial(_time_alf, name, "training", 1, _COMPILED),
        functools.partial(_time, iterate, steps),
    ]


def _time(call, count, seconds):
    """Calls again and again for some seconds; returns the seconds of one of `count` parts of a call."""
    call()
    start, calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < seconds:
        call()
        calls += 1
    return passed / (calls * count)


def _time_alf(algorithm, part, count, settings, seconds):
    """Measures a run of a preset; returns the seconds of `count` environment steps."""
    given = {"measure_seconds": max(seconds, 1.0), "sample_only": part == "sampling"}
    result = alf.benchmark(_ENV, algorithm=algorithm, **given, **settings)
    return count / result[part]["env_steps_per_second"]


def _list_rows():
    """Returns a dict of callables, which make two callables (seconds) -> seconds: ALF and the program."""
    pairs = {
        "updates PPO": functools.partial(presets.make_ppo, **_COMPILED),
        "updates IMPALA": functools.partial(presets.make_impala, **_COMPILED),
    }
    for name, make in (("DQN", presets.make_dqn), ("SAC", presets.make_sac)):
        pairs[f"updates {name}, 1 a call"] = make
        pairs[f"updates {name}, 16 a call"] = functools.partial(make, updates=16, **_COMPILED)
    found = {name: functools.partial(_updates, make) for name, make in pairs.items()}
    for size in (1, 8, 32):
        for how in ("TensorFlow", "NumPy"):
            found[f"sampling B = {size}, {how}"] = functools.partial(_sampling, size, how == "NumPy")
    return {**found, **{f"loop {name.upper()}": functools.partial(_loop, name) for name in loop.MAKERS}}


ROWS = _list_rows()


def measure(name, seconds, rounds):
    """Returns the microseconds of ALF and of the lean program, medians of measurements in turn."""
    calls = ROWS[name]()
    times = zip(*([call(seconds) for call in calls] for _ in range(rounds)))
    return [1e6 * statistics.median(x) for x in times]
