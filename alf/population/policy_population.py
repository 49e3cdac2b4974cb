# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PolicyPopulation: several policies of one run, of which bad ones copy good ones and change settings."""

from collections.abc import Callable
from typing import Annotated

import gin

from alf.config.kinds import AtLeast, NonNegativeInt, PositiveInt, Text
from alf.config.parsing import parse_config
from alf.config.settings import Role, configurable
from alf.errors import ConfigError
from alf.games.mapping import MappedEnvironment, PolicyMapping, find_agents
from alf.games.policies import Policies
from alf.population.bindings import is_tunable, list_tunable, make_bindings
from alf.population.mutation import Mutation, Range, Replacement
from alf.population.policy_controller import NumCopies, PolicyController, SettingMetric
from alf.population.policy_study import PolicyStudy
from alf.population.population import check_settings


@configurable("alf.population")
class PolicyPopulation(Policies):
    """The policies of an `Experiment`: population based training in one process.

    A wrong setting raises ConfigError.

    The policies are policy_0, policy_1 and so on. They have the same parts, and differ in `settings`. Gin's
    bindings of these are replaced by a `Tunable` for each policy, which this constructor binds.

    Args:
        num_policies: int, at least 2.
        settings: dict from the name of a gin binding, such as "Adam.learning_rate", to the `Range` of its
            values. Those alone that take a schedule, and "NAME/Tunable.value".
        interval: environment steps of a policy between two looks at its objective.
        objective: what a policy is judged by; more is better. The name of a metric of each policy, such as
            "AverageReturn" or "info/KEY", see docs/metrics.md.
        seed: int, of the first values and the mutations. None: they differ from run to run.
        mapping: text, dict, list, tuple or callable: as in `Policies`, but None: in games of one agent, the
            rows take the policies in turn if `num_policies` divides the rows of a batched environment; else
            each agent's policy is drawn uniformly where an episode begins.
        num_sequences: as in `Policies`.
        mutation_ctor, replacement_ctor: callables () -> `Mutation`, `Replacement`.
    """

    def __init__(
        self,
        num_policies: Annotated[int, AtLeast(2)],
        settings: dict[str, Range],
        interval: Annotated[PositiveInt, Role.ADJUSTABLE],
        objective: Annotated[Text, Role.ADJUSTABLE] = "AverageReturn",
        seed: Annotated[NonNegativeInt | None, Role.ADJUSTABLE] = None,
        mapping: PolicyMapping | None = None,
        num_sequences: PositiveInt | dict[str, PositiveInt] | None = None,
        mutation_ctor: Callable[[], Mutation] = Mutation,
        replacement_ctor: Callable[[], Replacement] = Replacement,
    ) -> None:
        names = tuple(f"policy_{i}" for i in range(num_policies))
        super().__init__(names, mapping, frozen=(), spaces=None, num_sequences=num_sequences)
        self._is_mapped = mapping is not None
        check_settings("PolicyPopulation", settings)
        for name, values in settings.items():
            if not is_tunable(name, values):
                raise ConfigError(
                    f"PolicyPopulation.settings has {name!r}, which cannot change while a run goes on; these "
                    f"can, with numbers: {', '.join(list_tunable())}, and NAME/Tunable.value; alf-pbt tunes "
                    "others"
                )
        self._ranges = settings
        self._interval = interval
        self._seed = seed
        self._objective = objective
        self._rules = mutation_ctor(), replacement_ctor()
        _bind(settings)

    def wrap(self, env, seed):
        if getattr(env, "space_names", None) is not None:
            raise ConfigError(
                "Experiment.policies is a PolicyPopulation, but the agents of the environment have different "
                "spaces: policies could not copy each other"
            )
        mapping = self._mapping if self._is_mapped else self._choose_mapping(env)
        return MappedEnvironment(env, mapping, self.names, seed=seed)

    def make_watchers(self, agents):
        rules = self._interval, self._objective, self._seed, *self._rules
        study = PolicyStudy(len(self.names), self._ranges, *rules)
        metrics = [
            SettingMetric(study, member, policy, setting)
            for member, policy in enumerate(self.names)
            for setting in self._ranges
        ]
        controller = PolicyController(study, self.names, self._ranges, self._objective)
        return (*metrics, NumCopies(study)), (controller,)

    def _choose_mapping(self, env):
        """The mapping where the user gives none."""
        is_one_agent = len(find_agents(env)) == 1
        if is_one_agent and env.batch_size % len(self.names) == 0:
            return self.names

        def draw(episode):
            """Draws a policy for each agent."""
            places = episode.rng.integers(len(self.names), size=len(episode.agents))
            return [self.names[place] for place in places]

        return draw


def _bind(settings):
    """Binds each setting to a `Tunable`, of which gin makes one for each policy.

    Their first values are always the same, so that a run that goes on has the configuration from before;
    `PolicyController` assigns those that are drawn.
    """
    values = {name: setting.limits[0] for name, setting in settings.items()}
    # Where the run's configuration is read again, in other processes, this module must be there.
    lines = [f"import {__name__}", *make_bindings(values, settings)]
    with gin.unlock_config():
        parse_config([], lines, "PolicyPopulation.settings")
