# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Drivers and trainers for tests: each setting as an argument, whatever object it belongs to."""

import dataclasses
import functools

from alf.drivers import DriverSettings, Monitoring
from alf.training import Trainer
from alf.training.checkpoints import Checkpoints
from alf.training.evaluations import Evaluations
from alf.training.summaries import Summaries

# By the argument of `build_trainer`: which of the trainer's parts it belongs to, and its name there.
PARTS = {
    "checkpoint_interval": ("checkpoints_ctor", "interval"),
    "max_to_keep": ("checkpoints_ctor", "max_to_keep"),
    "checkpoint_replay_buffer": ("checkpoints_ctor", "replay_buffer"),
    "summary_interval": ("summaries_ctor", "interval"),
    "custom_summary": ("summaries_ctor", "custom"),
}


def build_driver(driver_class, envs, learner, **kwargs):
    """Makes a driver; arguments that are fields of `DriverSettings` or `Monitoring` go there.

    Args:
        driver_class: the class, or a callable like it.
        envs, learner, **kwargs: the arguments.
    """
    for name, kind in (("settings", DriverSettings), ("monitoring", Monitoring)):
        fields = {field.name for field in dataclasses.fields(kind)}
        kwargs[name] = kind(**{key: kwargs.pop(key) for key in fields & kwargs.keys()})
    return driver_class(envs, learner, **kwargs)


def build_trainer(*args, **kwargs):
    """Makes a `Trainer`; `PARTS` says which arguments belong to its parts."""
    ctors = {"checkpoints_ctor": Checkpoints, "summaries_ctor": Summaries}
    for name in PARTS.keys() & kwargs.keys():
        part, argument = PARTS[name]
        kwargs[part] = functools.partial(kwargs.get(part, ctors[part]), **{argument: kwargs.pop(name)})
    return Trainer(*args, **kwargs)


def find_evaluator(trainer):
    """Returns the `Evaluator` of a trainer."""
    (evaluations,) = (callback for callback in trainer._own if isinstance(callback, Evaluations))
    return evaluations.evaluator
