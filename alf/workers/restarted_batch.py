# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RestartedBatch: an `EnvBatch` that survives environments that raise."""

import contextlib

from alf.core.randomness import spawn_seeds
from alf.errors import EnvError
from alf.workers.env_batch import EnvBatch
from alf.workers.env_calls import find_owner, free, is_ctrl_c, layout_of, name_error


class RestartedBatch(EnvBatch):
    """An `EnvBatch` that makes an environment again when it raises, and begins a new episode there.

    All other environments go on with their episodes.

    Args:
        env_fns, seeds, max_random_steps, first_index, info_keys, attributes: arguments of `EnvBatch`.
        note_restart: callable (index, exception of this environment), called before an environment is made
            again. It raises an error if there were too many restarts.

    Attributes:
        num_restarts: int, how often environments were made again.
    """

    def __init__(self, env_fns, seeds, max_random_steps, first_index, info_keys, attributes, note_restart):
        self._env_fns, self._note_restart, self.num_restarts = env_fns, note_restart, 0
        self._attributes = {}  # by name, for environments that are made again
        super().__init__(env_fns, seeds, max_random_steps, first_index, info_keys, attributes)

    def seed(self, seeds):
        self._first_seeds = list(seeds)
        super().seed(seeds)

    def set_attr(self, name, value):
        super().set_attr(name, value)
        self._attributes[name] = value

    def _begin_again(self, i, error):
        if is_ctrl_c(error):
            raise error
        index = self._first_index + i
        while True:  # environments may also raise while they are made again
            self._note_restart(index, error)
            self.num_restarts += 1
            try:
                self._replace(i, index)
                return
            except BaseException as later:
                error = name_error(later, f"environment {index}")

    def _replace(self, i, index):
        free(self._envs[i])
        with contextlib.suppress(Exception):  # a broken environment may not be able to close
            self._envs[i].close()
        env = self._envs[i] = self._make_one(index, self._env_fns[i], self.layout.info_keys)
        if layout_of(env, self.layout.info_keys) != self.layout:
            raise EnvError(f"environment {index} has other spaces after its restart")
        for name, value in self._attributes.items():
            setattr(find_owner(env, name), name, value)
        self._find_discounts()
        # A new seed, because the old one would repeat the same episodes.
        self._seeds[i] = spawn_seeds([self._first_seeds[i], self.num_restarts], 1)[0]
        self._reset_one(i, env)
