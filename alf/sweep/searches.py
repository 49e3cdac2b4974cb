# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which settings a sweep tries: a grid, random samples, or what Optuna chooses. Without TensorFlow.

The settings of a trial are a dict from the name of a gin binding to the text of its value. A search has the
methods of `FixedSearch`.
"""

import itertools
import logging
import os
import re
import tokenize

import gin
import numpy as np

from alf.errors import ConfigError
from alf.extras import import_extra
from alf.population.mutation import Choice, Discount, Integers, LogUniform, Uniform, draw

OPTUNA_FILE = "optuna.journal"


def parse_grid(texts):
    """Reads texts NAME=[VALUE, ...] of values as gin files have them.

    Returns:
        dict from each name to the list of the texts of its values.

    Raises:
        ConfigError: if a text is no such list, it is empty, or a name or a value is there twice.
    """
    grid = {}
    for text in texts:
        name, _, values = (part.strip() for part in text.partition("="))
        if not name or not values:
            raise ConfigError(f"--grid={text}: it must be NAME=[VALUE, ...]")
        if name in grid:
            raise ConfigError(f"--grid: {name} is there twice")
        grid[name] = _parse_values(name, values)
    return grid


def _parse_values(name, text):
    try:
        values = gin.config.parse_value(text)
    except tokenize.TokenError:
        raise ConfigError(
            f"--grid={name}={text}: it cannot be read: a bracket or a quotation mark is not closed"
        ) from None
    except (SyntaxError, ValueError) as error:
        word = re.search(r"Failed to parse token '(\w+)'", str(error))
        first = str(error).strip().splitlines()[0].rstrip(" .")
        first = f"{word[1]} is no value; a text needs quotation marks, 'TEXT'" if word else first
        raise ConfigError(f"--grid={name}={text}: it cannot be read: {first}") from None
    if not isinstance(values, (list, tuple)) or not values:
        raise ConfigError(f"--grid={name}={text}: it must be a list of one or more values, [VALUE, ...]")
    texts = [repr(value) for value in values]
    check_once(f"--grid={name}={text}", texts)
    return texts


def check_once(flag, values):
    """Raises ConfigError if a value is twice in a list; `flag` is a text that says where the list is."""
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ConfigError(f"{flag}: {twice[0]} is there twice")


def list_points(grid):
    """The settings of all combinations of the values in a grid; the last name changes fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def draw_samples(ranges, num_samples, seed):
    """Draws settings from a dict of `Range`s; sample i depends on nothing but the seed, the ranges and i."""
    drawn = (draw(ranges, np.random.default_rng([seed, i])) for i in range(num_samples))
    return [{name: repr(value) for name, value in sample.items()} for sample in drawn]


def make_search(sweep, grid):
    """Makes the search of a `Sweep` and a grid, a dict as of `parse_grid`."""
    if sweep.search == "optuna":
        if grid:
            raise ConfigError("--grid is set, but Sweep.search is 'optuna': name a Choice in Sweep.settings")
        return OptunaSearch(sweep)
    samples = draw_samples(sweep.settings, sweep.num_samples, sweep.seed) if sweep.settings else [{}]
    return FixedSearch([point | sample for point in list_points(grid) for sample in samples])


class FixedSearch:
    """Trials that are known before any of them has run.

    Args:
        trials: list of settings. Those that are there twice, as samples of a few values may be, are one.

    Attributes:
        count: int, of trials.
    """

    def __init__(self, trials):
        self._trials = [settings for i, settings in enumerate(trials) if settings not in trials[:i]]
        self.count = len(self._trials)

    def check(self, known):
        """Raises ConfigError if settings that a sweep has tried are none of this search."""
        for settings in known:
            if settings not in self._trials:
                raise ConfigError(
                    f"the sweep there has tried {describe(settings)}, which is not asked for now"
                )

    def open(self, folder, tokens):
        """Begins in a sweep's folder, or goes on after the trials with these tokens."""

    def ask(self, known):
        """Returns the settings of another trial than those in a list, and a token for `tell`; or None."""
        settings = next((settings for settings in self._trials if settings not in known), None)
        return None if settings is None else (settings, None)

    def tell(self, token, objective):
        """Takes the objective of a trial, a float, or None if a run of it has failed; may be repeated."""


class OptunaSearch:
    """Trials that Optuna chooses, by ask and tell; its journal is a file in the sweep's folder.

    Each trial is asked of a sampler with a seed of its own. A sweep that goes on would repeat the numbers of
    one sampler.
    """

    def __init__(self, sweep):
        self._optuna = _import_optuna()
        self._sweep = sweep
        self._study = None
        self.count = sweep.num_samples

    def check(self, known):
        if len(known) > self.count:
            raise ConfigError(f"Sweep.num_samples is {self.count}: the sweep there has tried {len(known)}")
        ranges = self._sweep.settings
        for settings in known:  # of a file: what it says is parsed as gin bindings
            if {*settings} != {*ranges} or not all(could_draw(ranges[x], settings[x]) for x in ranges):
                raise ConfigError(f"the sweep there has tried {settings}, which Sweep.settings cannot draw")

    def open(self, folder, tokens):
        path = os.path.join(folder, OPTUNA_FILE)
        journal = self._optuna.storages.journal.JournalFileBackend(path)
        storage = self._optuna.storages.JournalStorage(journal)
        self._study = self._optuna.create_study(
            storage=storage, study_name="sweep", direction="maximize", load_if_exists=True
        )
        for trial in self._study.get_trials(states=(self._optuna.trial.TrialState.RUNNING,)):
            if trial.number not in tokens:  # the sweep was killed before it took note of the trial
                self.tell(trial.number, None)

    def ask(self, known):
        if len(known) >= self.count:
            return None
        seed = int(np.random.SeedSequence([self._sweep.seed, len(known)]).generate_state(1)[0])
        self._study.sampler = self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        trial = self._study.ask()
        values = {name: suggest(trial, name, values) for name, values in self._sweep.settings.items()}
        return {name: repr(value) for name, value in values.items()}, trial.number

    def tell(self, token, objective):
        state = self._optuna.trial.TrialState.FAIL if objective is None else None
        self._study.tell(token, objective, state, skip_if_finished=True)


def could_draw(values, text):
    """Whether a text is that of a value of a `Range`."""
    if isinstance(values, Choice):
        return text in [repr(value) for value in values.values]
    low, high = values.limits
    try:
        return low <= float(text) <= high
    except (TypeError, ValueError):
        return False


def suggest(trial, name, values):
    """Returns the value of a `Range` that an Optuna trial suggests."""
    if isinstance(values, Choice):
        return trial.suggest_categorical(name, values.values)
    low, high = values.limits
    if isinstance(values, Integers):
        return trial.suggest_int(name, low, high)
    if isinstance(values, Discount):  # its distance from 1
        return values.clip(1.0 - trial.suggest_float(f"1 - {name}", 1.0 - high, 1.0 - low, log=True))
    if isinstance(values, (LogUniform, Uniform)):
        return trial.suggest_float(name, low, high, log=isinstance(values, LogUniform))
    raise ConfigError(f"Sweep.settings[{name!r}] is a {type(values).__name__}: Optuna does not know it")


def _import_optuna():
    optuna = import_extra("optuna", "sweep")
    import_extra("optuna.storages.journal", "sweep")
    optuna.logging.set_verbosity(logging.WARNING)
    return optuna


def describe(settings):
    """One line of the settings of a trial, floats with 4 digits; "" if there are none."""
    return ", ".join(f"{name}={shorten(text)}" for name, text in settings.items())


def shorten(text):
    """The text of a value; a float is rounded to 4 digits."""
    try:
        return text if text.lstrip("-").isdigit() else f"{float(text):.4g}"
    except ValueError:
        return text
