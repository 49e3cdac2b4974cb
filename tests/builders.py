# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Parts of a run for tests: each setting is an argument, whatever object it belongs to."""

import dataclasses
import functools

import tensorflow as tf

from alf.distributed.collector_settings import CollectorSettings
from alf.distributed.ray_collectors import RayCollectors
from alf.drivers import DriverSettings, Monitoring
from alf.environments import PythonEnvironment
from alf.runs import checkpoint_files as files
from alf.training import Trainer
from alf.training.checkpoints import Checkpoints
from alf.training.evaluations import Evaluations
from alf.training.summaries import Summaries
from alf.workers import WorkerSettings

# By the argument of `build_trainer`: which of the trainer's parts it belongs to, and its name there.
PARTS = {
    "checkpoint_interval": ("checkpoints", "interval"),
    "checkpoint_interval_steps": ("checkpoints", "interval_steps"),
    "max_to_keep": ("checkpoints", "max_to_keep"),
    "checkpoint_replay_buffer": ("checkpoints", "replay_buffer"),
    "summary_interval": ("summaries", "interval"),
    "custom_summary": ("summaries", "custom"),
}


def take_fields(kind, kwargs, known=None):
    """Removes the fields of a dataclass from a dict; returns `known`, or a new object, with these values."""
    fields = {field.name for field in dataclasses.fields(kind)}
    return dataclasses.replace(known or kind(), **{key: kwargs.pop(key) for key in fields & kwargs.keys()})


def build_python_env(*args, **kwargs):
    """Makes a `PythonEnvironment`; arguments that are fields of `WorkerSettings` go there."""
    workers = take_fields(WorkerSettings, kwargs)
    return PythonEnvironment(*args, workers=workers, **kwargs)


def build_collectors(*args, **kwargs):
    """Makes `RayCollectors`; arguments that are fields of `CollectorSettings` go there."""
    settings = take_fields(CollectorSettings, kwargs)
    return RayCollectors(*args, settings=settings, **kwargs)


def build_driver(driver_class, envs, learner, **kwargs):
    """Makes a driver; arguments that are fields of `DriverSettings` or `Monitoring` go there.

    Args:
        driver_class: the class, or a callable like it, such as a part of this function.
        envs, learner, **kwargs: the arguments.
    """
    for name, kind in (("settings", DriverSettings), ("monitoring", Monitoring)):
        kwargs[name] = take_fields(kind, kwargs, kwargs.get(name))
    return driver_class(envs, learner, **kwargs)


def build_trainer(*args, **kwargs):
    """Makes a `Trainer`; `PARTS` says which arguments belong to its parts."""
    ctors = {"checkpoints": Checkpoints, "summaries": Summaries}
    for name in PARTS.keys() & kwargs.keys():
        part, argument = PARTS[name]
        kwargs[part] = functools.partial(kwargs.get(part, ctors[part]), **{argument: kwargs.pop(name)})
    return Trainer(*args, **kwargs)


def write_checkpoint(path, learner):
    """Writes a checkpoint with only the variables of an object, in place of the learner."""
    with files.replace(path) as folder:
        files.write_weights(folder, tf.train.Checkpoint(learner=learner))


def variables_of(optimizer):
    """Returns a list of an optimizer's own variables: the step, then the averages of each weight."""
    return [optimizer._step, *tf.nest.flatten(optimizer._slots)]


def find_evaluator(trainer):
    """Returns the `Evaluator` of a trainer."""
    (evaluations,) = (callback for callback in trainer._own if isinstance(callback, Evaluations))
    return evaluations.evaluator
