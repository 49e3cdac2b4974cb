# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StopCriteria: when training ends."""

import dataclasses

import gin

from alf.errors import check_number


@gin.configurable(module="alf.training")
@dataclasses.dataclass(frozen=True)
class StopCriteria:
    """Training ends when the first criterion is reached. A criterion of None is never reached.

    ConfigError is raised if a limit is not a number above 0, or a target is not a number.
    """

    num_iterations: int | None = None  # train iterations, over all runs in a root_dir
    num_env_steps: int | None = None  # environment steps learned from, over all runs in a root_dir
    max_seconds: float | None = None  # of training in this run
    target_return: float | None = None  # average return of the last `EpisodeStatistics.window` episodes
    target_eval_return: float | None = None  # mean return of an evaluation, see `Evaluator`

    def __post_init__(self):
        for name, limit in vars(self).items():
            above = None if name.startswith("target") else 0
            check_number(f"StopCriteria.{name}", limit, above=above, optional=True)

    def reached(self, num_iterations, num_env_steps, max_seconds, average_return, eval_return=None):
        """Returns a text that names the criterion reached or None.

        `average_return` is an `EpisodeMetric`, `eval_return` the mean of the last evaluation or None.
        """
        values = dict(num_iterations=num_iterations, num_env_steps=num_env_steps, max_seconds=max_seconds)
        for name, value in values.items():
            limit = getattr(self, name)
            if limit is not None and value >= limit:
                return f"{name}={limit} reached"
        target = self.target_return
        if target is not None and average_return.full and average_return.result() >= target:
            return f"target_return={target} reached: {average_return.result():.1f}"
        target = self.target_eval_return
        if target is not None and eval_return is not None and eval_return >= target:
            return f"target_eval_return={target} reached: {eval_return:.1f}"
        return None
