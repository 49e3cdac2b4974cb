# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""FrameStacker: which frames are stacked, and along which axis."""

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import FIRST, MID
from alf.errors import ConfigError
from alf.policies.data_transformers import (
    FrameStacker,
)
from tests.policies.data_transformers.rows import (
    IMAGE,
    REWARD,
    VECTOR,
    make_rows,
    run_steps,
)


def test_frames_of_an_episode_alone_are_stacked():
    rows = make_rows(VECTOR, REWARD)
    seen, _ = run_steps(FrameStacker(VECTOR, REWARD, num_frames=3), rows)
    for b in range(5):
        begun = 0
        for t in range(12):
            begun = t if rows.step_type[t, b] == FIRST else begun
            frames = [rows.observation[max(t - k, begun), b] for k in (2, 1, 0)]
            np.testing.assert_array_equal(seen.observation[t, b], np.concatenate(frames))


def test_the_chosen_parts_alone_are_stacked():
    spec = {"cameras": (IMAGE, IMAGE), "x": VECTOR, "mask": REWARD}
    rows = make_rows(spec, REWARD)
    keys = ("x", "cameras/1")
    stacker = FrameStacker(spec, REWARD, num_frames=3, keys=keys, channels="first")
    shapes = tf.nest.map_structure(lambda s: s.shape.as_list(), stacker.observation_spec)
    assert shapes == {"cameras": ([1, 3, 3], [3, 3, 3]), "x": [6], "mask": []}
    seen, _ = run_steps(stacker, rows)
    np.testing.assert_array_equal(seen.observation["mask"], rows.observation["mask"])
    np.testing.assert_array_equal(seen.observation["cameras"][0], rows.observation["cameras"][0])
    for select in (lambda observation: observation["x"], lambda observation: observation["cameras"][1]):
        plain, stacked = select(rows.observation), select(seen.observation)
        alone, _ = run_steps(
            FrameStacker(select(spec), REWARD, num_frames=3, channels="first"),
            rows._replace(observation=plain),
        )
        np.testing.assert_array_equal(stacked, alone.observation)


@pytest.mark.parametrize(
    "shape, settings, stacked, axis",
    [
        ((3, 36, 40), {}, (6, 36, 40), 0),
        ((36, 40, 3), {}, (36, 40, 6), 2),
        ((4, 5, 4), {"channels": "last"}, (4, 5, 8), 2),
        ((4, 5, 4), {"channels": "first"}, (8, 5, 4), 0),
    ],
    ids=str,
)
def test_frames_are_stacked_along_their_channels(shape, settings, stacked, axis):
    spec = tf.TensorSpec(shape, tf.uint8)
    stacker = FrameStacker(spec, REWARD, num_frames=2, **settings)
    assert stacker.observation_spec == tf.TensorSpec(stacked, tf.uint8)
    rows = make_rows(spec, REWARD)
    seen, _ = run_steps(stacker, rows)
    assert rows.step_type[1, 0] == MID
    two = [rows.observation[t, 0] for t in (0, 1)]
    np.testing.assert_array_equal(seen.observation[1, 0], np.concatenate(two, axis=axis))


def test_a_stack_that_hides_its_channels_is_refused():
    hidden = tf.TensorSpec((10, 10, 3), tf.uint8)
    with pytest.raises(ConfigError, match=r"channels is 'auto': a stack \(10, 10, 12\) .*'last'"):
        FrameStacker(hidden, REWARD)
    gin.parse_config("FrameStacker.channels = 'last'")
    assert FrameStacker(hidden, REWARD).observation_spec.shape == (10, 10, 12)
    with pytest.raises(ConfigError, match="FrameStacker.channels is 3: it must be"):
        FrameStacker(hidden, REWARD, channels=3)
