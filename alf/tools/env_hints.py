# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Hints of `check_env`: settings for an environment that works, each with the gin binding to write."""

import math

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from alf.errors import ConfigError
from alf.networks.encoders import choose_image_encoder
from alf.networks.images import channel_axis, is_image
from alf.workers import WorkerSettings

_LARGE = 10.0  # larger numbers should be scaled; it is also the limit of the normalizers' results


def find_hints(seen, batch_size, num_workers):
    """Returns hints, a list of texts.

    Args:
        seen: `alf.workers.inspector.Inspected`.
        batch_size: int, how many environments step together.
        num_workers: int, how many worker processes step them; 0 for none.
    """
    hints = [hint for leaf in seen.ranges for hint in _look_at_observation(leaf)]
    hints += list(_find_scales(seen))
    for name, space in seen.actions:
        start = getattr(space, "start", 0)
        if np.any(start):
            hints.append(f"{name} counts from {start}: an agent's actions do, too; nothing needs to be set")
        elif space.dtype == np.float64:
            hints.append(f"{name} is float64: float32 takes half the memory in queues and replay buffers")
    if not seen.has_dicts:
        hints.append("the info is not always a dict: load.info_keys cannot read it")
    hints += _look_at_episodes(seen)
    return [*hints, *_find_timeouts(seen, batch_size, num_workers)]


def _look_at_observation(leaf):
    name, space = leaf.name, leaf.space
    if space.dtype == np.float64:
        yield f"{name} is float64: float32 takes half the memory in queues and replay buffers"
    if getattr(space, "start", None) is not None and np.any(space.start):
        yield f"{name} counts from {space.start}: ALF counts from there, too; nothing needs to be set"
    if not isinstance(space, spaces.Box):
        return
    spec = tf.TensorSpec(space.shape, space.dtype)
    if is_image(spec):
        yield _describe_image(name, spec)
    elif len(space.shape) == 3:
        what = f"{name} has the shape {space.shape} and dtype {space.dtype}"
        yield f"{what}: it is taken as a vector, only uint8 as an image"
    elif len(space.shape) == 2 and space.dtype == np.uint8:
        shape = (*space.shape, 1)
        yield f"{name} is uint8 of shape {space.shape}: a gray image needs an axis of one channel, {shape}"


def _describe_image(name, spec):
    """Says which axis of an image counts as the channels, and the setting that changes this."""
    encoder = choose_image_encoder(spec).__name__
    try:
        is_first = channel_axis(spec, f"{encoder}.channels") == 0
    except ConfigError as error:
        return f"{name}: {error}, such as {encoder}.channels = 'last'"
    layout, other = (
        ("[channels, height, width]", "last") if is_first else ("[height, width, channels]", "first")
    )
    return f"{name} is taken as an image {layout}; where that is wrong: {encoder}.channels = '{other}'"


def _find_scales(seen):
    large = [x for x in seen.ranges if x.space.dtype.kind == "f" and max(-x.low, x.high) > _LARGE]
    transformers = ["@ObservationNormalizer"] * bool(large) + ["@RewardNormalizer"] * (
        seen.max_reward > _LARGE
    )
    binding = f"Experiment.data_transformers = ({', '.join(transformers)}{',' * (len(transformers) == 1)})"
    for x in large:
        yield f"{x.name} has values from {x.low:g} to {x.high:g}: {binding} gives them deviation 1"
    if seen.max_reward > _LARGE:
        yield f"rewards are as large as {seen.max_reward:g}: {binding} scales them"
    if seen.step_seconds and seen.max_reward == 0:
        yield "all rewards of the random steps are 0"


def _look_at_episodes(seen):
    lengths = seen.episode_lengths
    if not lengths:
        return [
            "no episode has ended: alf.environments.load.max_episode_steps sets a limit, if the environment "
            "is an id, or takes such an argument"
        ]
    if len(lengths) > 1 and len(set(lengths)) == 1:
        return [
            f"all episodes take {lengths[0]} steps, so that they end together: "
            f"alf.environments.load.max_random_steps = {lengths[0]} parts them"
        ]
    return []


def _find_timeouts(seen, batch_size, num_workers):
    """Yields hints about time-outs that a worker may reach with its share of the environments."""
    # The largest share of a worker, because environments may not divide evenly.
    share = math.ceil(batch_size / max(num_workers, 1))
    # A worker steps its environments one after another, and its time-out is for all of them together.
    slowest = share * max([*seen.step_seconds, *seen.reset_seconds], default=0.0)
    # With gin's bindings of it, if there are some.
    settings = WorkerSettings()
    for name, seconds, limit in (
        ("step_timeout", slowest, settings.step_timeout),
        ("start_timeout", share * seen.make_seconds, settings.start_timeout),
    ):
        # Half of the limit already: steps in training may be slower, because workers share the cores.
        if num_workers and seconds > limit / 2:
            what = "to step or reset" if name == "step_timeout" else "to make"
            yield (
                f"a worker may need {seconds:.0f} s {what} its {share} environments: "
                f"WorkerSettings.{name} = {math.ceil(4 * seconds)}"
            )
