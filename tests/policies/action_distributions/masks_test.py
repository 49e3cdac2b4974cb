# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action masks in observations."""

import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.policies.action_distributions import (
    split_mask,
)


def test_split_mask():
    x, y, mask = object(), object(), object()
    assert split_mask(x, None) == (x, None)
    assert split_mask({"observation": x, "action_mask": mask}, "action_mask") == (x, mask)
    seen = {"x": x, "y": y, "action_mask": mask}
    assert split_mask(seen, "action_mask") == ({"x": x, "y": y}, mask)
    assert set(seen) == {"x", "y", "action_mask"}, "it was changed"
    of_agents = {"a": {"x": x, "action_mask": mask}, "b": {"x": x, "y": y, "action_mask": 7}}
    assert split_mask(of_agents, "action_mask") == ({"a": x, "b": {"x": x, "y": y}}, {"a": mask, "b": 7})


@pytest.mark.parametrize(
    "observation",
    [
        tf.zeros(3),
        (1, 2),
        {},
        {"mask": 0},
        {"action_mask": 0},
        {"a": {"action_mask": 0, "x": 0}, "b": {"x": 0}},
    ],
    ids=repr,
)
def test_split_mask_says_what_is_wrong(observation):
    with pytest.raises(ConfigError, match="action_mask_key is 'action_mask': the observation has"):
        split_mask(observation, "action_mask")
