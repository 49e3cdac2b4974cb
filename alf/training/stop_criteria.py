# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StopCriteria: the criteria for the end of training."""

import dataclasses
from typing import NamedTuple

from alf.config.kinds import PositiveFloat, WholeNumber
from alf.config.settings import Role, configurable
from alf.drivers.metrics import BalancedReturn
from alf.training.run_report import format_number


class Position(NamedTuple):
    """The progress of a run. The fields have the names of the limits in `StopCriteria`."""

    num_iterations: int
    num_env_steps: int
    max_seconds: float  # 0 before the first train step


@configurable("alf.training", role=Role.MEASUREMENT)
@dataclasses.dataclass(frozen=True)
class StopCriteria:
    """Training ends when the first criterion is reached. A criterion of None is never reached.

    `max_seconds` counts from the first train step. The start of environments and the compilation of networks
    do not count; `Monitoring.stall_timeout` limits them.

    Args:
        num_iterations: train iterations, over all runs in a root_dir.
        num_env_steps: environment steps learned from, over all runs in a root_dir. A run ends after a whole
            batch, so a short one may make more.
        max_seconds: seconds of training in this run.
        target_return: mean of the returns of the last episodes of each environment, `BalancedReturn`. With
            one environment these are the last `EpisodeStatistics.window` episodes. With several, each one has
            an equal number of them, at least one, so that those that end early do not decide alone.
        target_eval_return: mean return of an evaluation by `Evaluator`.
        num_env_steps_of_each: environment steps that each policy has learned from, where several learn:
            training ends when the last one has so many.
    """

    num_iterations: WholeNumber | None = None
    num_env_steps: WholeNumber | None = None
    max_seconds: PositiveFloat | None = None
    target_return: float | None = None
    target_eval_return: float | None = None
    num_env_steps_of_each: WholeNumber | None = None

    def reached(
        self,
        num_iterations: int,
        num_env_steps: int,
        max_seconds: float,
        balanced_return: BalancedReturn,
        eval_return: float | None = None,
        least_env_steps: int = 0,
    ) -> str | None:
        """Returns a text that names the criterion that is reached, or None.

        Args:
            num_iterations, num_env_steps, max_seconds: the fields of a `Position`.
            balanced_return: `BalancedReturn`.
            eval_return: float, the mean return of the last evaluation, or None.
            least_env_steps: int, the environment steps of the policy that has learned from the fewest.
        """
        position = Position(num_iterations, num_env_steps, max_seconds)
        for name, value in position._asdict().items():
            limit = getattr(self, name)
            if limit is not None and value >= limit:
                is_beyond = name == "num_env_steps" and value > 1.1 * limit
                return f"{name}={limit} reached" + f": {value:,}, a whole batch" * is_beyond
        limit = self.num_env_steps_of_each
        if limit is not None and least_env_steps >= limit:
            return f"num_env_steps_of_each={limit} reached"
        # A few early episodes are often the short or lucky ones: their average must not end a run.
        target = self.target_return
        if target is not None and balanced_return.is_full and (value := balanced_return.result()) >= target:
            return f"target_return={target} reached: {balanced_return.name} {format_number(value)}"
        target = self.target_eval_return
        if target is not None and eval_return is not None and eval_return >= target:
            return f"target_eval_return={target} reached: eval/return_mean {format_number(eval_return)}"
        return None

    def estimate_end(self, first: Position, now: Position) -> tuple[float, float] | None:
        """Estimates when the first criterion will be reached, from the progress between two `Position`s.

        Returns the fraction of it that is done, and the remaining seconds. None without an estimate: returns
        have none.
        """
        return estimate_end(Position(*(getattr(self, name) for name in Position._fields)), first, now)


def estimate_end(limits, first, now):
    """Estimates the end as `StopCriteria.estimate_end`, from a `Position` of limits or None."""
    seconds, ends = now.max_seconds - first.max_seconds, []
    for limit, before, value in zip(limits, first, now, strict=True):
        # A count that has not moved yet has no speed.
        if limit is not None and value > before:
            ends.append(((limit - value) * seconds / (value - before), value / limit))
    if not ends:
        return None
    left, fraction = min(ends)
    return min(fraction, 1.0), max(left, 0.0)
