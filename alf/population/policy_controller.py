# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PolicyController: carries out what a `PolicyStudy` decides, and the metrics that show it."""

import math
import os

from absl import logging

from alf.callback import Callback
from alf.core.files import write_file
from alf.drivers.metrics import Metric
from alf.errors import ConfigError, import_extra
from alf.population.lineage import draw_lineage
from alf.population.mutation import list_best
from alf.population.study import TABLE_FILE, format_table
from alf.schedules import assign_tunables, find_tunables


class PolicyController(Callback):
    """Reports each policy at the end of its intervals, and lets it copy another one if the study says so.

    Args:
        study: `PolicyStudy`.
        names: of the policies, in the order of the study.
        ranges: dict from names of settings to `Range`.
        objective: as in `PolicyPopulation`.
    """

    def __init__(self, study, names, ranges, objective):
        self._study, self._names = study, names
        self._ranges, self._objective = ranges, objective
        self._diverged = {}  # name -> the DivergedError of this train iteration

    def on_check(self, trainer):
        _check_same(trainer.learner.learners)
        self._check_tunables(trainer.learner.learners)
        self._check_objective(trainer.metrics)

    def on_begin(self, trainer):
        self._study.begin()
        for name, settings in zip(self._names, self._study.settings, strict=True):
            assign_tunables(trainer.learner.learners[name], settings)
        trainer.learner.on_diverged = self._diverged.__setitem__

    def on_train_iter(self, trainer, summary):
        # First those that have diverged: nobody else may copy them.
        for name in sorted(self._names, key=lambda name: name not in self._diverged):
            env_steps = int(trainer.learner.learners[name].progress.env_steps)
            error = self._diverged.pop(name, None)
            member = self._names.index(name)
            if error is not None or self._study.is_due(member, env_steps):
                self._report(trainer, member, env_steps, error)

    def on_end(self, trainer, reason):
        rows = self._study.rows
        if not rows:
            return
        objectives = self._study.objectives
        for best in list_best(objectives, 0.5)[-1:]:
            logging.info(
                "%s is the best, %s %.6g: alf-play --root_dir=%s --policy=%s",
                *(self._names[best], self._objective, objectives[best], trainer.root_dir, self._names[best]),
            )
        try:
            import_extra("matplotlib", "tune")
        except ConfigError as error:
            logging.warning("there is no picture of the population: %s", error)
            return
        draw_lineage(rows, self._ranges, self._objective, trainer.root_dir)

    def _report(self, trainer, member, env_steps, error):
        """Reports a policy, and carries out the decision; `error` is the DivergedError of the policy."""
        objective = math.nan if error else self._metric(trainer, member).result()
        parent = self._study.report(member, env_steps, objective, has_diverged=error is not None)
        table = format_table(self._study.rows, list(self._ranges))
        write_file(os.path.join(trainer.root_dir, TABLE_FILE), table)
        if parent is not None:
            self._copy(trainer, parent, member)
        elif error is not None:
            raise error

    def _copy(self, trainer, parent, member):
        settings, learner = self._study.settings[member], trainer.learner
        source, target = self._names[parent], self._names[member]
        objectives = self._study.objectives
        logging.info(
            "%s (%s %.5g) copies %s (%.5g) and goes on with %s",
            *(target, self._objective, objectives[member], source, objectives[parent]),
            ", ".join(f"{name} = {value:.4g}" for name, value in settings.items()),
        )
        learner.learners[target].copy_from(learner.learners[source])
        assign_tunables(learner.learners[target], settings)
        # An objective of the weights from before would say nothing.
        figures = {
            f"policies/{target}/{name.removeprefix(f'policies/{source}/')}": metric.get_state()
            for name, metric in trainer.metrics.items()
            if name.startswith(f"policies/{source}/")
        }
        trainer.driver.copy_episodes({"metrics": figures})
        trainer.driver.publish_soon()

    def _metric(self, trainer, member):
        return trainer.metrics[f"policies/{self._names[member]}/{self._objective}"]

    def _check_tunables(self, learners):
        """Raises ConfigError if a setting has no `Tunable` in a learner."""
        for policy, learner in learners.items():
            tunables = find_tunables(learner)
            for name in self._ranges:
                if name not in tunables:
                    raise ConfigError(
                        f"PolicyPopulation.settings has {name!r}: nothing in the learner of {policy} reads it"
                    )

    def _check_objective(self, metrics):
        prefix = f"policies/{self._names[0]}/"
        known = [name.removeprefix(prefix) for name in metrics if name.startswith(prefix)]
        if self._objective not in known:
            raise ConfigError(
                f"PolicyPopulation.objective is {self._objective!r}: it must be one of {', '.join(known)}"
            )


class SettingMetric(Metric):
    """Shows the present value of a setting of one policy; NaN before the run begins.

    Args:
        study: `PolicyStudy`, whose state is that of `NumCopies`.
        member: int, the place of the policy.
        policy, setting: texts, their names.
    """

    def __init__(self, study, member, policy, setting):
        self.name = f"population/{policy}/{setting}"
        self._study, self._member, self._setting = study, member, setting

    def __call__(self, record):
        """Does nothing: records have no settings."""

    def result(self):
        settings = self._study.settings
        return settings[self._member][self._setting] if settings else math.nan

    def get_state(self):
        return None

    def set_state(self, state):
        """Does nothing."""


class NumCopies(Metric):
    """Counts how often a policy has copied another one; a checkpoint holds the study's state as its own.

    Args:
        study: `PolicyStudy`.
    """

    name = "population/copies"

    def __init__(self, study):
        self._study = study

    def __call__(self, record):
        """Does nothing: records do not say who has copied whom."""

    def result(self):
        return self._study.num_copies

    def get_state(self):
        return self._study.get_state()

    def set_state(self, state):
        self._study.set_state(state)


def _check_same(learners):
    """Raises ConfigError unless each learner could copy every other one."""
    (first, one), *others = learners.items()
    for name, other in others:
        if _describe(one) != _describe(other):
            raise ConfigError(
                f"Experiment.policies is a PolicyPopulation, but {first} and {name} differ in their "
                "algorithm, policy or optimizer: they must have the same parts, so that one can copy the "
                "other"
            )


def _describe(learner):
    variables = [(variable.shape.as_list(), variable.dtype) for variable in learner.list_learned()]
    return type(learner.algorithm), type(learner.policy), variables
