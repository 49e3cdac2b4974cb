# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The interface of data transformers."""

from typing import Any

import tensorflow as tf

from alf.core.annotations import Nest, NestedSpec
from alf.data_structures import Experience, TimeStep
from alf.schedules import Progress, ScheduledFloat


class DataTransformer(tf.Module):
    """Base class of data transformers. Subclasses implement `transform`, or `step` and `unroll`.

    A subclass without state implements `transform`. One with state implements both `step`, which the policy
    calls, and `unroll`, which the learner calls; they must return the same for the same rows.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations that it returns. (Constructors of
            subclasses get the specs of the observations that they transform.)
        reward_spec: unbatched tensor spec of the rewards that it returns.
        state_spec: nest of unbatched tensor specs of the state that it keeps for each environment. The driver
            stores it with the policy's recurrent state and sets it to zeros where an episode begins.
        context: int. Replay buffers do not store the state. Instead the learner calls `unroll` with a state
            of zeros and with this many rows in front of a sequence, and drops the results of these rows.

    Attributes:
        has_statistics: whether `observe` does anything.
        info_keys: tuple of texts, the keys of `Experience.env_info` that `unroll` reads.
    """

    has_statistics = False
    info_keys: tuple[str, ...] = ()

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        state_spec: NestedSpec = (),
        context: int = 0,
    ) -> None:
        super().__init__()
        self.context = context
        self.observation_spec = observation_spec
        self.reward_spec = reward_spec
        self.state_spec = state_spec

    def transform(self, data: Any) -> Any:
        """Transforms `data`, a `TimeStep` or an `Experience` with any leading dimensions."""
        raise NotImplementedError

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Transforms a `TimeStep` of [B, ...]. Returns it with the next state, a nest of [B, ...]."""
        return self.transform(time_step), state

    def unroll(self, experience: Experience, state: Nest) -> Experience:
        """Transforms an `Experience` of [T+1, B, ...] as `step` did, with the state at row 0, [B, ...]."""
        return self.transform(experience)

    def observe(self, experience: Experience, state: Nest) -> None:
        """Updates the statistics. The learner calls it once for each unroll, before it calls `unroll`."""

    def use_discount(self, discount: ScheduledFloat | None) -> None:
        """Sets the algorithm's discount, None if it has none; `Experiment` calls it."""

    def use_progress(self, progress: Progress) -> None:
        """Sets the `Progress` of variables from which schedules are computed; the policy calls it."""
