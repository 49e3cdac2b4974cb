# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Policies: the settings of an experiment with several policies."""

import re
from collections.abc import Callable, Sequence

import gin

from alf.callback import Callback
from alf.config.kinds import PositiveInt
from alf.config.settings import configurable
from alf.core.annotations import Environment, NestedSpec
from alf.data_structures import OBSERVATION
from alf.drivers.metrics import Metric
from alf.errors import ConfigError
from alf.games.group import PolicyGroup
from alf.games.mapping import MappedEnvironment, PolicyMapping
from alf.policies.policy import Policy


@configurable("alf.training")
class Policies:
    """Several policies that act and learn in the environments of an `Experiment`.

    Each policy has its own learner, replayer and counters. Its name is the gin scope of its parts:
    `main/PPOAlgorithm.entropy_weight = 0.01`. Settings of `Experiment` that make parts may be dicts by name,
    such as `Experiment.algorithm = {"main": @PPOAlgorithm, "other": @ImpalaAlgorithm}`.

    Args:
        names: tuple or list of different texts of letters, digits and underscores.
        mapping: the policy of each row: text, the policy of all rows; dict from agent to policy; tuple or
            list of policies, which the rows take in turn; or callable (`Episode`) -> list of policies by
            agent. None: the rows take all policies in turn.
        frozen: tuple or list of the names of policies that do not learn.
        spaces: dict from each name to the entry of the observation and the action that the policy uses. It is
            needed if agents have different spaces, as in a `MultiAgentEnvironment`. None: all agents have the
            same spaces.
        num_sequences: int or dict by name: sequences that the learner of a policy gets at a time. A sequence
            is one row of an unroll. None: the rows of a batched environment, divided by the number of
            policies that learn.

    Attributes:
        names, frozen, learning: tuples of texts: all policies, the frozen ones, and the others.
    """

    def __init__(
        self,
        names: Sequence[str],
        mapping: PolicyMapping | None = None,
        frozen: Sequence[str] = (),
        spaces: dict[str, str] | None = None,
        num_sequences: PositiveInt | dict[str, PositiveInt] | None = None,
    ) -> None:
        self.names, self.frozen = _check_names(names), tuple(frozen)
        for name in self.frozen:
            if name not in self.names:
                raise ConfigError(f"Policies.frozen is {self.frozen}: the policies are {self.names}")
        self.learning = tuple(name for name in self.names if name not in self.frozen)
        if not self.learning:
            raise ConfigError(f"Policies.frozen is {self.frozen}: one policy must learn")
        self._mapping = self.names if mapping is None else mapping
        self._spaces = spaces
        self._num_sequences = num_sequences
        if spaces is not None and (not isinstance(spaces, dict) or set(spaces) != set(self.names)):
            raise ConfigError(
                f"Policies.spaces is {spaces!r}: it must be a dict with an entry for each of {self.names}"
            )

    def wrap(self, env: Environment, seed: int | None) -> Environment:
        """Makes a `MappedEnvironment` of a batched environment; `seed` is an int or None."""
        known = getattr(env, "space_names", None)
        if known is None and self._spaces is not None:
            raise ConfigError(
                "Policies.spaces is set, but all agents of the environment have the same spaces"
            )
        if known is not None and (self._spaces is None or not set(self._spaces.values()) <= set(known)):
            raise ConfigError(
                f"Policies.spaces is {self._spaces!r}: the agents have different spaces; it must name one of "
                f"{tuple(dict.fromkeys(known))} for each of {self.names}"
            )
        return MappedEnvironment(env, self._mapping, self.names, self._spaces, seed)

    def check_rows(self, env: MappedEnvironment) -> None:
        """Raises ConfigError if a policy that learns has no row in such environments."""
        idle = [name for name in env.find_idle() if name not in self.frozen]
        if idle:
            raise ConfigError(
                f"{type(self).__name__}.mapping is {self._mapping!r}: none of the {env.batch_size} rows of a "
                f"batched environment has the policy {idle[0]!r}, which would learn nothing"
            )

    def make_group(
        self, make_policy: Callable[..., Policy], observation_spec: NestedSpec, action_spec: NestedSpec
    ) -> PolicyGroup:
        """Makes the `PolicyGroup`.

        Args:
            make_policy: callable (name, observation_spec, action_spec) -> `Policy`.
            observation_spec, action_spec: of a `MappedEnvironment`, nests of unbatched tensor specs.
        """
        spaces = self._spaces
        policies = {}
        for name in self.names:
            observation, action = observation_spec[OBSERVATION], action_spec
            if spaces is not None:
                observation, action = observation[spaces[name]], action[spaces[name]]
            # gin keeps the scope for each thread, so all parts of a policy are made here, in the thread that
            # makes the experiment, and none of them later in a thread of the driver.
            with gin.config_scope(name):
                policies[name] = make_policy(name, observation, action)
        return PolicyGroup(policies, observation_spec, action_spec, spaces, self.frozen)

    def make_watchers(self, agents: Sequence[str]) -> tuple[Sequence[Metric], Sequence[Callback]]:
        """Makes the `metrics` and `callbacks` of a `LearnerGroup`, two tuples; here both are empty.

        Args:
            agents: tuple of texts, the agents of a game.
        """
        return (), ()

    def resolve_num_sequences(self, num_rows: int) -> dict[str, int]:
        """Returns `num_sequences` as a dict by name, for batched environments of `num_rows` rows."""
        value, setting = self._num_sequences, f"{type(self).__name__}.num_sequences"
        if value is None:
            # With fewer rows than policies a batch of one sequence is complete after some unrolls, not in
            # each.
            value = max(1, num_rows // len(self.learning))
        numbers = dict(value) if isinstance(value, dict) else dict.fromkeys(self.learning, value)
        if set(numbers) != set(self.learning):
            raise ConfigError(f"{setting} is {value!r}: it must have an entry for each of {self.learning}")
        return numbers


def _check_names(names):
    """Returns the names of policies as a tuple; ConfigError if two are equal or one is not a name."""
    is_list = isinstance(names, (list, tuple)) and len(names) > 0
    if not is_list or not all(isinstance(name, str) and re.fullmatch(r"[A-Za-z]\w*", name) for name in names):
        raise ConfigError(
            f"Policies.names is {names!r}: it must be a list of texts of letters, digits and underscores"
        )
    if len(set(names)) < len(names):
        raise ConfigError(f"Policies.names is {names!r}: no name may be there twice")
    return tuple(names)


def check_settings(policies, for_one, acting, learning):
    """Checks settings of `Experiment` that depend on whether there are several policies.

    Args:
        policies: `Policies`, or None for a single policy.
        for_one: dict of settings by name, which must be None with several policies.
        acting: dict of settings; a value may be a dict with an entry for each policy.
        learning: the same, with an entry for each policy that learns.

    Raises:
        ConfigError: if a setting does not fit.
    """
    if policies is not None and not isinstance(policies, Policies):
        raise ConfigError(f"Experiment.policies is {policies!r}: it must be a Policies; in gin, @Policies()")
    for name, value in for_one.items():
        if policies is not None and value is not None:
            raise ConfigError(f"Experiment.{name} is set: it does not work with several policies")
    for name, value in {**acting, **learning}.items():
        if not isinstance(value, dict):
            continue
        if policies is None:
            raise ConfigError(
                f"Experiment.{name} is {value!r}: it may be a dict where Experiment.policies is set"
            )
        missing = set(policies.names if name in acting else policies.learning) - set(value)
        unknown = set(value) - set(policies.names)
        if missing or unknown:
            wrong = f"no entry for {min(missing)!r}" if missing else f"an entry for {min(unknown)!r}"
            raise ConfigError(
                f"Experiment.{name} is {value!r}: it has {wrong}; the policies are {policies.names}"
            )
