# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StopCriteria: when training ends."""

import gin

from alf.errors import check_number


@gin.configurable(module="alf.training")
class StopCriteria:
    """Training ends when the first criterion is reached. A criterion of None is never reached.

    Args:
        num_iterations: number of train iterations, over all runs in a root_dir.
        num_env_steps: number of environment steps learned from, over all runs in a root_dir.
        max_seconds: seconds of training in this run.
        target_return: sufficient average return of the last 100 episodes.

    Raises:
        ConfigError: if a limit is not a number above 0, or `target_return` is not a number.
    """

    def __init__(self, num_iterations=None, num_env_steps=None, max_seconds=None, target_return=None):
        limits = dict(num_iterations=num_iterations, num_env_steps=num_env_steps, max_seconds=max_seconds)
        for name, limit in limits.items():
            check_number(f"StopCriteria.{name}", limit, above=0, optional=True)
        check_number("StopCriteria.target_return", target_return, optional=True)
        self.num_env_steps = num_env_steps
        self._limits = limits
        self._target_return = target_return

    def reached(self, num_iterations, num_env_steps, max_seconds, average_return):
        """Returns a text that names the criterion that is reached, or None.

        The counts and seconds are those until now, `average_return` is an `AverageReturn`.
        """
        values = (num_iterations, num_env_steps, max_seconds)
        for (name, limit), value in zip(self._limits.items(), values, strict=True):
            if limit is not None and value >= limit:
                return f"{name}={limit} reached"
        if self._target_return is None or not average_return.full:
            return None
        average = average_return.result()
        reached = average >= self._target_return
        return f"target_return={self._target_return} reached: {average:.1f}" if reached else None
