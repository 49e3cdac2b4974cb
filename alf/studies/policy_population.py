# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PolicyPopulation: several policies of one run. Bad ones copy good ones and change their settings."""

import math
from collections.abc import Callable
from typing import Annotated

import gin
import numpy as np
from absl import logging

from alf.callback import Callback
from alf.config.kinds import AtLeast, NonNegativeInt, PositiveInt, Text
from alf.config.parsing import bind
from alf.config.settings import Role, configurable
from alf.drivers.metrics import Metric
from alf.errors import ConfigError, import_extra
from alf.games.mapping import MappedEnvironment, PolicyMapping, find_agents
from alf.games.policies import Policies
from alf.schedules import assign_tunables, find_tunables
from alf.studies.evolution import Evolution, Mutation, Replacement
from alf.studies.lineage import draw_lineage, write_table
from alf.studies.ranges import Range, check_settings
from alf.studies.tunables import find_limits, is_tunable, list_tunable, make_bindings


@configurable("alf.population")
class PolicyPopulation(Policies):
    """The policies of an `Experiment`: population based training in one process.

    A wrong setting raises ConfigError.

    The policies are policy_0, policy_1 and so on. They have the same parts, and differ in `settings`. This
    constructor replaces gin's bindings of these settings by a `Tunable` for each policy.

    Args:
        num_policies: int, at least 2.
        settings: dict from the name of a gin binding, such as "Adam.learning_rate", to the `Range` of its
            values: settings that take a schedule, and "NAME/Tunable.value".
        interval: environment steps of a policy between two looks at its objective.
        objective: the figure that ranks policies; more is better. The name of a metric of each policy, such
            as "BalancedReturn" or "info/KEY" (docs/metrics.md).
        seed: int, the seed of the first values and the mutations. None: they differ from run to run.
        mapping: text, dict, list, tuple or callable, with the meaning that it has for `Policies`. None: in
            games of one agent, the rows take the policies in turn if `num_policies` divides the rows of a
            batched environment; otherwise each agent's policy is drawn uniformly where an episode begins.
        num_sequences: int or dict by name: sequences that the learner of a policy gets at a time. A sequence
            is one row of an unroll. None: the rows of a batched environment, divided by the number of
            policies.
        mutation, replacement: callables () -> `Mutation`, `Replacement`.
    """

    def __init__(
        self,
        num_policies: Annotated[int, AtLeast(2)],
        settings: dict[str, Range],
        interval: Annotated[PositiveInt, Role.ADJUSTABLE],
        objective: Annotated[Text, Role.ADJUSTABLE] = "BalancedReturn",
        seed: Annotated[NonNegativeInt | None, Role.ADJUSTABLE] = None,
        mapping: PolicyMapping | None = None,
        num_sequences: PositiveInt | dict[str, PositiveInt] | None = None,
        mutation: Callable[[], Mutation] = Mutation,
        replacement: Callable[[], Replacement] = Replacement,
    ) -> None:
        names = tuple(f"policy_{i}" for i in range(num_policies))
        super().__init__(names, mapping, frozen=(), spaces=None, num_sequences=num_sequences)
        self._is_mapped = mapping is not None
        check_settings("PolicyPopulation", settings)
        for name, values in settings.items():
            if not is_tunable(name, values):
                raise ConfigError(
                    f"PolicyPopulation.settings has {name!r}, which cannot change while a run goes on; these "
                    f"can, with numbers: {', '.join(list_tunable())}, and NAME/Tunable.value; alf pbt tunes "
                    "others"
                )
        self._ranges = settings
        self._interval = interval
        self._seed = seed
        self._objective = objective
        self._rules = mutation(), replacement()
        # Gin makes a `Tunable` for each policy. The bound values are always the same, so that a run that goes
        # on has the configuration from before. `PolicyController` assigns the values of `Evolution`.
        lowest = {name: setting.limits[0] for name, setting in settings.items()}
        # Here, before the learners are made, whose constructors read these bindings. Unlocked, because an
        # earlier run in this process may have locked the configuration.
        with gin.unlock_config():
            bind(make_bindings(lowest, find_limits(settings)), "PolicyPopulation.settings")

    def wrap(self, env, seed):
        if getattr(env, "space_names", None) is not None:
            raise ConfigError(
                "Experiment.policies is a PolicyPopulation, but the agents of the environment have different "
                "spaces: policies could not copy each other"
            )
        mapping = self._mapping if self._is_mapped else self._choose_mapping(env)
        return MappedEnvironment(env, mapping, self.names, seed=seed)

    def make_watchers(self, agents):
        mutation, replacement = self._rules
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if self._seed is None else self._seed
        rules = mutation, replacement, self._objective, seed
        evolution = Evolution(self._ranges, *rules, has_checkpoints=False)

        def show(member, setting):
            # Metrics are made, and may be shown, before `on_begin` draws the orders.
            return lambda: evolution.orders[member]["settings"][setting] if evolution.orders else math.nan

        metrics = [
            Figure(f"population/{policy}/{setting}", show(member, setting))
            for member, policy in enumerate(self.names)
            for setting in self._ranges
        ]
        controller = PolicyController(evolution, self.names, self._ranges, self._objective, self._interval)
        # One of the metrics has the state of `Evolution`, so that checkpoints hold it, once.
        copies = Figure("population/copies", lambda: evolution.num_copies, evolution)
        return (*metrics, copies), (controller,)

    def _choose_mapping(self, env):
        """Returns the mapping for an environment if the user gives none."""
        # With fixed rows, all policies have the same number of rows at any time. Otherwise each episode
        # draws.
        is_one_agent = len(find_agents(env)) == 1
        if is_one_agent and env.batch_size % len(self.names) == 0:
            return self.names

        def draw(episode):
            """Draws a policy for each agent."""
            places = episode.rng.integers(len(self.names), size=len(episode.agents))
            return [self.names[place] for place in places]

        return draw


class PolicyController(Callback):
    """Reports each policy at the end of its intervals, and lets it copy another one if `Evolution` says so.

    Args:
        evolution: `Evolution`.
        names: list of the names of the policies, in the order of the members.
        ranges: dict from names of settings to `Range`.
        objective, interval: the settings of `PolicyPopulation`.
    """

    def __init__(self, evolution, names, ranges, objective, interval):
        self._evolution, self._names = evolution, names
        self._ranges, self._objective, self._interval = ranges, objective, interval
        self._diverged = {}  # name -> the DivergedError of this train iteration

    def on_check(self, trainer):
        learners = trainer.learner.learners
        (first, one), *_ = learners.items()
        for policy, learner in learners.items():
            if _list_parts(learner) != _list_parts(one):
                raise ConfigError(
                    f"Experiment.policies is a PolicyPopulation, but {first} and {policy} differ in their "
                    "algorithm, policy or optimizer: they must have the same parts, so that one can copy the "
                    "other"
                )
            for name in self._ranges.keys() - find_tunables(learner).keys():
                raise ConfigError(
                    f"PolicyPopulation.settings has {name!r}: nothing in the learner of {policy} reads it"
                )
        prefix = f"policies/{first}/"
        known = [name.removeprefix(prefix) for name in trainer.metrics if name.startswith(prefix)]
        if self._objective not in known:
            raise ConfigError(
                f"PolicyPopulation.objective is {self._objective!r}: it must be one of {', '.join(known)}"
            )

    def on_begin(self, trainer):
        if not self._evolution.orders:  # Otherwise a checkpoint has restored the state of a run that goes on.
            self._evolution.begin(len(self._names))
        for name, order in zip(self._names, self._evolution.orders, strict=True):
            assign_tunables(trainer.learner.learners[name], order["settings"])
        # Without this the learner would raise the error, although the policy can copy another one. It is
        # called in the training thread, before `on_train_iter` of the same iteration.
        trainer.learner.on_diverged = self._diverged.__setitem__

    def on_train_iter(self, trainer, summary):
        # First the policies that have diverged: their report keeps the others from copying them.
        for name in sorted(self._names, key=lambda name: name not in self._diverged):
            env_steps = int(trainer.learner.learners[name].progress.env_steps)
            error = self._diverged.pop(name, None)
            member = self._names.index(name)
            last = self._evolution.last_row(member)
            # By the last row of the table, which a run that goes on has, too: it reports at the same steps.
            is_due = env_steps // self._interval > (last["env_steps"] if last else 0) // self._interval
            if error is not None or is_due:
                self._report(trainer, member, env_steps, error)

    def on_end(self, trainer, reason):
        rows, best = self._evolution.rows, self._evolution.best()
        if not rows:
            return
        if best is not None:
            logging.info(
                "%s is the best, %s %.6g: alf play %s --policy=%s",
                *(self._names[best], self._objective, self._evolution.objectives[best]),
                *(trainer.root_dir, self._names[best]),
            )
        try:
            import_extra("matplotlib", "plot")
        except ConfigError as error:
            # The training itself has succeeded, so this is not an error.
            logging.warning("the population is not drawn: %s", error)
            return
        draw_lineage(rows, self._ranges, self._objective, trainer.root_dir)

    def _report(self, trainer, member, env_steps, error):
        """Reports a policy and carries out the decision; `error` is its DivergedError, or None."""
        name = self._names[member]
        objective = math.nan if error else trainer.metrics[f"policies/{name}/{self._objective}"].result()
        before = self._evolution.orders[member]
        order = self._evolution.report(member, env_steps, objective, diverged=error is not None)
        # From the state, which is only in checkpoints: after a crash the next report writes the table anew,
        # without the rows that were lost.
        write_table(trainer.root_dir, self._evolution.rows, list(self._ranges))
        if order is not before:
            self._copy(trainer, order)
        elif error is not None:
            # There is nobody to copy: the run ends, as it would without a population.
            raise error

    def _copy(self, trainer, order):
        settings, learner, objectives = order["settings"], trainer.learner, self._evolution.objectives
        parent, member = order["parent"]["member"], order["member"]
        source, target = self._names[parent], self._names[member]
        logging.info(
            "%s (%s %.5g) copies %s (%.5g) and goes on with %s",
            *(target, self._objective, objectives[member], source, objectives[parent]),
            ", ".join(f"{name} = {value:.4g}" for name, value in settings.items()),
        )
        learner.copy_policy(source, target)
        # Afterwards, because the copy includes the values of the parent's `Tunable`s.
        assign_tunables(learner.learners[target], settings)
        # The figures too: the target's own ones belong to the weights from before.
        figures = {
            f"policies/{target}/{name.removeprefix(f'policies/{source}/')}": metric.get_state()
            for name, metric in trainer.metrics.items()
            if name.startswith(f"policies/{source}/")
        }
        trainer.driver.copy_episodes({"metrics": figures})
        trainer.driver.publish_soon()  # Otherwise the actors would go on with the old weights for a while.


class Figure(Metric):
    """Shows a number of the population.

    Args:
        name: text.
        result: callable () -> the number.
        evolution: `Evolution`, whose state a checkpoint stores as the state of this metric; None: no state.
    """

    def __init__(self, name, result, evolution=None):
        self.name, self._result, self.evolution = name, result, evolution

    def __call__(self, record):
        """Does nothing: records know neither settings nor copies."""

    def result(self):
        return self._result()

    def get_state(self):
        return self.evolution and self.evolution.get_state()

    def set_state(self, state):
        if self.evolution is not None:
            self.evolution.set_state(state)


def _list_parts(learner):
    variables = [(variable.shape.as_list(), variable.dtype) for variable in learner.list_learned()]
    return type(learner.algorithm), type(learner.policy), variables
