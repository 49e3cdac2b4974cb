# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Parts of a run for tests: each setting is an argument, whatever object it belongs to."""

import dataclasses
import functools

import tensorflow as tf

from alf.data_structures import count_transitions
from alf.distributed.collector_settings import CollectorSettings
from alf.distributed.ray_collectors import RayCollectors
from alf.drivers import DriverSettings, Monitoring, OfflineDriver
from alf.environments import PythonEnvironment
from alf.learner import LearnerSettings, ReplayLearner, UnrollLearner
from alf.replay import SequenceReplayer
from alf.runs import checkpoint_files as files
from alf.runs.checkpointer import Checkpointer, LoopCounts
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


def build_driver(driver_class, envs, policy, **kwargs):
    """Makes a driver; arguments that are fields of `DriverSettings` or `Monitoring` go there.

    Without a number there is an actor: tests are of all parts.

    Args:
        driver_class: the class, or a callable like it, such as a part of this function.
        envs, **kwargs: the arguments.
        policy: the policy, or a learner, which becomes the attribute `learner` of the driver.
    """
    if kwargs.get("settings") is None:
        kwargs.setdefault("num_actor_queues", 1)
    for name, kind in (("settings", DriverSettings), ("monitoring", Monitoring)):
        kwargs[name] = take_fields(kind, kwargs, kwargs.get(name))
    if not hasattr(policy, "observe"):
        return driver_class(envs, policy, **kwargs)
    driver = driver_class(envs, policy.policy, **kwargs)
    driver.learner = policy
    return driver


def build_learner(algorithm, optimizer=None, make=None, replayer=None, **kwargs):
    """Makes a learner; arguments that are fields of `LearnerSettings` go there.

    Args:
        algorithm, optimizer, replayer, **kwargs: the arguments.
        make: the class, or a callable like it, such as a part of a class. None: the one for the replayer.
    """
    settings = take_fields(LearnerSettings, kwargs, kwargs.pop("settings", None))
    if replayer is not None:
        kwargs["replayer"] = replayer
    make = make or (ReplayLearner if isinstance(replayer, SequenceReplayer) else UnrollLearner)
    # What is not given comes from gin.
    given = () if optimizer is None else (optimizer,)
    return make(algorithm, *given, settings=settings, **kwargs)


def build_offline_driver(learner):
    """Makes an `OfflineDriver`, with its learner as the attribute `learner`."""
    driver = OfflineDriver(learner.policy)
    driver.learner = learner
    return driver


def build_checkpointer(path, driver, *args, **kwargs):
    """Makes a `Checkpointer` of a driver with a learner, and with `LoopCounts` as the attribute `counts`."""
    counts = LoopCounts()
    checkpointer = Checkpointer(str(path), driver, driver.learner, counts, *args, **kwargs)
    checkpointer.counts = counts
    return checkpointer


def driver_of(experiment):
    """Makes the driver of an `Experiment`, with its learner as the attribute `learner`."""
    driver, driver.learner = experiment.make_parts()
    return driver


def collect_and_observe(driver):
    """Lets `driver.learner` observe what `Driver.collect` gives; returns the environment steps, an int."""
    steps = 0
    for experience in driver.collect():
        driver.learner.observe(experience)
        steps += int(count_transitions(experience.step_type))
    return steps


def build_trainer(root_dir, driver, *args, **kwargs):
    """Makes a `Trainer` of a driver with a learner; `PARTS` says which arguments belong to its parts."""
    ctors = {"checkpoints": Checkpoints, "summaries": Summaries}
    for name in PARTS.keys() & kwargs.keys():
        part, argument = PARTS[name]
        kwargs[part] = functools.partial(kwargs.get(part, ctors[part]), **{argument: kwargs.pop(name)})
    return Trainer(root_dir, driver, driver.learner, *args, **kwargs)


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
