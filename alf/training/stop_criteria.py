# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""When training ends."""

import gin

from alf.errors import check_number


@gin.configurable(module="alf.training")
class StopCriteria:
    """Training ends at whichever comes first; None never comes.

    Args:
        num_iterations: train iterations, over all runs in a root_dir.
        num_env_steps: environment steps learned from, over all runs in a root_dir.
        max_seconds: seconds of this run's training.
        target_return: average return of the last 100 episodes that is enough.
    """

    def __init__(self, num_iterations=None, num_env_steps=None, max_seconds=None, target_return=None):
        limits = dict(num_iterations=num_iterations, num_env_steps=num_env_steps, max_seconds=max_seconds)
        for name, limit in limits.items():
            check_number(f"StopCriteria.{name}", limit, above=0, optional=True)
        check_number("StopCriteria.target_return", target_return, optional=True)
        self.num_env_steps = num_env_steps
        self.target_return = target_return
        self._limits = limits

    def reached(self, num_iterations, num_env_steps, max_seconds, average_return):
        """Says which criterion holds, as a text, or None.

        Args:
            num_iterations, num_env_steps, max_seconds: what there is so far.
            average_return: an `AverageReturn`.
        """
        values = dict(num_iterations=num_iterations, num_env_steps=num_env_steps, max_seconds=max_seconds)
        for name, value in values.items():
            if self._limits[name] is not None and value >= self._limits[name]:
                return f"{name}={self._limits[name]} reached"
        if self.target_return is None or not average_return.full:
            return None
        if average_return.result() >= self.target_return:
            return f"target_return={self.target_return} reached: {average_return.result():.1f}"
        return None
