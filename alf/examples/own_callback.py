# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A callback of one's own: it ends a run that no longer gets better. See own_callback.gin."""

import gin

from alf.training import Callback


@gin.configurable
class StopWhenStuck(Callback):
    """Ends a run whose average return has had no new maximum for so many train iterations."""

    def __init__(self, patience=2000):
        self._patience = patience
        self._best, self._waited = float("-inf"), 0

    def on_train_iter(self, trainer, summary):
        average = trainer.metrics["AverageReturn"].result()  # NaN before the first episode's end
        self._waited += 1
        if average > self._best:
            self._best, self._waited = average, 0
        elif self._waited >= self._patience:
            trainer.stop(f"no better return than {self._best:.4g} in {self._patience} train iterations")
