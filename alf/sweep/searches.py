# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which settings a sweep tries: a grid, random samples, or what Optuna chooses. Without TensorFlow.

The settings of a trial are a dict from the name of a gin binding to the text of its value. A search has the
methods of `FixedSearch`.
"""

import itertools
import logging
import re
import tokenize

import gin
import numpy as np

from alf.errors import ConfigError, import_extra
from alf.population.mutation import Choice, Discount, Integers, LogUniform, Uniform, draw
from alf.population.population import check_names


def parse_grid(texts):
    """Reads texts NAME=[VALUE, ...] of values as gin files have them.

    Returns:
        dict from each name to the list of the texts of its values.

    Raises:
        ConfigError: if a text is no such list, it is empty, or a name or a value is there twice.
    """
    grid, names = {}, []
    for text in texts:
        name, _, values = (part.strip() for part in text.partition("="))
        if not name or not values:
            raise ConfigError(f"--grid={text}: it must be NAME=[VALUE, ...]")
        names.append(name)
        check_names("--grid", names)
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

    def go_on(self, known):
        """Takes the settings of the trials so far, of none of which it was told."""

    def ask(self, known):
        """Returns the settings of another trial than those in a list; None if there is none."""
        return next((settings for settings in self._trials if settings not in known), None)

    def tell(self, trial, objective):
        """Takes the objective of a trial, a float, or None if a run of it has failed; may be repeated.

        `trial` is its place among all trials, an int.
        """


class OptunaSearch:
    """Trials that Optuna chooses, by ask and tell.

    Optuna keeps nothing on the disk: a sweep that goes on tells it again what it knows. Each trial is asked
    of a sampler with a seed of its own. A sweep that goes on would repeat the numbers of one sampler.
    """

    def __init__(self, sweep):
        self._optuna = _import_optuna()
        self._sweep = sweep
        self._study = self._optuna.create_study(direction="maximize")
        self.count = sweep.num_samples

    def check(self, known):
        if len(known) > self.count:
            raise ConfigError(f"Sweep.num_samples is {self.count}: the sweep there has tried {len(known)}")
        ranges = self._sweep.settings
        for settings in known:  # of a file: what it says is parsed as gin bindings
            if {*settings} != {*ranges} or not all(could_draw(ranges[x], settings[x]) for x in ranges):
                raise ConfigError(f"the sweep there has tried {settings}, which Sweep.settings cannot draw")

    def go_on(self, known):
        for settings in known:
            values = (recall(name, values, settings[name]) for name, values in self._sweep.settings.items())
            self._study.enqueue_trial(dict(values))
            self._begin_trial()

    def ask(self, known):
        if len(known) >= self.count:
            return None
        seed = int(np.random.SeedSequence([self._sweep.seed, len(known)]).generate_state(1)[0])
        self._study.sampler = self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        return {name: repr(value) for name, value in self._begin_trial().items()}

    def tell(self, trial, objective):
        state = self._optuna.trial.TrialState.FAIL if objective is None else None
        self._study.tell(trial, objective, state, skip_if_finished=True)

    def _begin_trial(self):
        """Asks Optuna for a trial; returns its values by name."""
        trial = self._study.ask()
        return {name: suggest(trial, name, values) for name, values in self._sweep.settings.items()}


def could_draw(values, text):
    """Whether a text is that of a value of a `Range`."""
    if isinstance(values, Choice):
        return text in [repr(value) for value in values.values]
    low, high = values.limits
    try:
        return low <= (int if isinstance(values, Integers) else float)(text) <= high
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


def recall(name, values, text):
    """Returns the name and the value by which `suggest` asked Optuna for what has become a text, a pair."""
    if isinstance(values, Choice):
        return name, next(value for value in values.values if repr(value) == text)
    if isinstance(values, Discount):
        return f"1 - {name}", 1.0 - float(text)
    return name, (int if isinstance(values, Integers) else float)(text)


def _import_optuna():
    optuna = import_extra("optuna", "sweep")
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
