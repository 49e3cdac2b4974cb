# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SlowSteps: an environment that takes its time, as real ones do. A gin file imports this module."""

import time

import gin

from alf.environments import EnvironmentWrapper, load


@gin.configurable(module="benchmarks")
class SlowSteps(EnvironmentWrapper):
    """The batched environment that `load` makes, whose steps take longer. For `Experiment.env`.

    Args:
        seed, batch_size: as in `load`.
        ms: milliseconds that each step of the batch sleeps.
    """

    def __init__(self, seed, batch_size=1, ms=100.0):
        super().__init__(load(batch_size=batch_size, seed=seed))
        self._seconds = ms / 1000

    def _step(self, action):
        time.sleep(self._seconds)
        return super()._step(action)
