# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The trials of a sweep: the settings that are tried, kept by Optuna. Without TensorFlow.

The settings of a trial are a dict from the name of a gin binding to the text of its value.
"""

import contextlib
import itertools
import logging
import os

import numpy as np

from alf.core.files import open_regular
from alf.errors import ConfigError, FolderError, SaveError, import_extra
from alf.studies.ranges import Choice, Discount, Integers, LogUniform, draw
from alf.studies.state import damaged

TRIALS_FILE = "optuna.log"
STUDY_NAME = "sweep"  # the name in the file


class Trials:
    """The trials of a sweep, in a journal file of Optuna that `optuna-dashboard` can show.

    A trial of the sweep is an Optuna trial. If a trial that has ended gets more runs, because some have
    failed or there are more seeds, Optuna has another trial with the same settings.

    The trials of a grid and random samples are planned here and added to Optuna as they are: Optuna's
    `GridSampler` neither works with ask and tell nor lets a grid grow, and its `RandomSampler` would repeat
    its first samples when a sweep goes on. With TPE, Optuna's sampler chooses. Each trial has a sampler with
    a seed of its own, so that a sweep that goes on does not repeat numbers.

    Args:
        folder: path of the sweep.
        sweep: `Sweep`.
        grid: dict from names of settings to lists of texts.

    Attributes:
        settings: list of the settings of each trial so far.
        count: int, the number of trials that the sweep will have.

    Raises:
        ConfigError: if the file cannot be read, or a trial was begun for which the search does not ask.
    """

    def __init__(self, folder, sweep, grid):
        self._optuna = import_optuna()
        self._sweep, self._grid = sweep, grid
        self._planned = None if sweep.search == "optuna" else plan_trials(sweep, grid)
        self.count = sweep.num_samples if self._planned is None else len(self._planned)
        self._path = os.path.join(folder, TRIALS_FILE)
        self.settings, self._numbers = [], []  # `_numbers`: the number of the newest Optuna trial of each
        with self._saving():
            self._study = self._open()
            self._read()
            if wrong := self._find_wrong(self.settings):
                raise FolderError(folder, f"does not fit: {wrong}; choose another root_dir, or ask for more")

    def ask(self):
        """Begins another trial and returns its index; returns None if all have begun."""
        with self._saving():
            if self._planned is not None:
                # By content and not by position: a grid may have got more values since the sweep began.
                new = next((x for x in self._planned if x not in self.settings), None)
                return None if new is None else self._add(new)
            return self._ask_sampler() if len(self.settings) < self.count else None

    def is_pruned(self, index):
        """Whether a trial was pruned, so that its runs must not go on."""
        return self._trial(index).state.name == "PRUNED"

    def is_over(self, index):
        """Whether a trial has ended in any way."""
        return self._trial(index).state.is_finished()

    def last_step(self, index):
        """Returns the step of the last `report`; 0 before the first one."""
        return self._trial(index).last_step or 0

    def begin_again(self, index):
        """Begins a trial anew that has ended."""
        with self._saving():
            old = self._trial(index)
            self._numbers[index] = self._create(old.params, old.distributions, old.user_attrs)

    def report(self, index, step, value, may_prune):
        """Takes an intermediate value, a float, at a step, an int; returns whether it ends the trial."""
        with self._saving():
            # Optuna has no other way to go on with a trial that an earlier process has begun.
            trial = self._optuna.trial.Trial(self._study, self._trial(index)._trial_id)
            trial.report(value, step)
            is_bad = may_prune and trial.should_prune()
            if is_bad:
                self._study.tell(trial, state=self._optuna.trial.TrialState.PRUNED)
        return is_bad

    def tell(self, index, objective):
        """Ends a trial with its objective, a float, or with None if one of its runs has failed."""
        with self._saving():
            state = self._optuna.trial.TrialState.FAIL if objective is None else None
            self._study.tell(self._numbers[index], objective, state)

    def _open(self):
        # Nobody else writes to the file now, because the folder is locked. A sweep that was killed may have
        # left the lock of the file, for which Optuna would wait 30 s; and a broken last line, to which the
        # next line would be added, so that nobody could read the file any more.
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{self._path}.lock")
        # Each line ends with a line end: everything behind the last one is broken.
        with contextlib.suppress(FileNotFoundError), open_regular(self._path, "r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
        journal = self._optuna.storages.journal
        try:
            return self._optuna.create_study(
                storage=self._optuna.storages.JournalStorage(journal.JournalFileBackend(self._path)),
                study_name=STUDY_NAME,
                direction="maximize",
                load_if_exists=True,
                pruner=make_pruner(self._sweep.pruner, self._sweep.pruner_arguments),
            )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise damaged(self._path, f"{type(error).__name__}: {error}") from None

    def _read(self):
        for trial in self._study.get_trials(deepcopy=False):
            index, settings = map(trial.user_attrs.get, ("trial", "settings"))
            if index is None:  # `_ask_sampler` was killed before it wrote the attributes.
                if not trial.state.is_finished():
                    self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)
            elif index < len(self.settings):  # It was begun again: only the newest Optuna trial counts.
                self._numbers[index] = trial.number
            else:
                self.settings.append(settings)
                self._numbers.append(trial.number)

    def _find_wrong(self, known):
        """Returns a text about the first trial that the search does not ask for; None if it asks for all.

        Trials come from files and become gin bindings, which may import modules, so they are not trusted.
        """
        if self._planned is None and len(known) > self.count:
            return f"Sweep.num_samples is {self.count}: the sweep there has tried {len(known)}"
        for settings in known:
            if self._planned is None and not self._could_draw(settings):
                return f"the sweep there has tried {settings}, which Sweep.settings cannot draw"
            if self._planned is not None and settings not in self._planned:
                return f"the sweep there has tried {describe(settings)}, which is not asked for now"
        return None

    def _could_draw(self, settings):
        """Whether settings have the names of the ranges, and texts that stand for values."""
        ranges = self._sweep.settings
        try:
            params = {name: _to_param(values, settings[name]) for name, values in ranges.items()}
            return settings.keys() == params.keys()
        except (AttributeError, LookupError, TypeError, ValueError):
            return False

    def _add(self, settings):
        """Begins a trial with given settings; returns its index."""
        params, distributions = {}, {}
        for name, text in settings.items():
            values = self._sweep.settings.get(name)
            if values is None:
                params[name] = text
                choices = self._grid.get(name, [text])
                distributions[name] = self._optuna.distributions.CategoricalDistribution(choices)
            else:
                param = _name_param(name, values)
                params[param], distributions[param] = _to_param(values, text), make_distribution(values)
        self.settings.append(settings)
        attributes = {"settings": settings, "trial": len(self.settings) - 1}
        self._numbers.append(self._create(params, distributions, attributes))
        return len(self.settings) - 1

    def _create(self, params, distributions, attributes):
        """Writes a running trial in one step, so that a kill leaves no part of it; returns its number."""
        state = self._optuna.trial.TrialState.RUNNING
        trial = dict(params=params, distributions=distributions, user_attrs=attributes)
        self._study.add_trial(self._optuna.trial.create_trial(state=state, **trial))
        # The last one is the new one, because nobody else writes to the locked folder.
        return len(self._study.get_trials(deepcopy=False)) - 1

    def _ask_sampler(self):
        index, ranges = len(self.settings), self._sweep.settings
        seed = int(np.random.SeedSequence([self._sweep.seed, index]).generate_state(1)[0])
        # With `constant_liar` it counts running trials as bad, and so does not draw near to them.
        self._study.sampler = self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        known = {_name_param(name, values): make_distribution(values) for name, values in ranges.items()}
        trial = self._study.ask(known)
        settings = {
            name: _to_text(values, trial.params[_name_param(name, values)]) for name, values in ranges.items()
        }
        trial.set_user_attr("settings", settings)
        trial.set_user_attr("trial", index)  # Last: `_read` counts only trials with this attribute.
        self.settings.append(settings)
        self._numbers.append(trial.number)
        return index

    def _trial(self, index):
        """Returns Optuna's newest trial of a trial, as the file has it now. It is not to be changed."""
        # Without a copy, because a sweep with a pruner looks at each of its runs once a second.
        return self._study.get_trials(deepcopy=False)[self._numbers[index]]

    @contextlib.contextmanager
    def _saving(self):
        """Raises SaveError if the file cannot be written."""
        try:
            yield
        except OSError as error:
            raise SaveError(f"{self._path} cannot be written: {error.strerror or error}") from None


def plan_trials(sweep, grid):
    """Lists the settings of all combinations of a grid's values and a sweep's random samples, each once.

    The last name of the grid changes fastest. Sample i depends only on `Sweep.seed`, the ranges and i.
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    samples = [{}]
    if sweep.settings:
        rngs = [np.random.default_rng([sweep.seed, i]) for i in range(sweep.num_samples)]
        drawn = [draw(sweep.settings, rng) for rng in rngs]
        samples = [{name: repr(value) for name, value in sample.items()} for sample in drawn]
    trials = [point | sample for point in points for sample in samples]
    return [settings for i, settings in enumerate(trials) if settings not in trials[:i]]


def make_distribution(values):
    """Returns Optuna's distribution for a `Range`. A `Discount` becomes its distance from 1."""
    distributions = import_optuna().distributions
    if isinstance(values, Choice):
        return distributions.CategoricalDistribution(values.values)
    low, high = values.limits
    if isinstance(values, Integers):
        return distributions.IntDistribution(low, high)
    if isinstance(values, Discount):
        return distributions.FloatDistribution(1.0 - high, 1.0 - low, log=True)
    return distributions.FloatDistribution(low, high, log=isinstance(values, LogUniform))


def _name_param(name, values):
    return f"1 - {name}" if isinstance(values, Discount) else name


def _to_param(values, text):
    """Converts the text of a value of a `Range` to the parameter that Optuna keeps."""
    if isinstance(values, Choice):
        return {repr(value): value for value in values.values}[text]
    if isinstance(values, Discount):
        low, high = values.limits
        return min(max(1.0 - float(text), 1.0 - high), 1.0 - low)  # 1 - x may be rounded to just outside.
    return (int if isinstance(values, Integers) else float)(text)


def _to_text(values, param):
    """Converts a parameter of Optuna to the text of the value."""
    # 1 - (1 - x) may be rounded to just outside of the range.
    return repr(values.clip(1.0 - param) if isinstance(values, Discount) else param)


def make_pruner(name, arguments):
    """Makes a pruner by its name, such as "MedianPruner"; None makes a pruner that prunes nothing.

    A wrong name or wrong arguments raise ConfigError.
    """
    pruners = import_optuna().pruners
    known = [x for x in vars(pruners) if x.endswith("Pruner") and x != "BasePruner"]
    if (name or "NopPruner") not in known:
        raise ConfigError(f"Sweep.pruner is {name!r}: it must be one of Optuna's {', '.join(known)}")
    try:
        return getattr(pruners, name or "NopPruner")(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Sweep.pruner_arguments is {arguments}: {error}") from None


def import_optuna():
    """Imports Optuna, and lets it log only warnings. ConfigError names the extra that installs it."""
    optuna = import_extra("optuna", "sweep")
    optuna.logging.set_verbosity(logging.WARNING)
    return optuna


def describe(settings):
    """Returns the settings of a trial in one line, floats with 4 digits; "" without settings."""
    return ", ".join(f"{name}={shorten(text)}" for name, text in settings.items())


def shorten(text):
    """Returns the text of a value, with floats rounded to 4 digits."""
    try:
        return text if text.lstrip("-").isdigit() else f"{float(text):.4g}"
    except ValueError:
        return text
