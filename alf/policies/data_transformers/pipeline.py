# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Pipeline: applies several data transformers, one after another."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from alf.core.annotations import Nest, NestedSpec
from alf.data_structures import Experience, TimeStep
from alf.errors import ConfigError, check_type
from alf.policies.data_transformers.data_transformer import DataTransformer
from alf.policies.data_transformers.history import PreviousReward
from alf.policies.data_transformers.normalizers import ObservationNormalizer, RewardNormalizer
from alf.policies.data_transformers.rewards import RewardWeighting
from alf.schedules import Progress, ScheduledFloat


class Pipeline(DataTransformer):
    """Applies several data transformers, one after another.

    Args:
        observation_spec: nest of unbatched tensor specs of the environment's observations.
        reward_spec: unbatched tensor spec of the environment's rewards.
        ctors: tuple or list of callables (observation_spec, reward_spec) -> `DataTransformer`. A callable
            with an argument `action_spec` gets that, too.
        action_spec: nest of unbatched tensor specs of the actions.

    Attributes:
        input_observation_spec, input_reward_spec: the specs of the environment's observations and rewards.
        reward_weighting: `RewardWeighting` if the environment's reward is a vector, else None. If the list
            has none, the pipeline makes one that the learner applies, not the pipeline.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        ctors: Sequence[Callable[..., DataTransformer]] = (),
        action_spec: NestedSpec = None,
    ) -> None:
        self.input_observation_spec, self.input_reward_spec = observation_spec, reward_spec
        self._parts = []
        if not isinstance(ctors, (tuple, list)):
            raise ConfigError(
                f"data_transformers is {ctors!r}: it must be a tuple or list; in gin (@RewardClipping,) with "
                "the comma"
            )
        for ctor in ctors:
            if not callable(ctor):
                raise ConfigError(
                    f"data_transformers holds {ctor!r}: it must be a class; in gin, @RewardClipping without "
                    "parentheses"
                )
            if inspect.isclass(ctor) and not issubclass(ctor, DataTransformer):
                raise ConfigError(f"data_transformers holds {ctor.__name__}: it must be a DataTransformer")
            wants_actions = "action_spec" in inspect.signature(ctor).parameters
            more = {"action_spec": action_spec} if wants_actions else {}
            part = ctor(observation_spec, reward_spec, **more)
            check_type(f"the result of {ctor!r} in data_transformers", part, DataTransformer)
            # The policy gets no info: these would see other rewards in `step` than in `unroll`.
            sees_rewards = isinstance(part, (RewardNormalizer, PreviousReward))
            if sees_rewards and any(other.info_keys for other in self._parts):
                raise ConfigError(
                    f"data_transformers: {type(part).__name__} must come before RewardShaping, because it "
                    "does not see shaped rewards while the policy acts"
                )
            observation_spec, reward_spec = part.observation_spec, part.reward_spec
            self._parts.append(part)
        state_spec = tuple(part.state_spec for part in self._parts)
        # The sum, because the rows in front that a part needs must themselves be right: each part before it
        # needs rows in front of these.
        context = sum(part.context for part in self._parts)
        super().__init__(observation_spec, reward_spec, state_spec, context)
        self.has_statistics = any(part.has_statistics for part in self._parts)
        # Still a vector after all transformers: the learner needs weights for its sum.
        is_vector = reward_spec.shape.rank > 0
        self._sum_of_rewards = RewardWeighting(observation_spec, reward_spec) if is_vector else None
        self.info_keys = tuple(dict.fromkeys(key for part in self._parts for key in part.info_keys))

    @property
    def reward_weighting(self) -> Any:
        found = (part for part in self._parts if isinstance(part, RewardWeighting))
        return next(found, self._sum_of_rewards)

    @property
    def normalizes(self) -> bool:
        """Whether an `ObservationNormalizer` scales the floats of observations."""
        return any(isinstance(part, ObservationNormalizer) for part in self._parts)

    def use_discount(self, discount: ScheduledFloat | None) -> None:
        for part in self._parts:
            part.use_discount(discount)

    def use_progress(self, progress: Progress) -> None:
        for part in self._parts:
            part.use_progress(progress)

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        states = []
        for part, part_state in zip(self._parts, state, strict=True):
            time_step, part_state = part.step(time_step, part_state)
            states.append(part_state)
        return time_step, tuple(states)

    def unroll(self, experience: Experience, state: Nest) -> Experience:
        for part, part_state in zip(self._parts, state, strict=True):
            experience = part.unroll(experience, part_state)
        return experience

    def observe(self, experience: Experience, state: Nest) -> None:
        # Each part observes the data as the parts before it left them, with the statistics after this unroll.
        for part, part_state in zip(self._parts, state, strict=True):
            part.observe(experience, part_state)
            experience = part.unroll(experience, part_state)
