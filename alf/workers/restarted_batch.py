# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RestartedBatch: an `EnvBatch` that survives environments that raise."""

import contextlib

from alf.core.randomness import spawn_seeds
from alf.core.restart_limit import RestartLimit
from alf.errors import describe_error
from alf.workers.env_batch import EnvBatch
from alf.workers.worker import WorkerError


class RestartedBatch(EnvBatch):
    """An `EnvBatch` that makes all its environments again when one of them raises, and begins new episodes.

    So it does what `WorkerPool` does with a worker.

    Args:
        env_fns, seeds, max_random_steps, info_keys: arguments of `EnvBatch`.
        settings: `WorkerSettings`, which limits the restarts.

    Raises:
        WorkerError: from `reset` and `step`, if there were too many restarts. The cause is the last error.
    """

    def __init__(self, env_fns, seeds, max_random_steps, info_keys, settings):
        self._env_fns, self._rest_of_job = env_fns, (max_random_steps, 0, info_keys)
        self._restarts = RestartLimit(settings.max_restarts, settings.restart_period)
        self._attributes = {}  # by name, for environments that are made again
        super().__init__(env_fns, seeds, *self._rest_of_job)

    @property
    def num_restarts(self):
        return self._restarts.count

    def seed(self, seeds):
        self._first_seeds = list(seeds)
        super().seed(seeds)

    def set_attr(self, name, value):
        super().set_attr(name, value)
        self._attributes[name] = value

    def reset(self):
        self._call(super().reset)

    def step(self):
        self._call(super().step)

    def _call(self, function):
        while True:  # environments may also raise while they are made again
            try:
                return function()
            except Exception as error:
                loss = WorkerError(f"an environment raised {describe_error(error)}")
                loss.__cause__ = error
                self._restarts.count_restart(loss, WorkerError)
                function = self._begin_again

    def _begin_again(self):
        with contextlib.suppress(Exception):  # a broken environment may not be able to close
            self.close()
        # New seeds, because the old ones would repeat the same episodes.
        seeds = [spawn_seeds([seed, self.num_restarts], 1)[0] for seed in self._first_seeds]
        super().__init__(self._env_fns, seeds, *self._rest_of_job, self._attributes)
        super().reset()
