# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The choice of a distribution, and its settings."""

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.policies.action_distributions import (
    BetaActions,
    CategoricalActions,
    GaussianActions,
    MultiCategoricalActions,
    NestedActions,
    TanhGaussianActions,
    make_action_distribution,
)
from tests.policies.action_distributions.cases import BITS, NEST, UNBOUNDED, UNEVEN, box, integers


@pytest.mark.parametrize(
    "spec, options, cls",
    [
        (integers(0, 1), {}, CategoricalActions),
        (integers(0, 1, (1,)), {}, MultiCategoricalActions),
        (tf.TensorSpec((), tf.float64), {}, GaussianActions),
        (box((2, 2)), {}, GaussianActions),
        (box(), {"continuous": "gaussian"}, GaussianActions),
        (box(), {"continuous": "tanh_gaussian"}, TanhGaussianActions),
        (box(), {"continuous": "beta"}, BetaActions),
        ((integers(0, 1),), {}, NestedActions),
        (NEST, {"continuous": "beta"}, NestedActions),
    ],
)
def test_make_action_distribution_chooses(spec, options, cls):
    assert type(make_action_distribution(spec, **options)) is cls


def test_options_reach_every_part_of_a_nest():
    actions = make_action_distribution((box((2,)), {"a": box((1,))}, integers(0, 1)), std="shared")
    assert [v.shape for v in actions.trainable_variables] == [(2,), (1,)]
    assert actions.num_outputs == 5


def test_gin_chooses():
    gin.parse_config(
        "make_action_distribution.continuous = 'tanh_gaussian'\n"
        "make_action_distribution.std = 'shared'\nmake_action_distribution.init_log_std = -2.0\n"
        "make_action_distribution.std_transform = 'softplus'\n"
        "make_action_distribution.min_log_std = -2.5\nmake_action_distribution.max_log_std = -1.5"
    )
    actions = make_action_distribution(box())
    assert isinstance(actions, TanhGaussianActions)
    (variable,) = actions.trainable_variables
    for value, log_std in ((variable, -2.0), ([-1e6] * 3, -2.5), ([1e6] * 3, -1.5)):
        variable.assign(variable.constraint(tf.convert_to_tensor(value)))
        np.testing.assert_allclose(actions.params(tf.zeros((1, 3)))[1], [[log_std] * 3], rtol=1e-5)


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        (),
        {"a": {}},
        np.zeros(3),
        tf.TensorSpec((), tf.int64),
        tf.TensorSpec((), tf.bool),
        tf.TensorSpec((), tf.string),
        tf.TensorSpec((None,), tf.float32),
        tf.TensorSpec(None, tf.float32),
        box((0,)),
        integers(0, 1, (0,)),
        integers(3, 2),
        integers([0, 3], [1, 2], (2,)),
        integers(tf.int64.min, tf.int64.max),
        {"a": integers(0, 1), "b": tf.TensorSpec((2,), tf.int32)},
    ],
)
def test_other_action_specs_are_refused(spec):
    with pytest.raises(ConfigError, match="(?s)action_spec is .*:"):
        make_action_distribution(spec)


def half_bounded():
    return box((2,), [-1.0, -np.inf], [1.0, 1.0])


def no_bounds():
    # What TF-Agents makes of infinite bounds.
    return box((2,), tf.float32.min, tf.float32.max)


@pytest.mark.parametrize(
    "spec, options, message",
    [
        (box(), {"continuous": "normal"}, "continuous is 'normal': it must be one of 'gaussian', "),
        (box(), {"std": "variable"}, "std is 'variable': it must be one of 'state', 'shared', 'fixed'"),
        (box(), {"std_transform": "relu"}, "std_transform is 'relu': it must be one of 'exp', 'softplus'"),
        (box(), {"continuous": ["beta"]}, r"continuous is \['beta'\]: it must be one of"),
        (box(), {"std": ["state"]}, r"std is \['state'\]: it must be one of"),
        (box(), {"scale_to_bounds": "False"}, "scale_to_bounds is 'False': it must be True or False"),
        (box(), {"min_log_std": -21}, "min_log_std is -21: it must be a number at least -20"),
        (box(), {"max_log_std": 21.0}, "max_log_std is 21.0: it must be a number at most 20.0"),
        (
            box(),
            {"min_log_std": 0.0, "max_log_std": 0.0},
            "max_log_std is 0.0: it must be above min_log_std = 0.0",
        ),
        (box(), {"min_log_std": "low"}, "min_log_std is 'low'"),
        (box(), {"init_log_std": 1.5, "max_log_std": 1.0}, "init_log_std is 1.5: .* to max_log_std = 1.0"),
        (box(), {"std": "fixed", "std_transform": "exp"}, "std_transform is 'exp': it has no effect where"),
        (box(), {"min_log_std": -1.0, "continuous": "beta"}, "min_log_std is -1.0: it has no effect"),
        (integers(0, 1), {"max_log_std": 0.0}, "max_log_std is 0.0: it has no effect"),
        (box(), {"init_log_std": "low"}, "init_log_std is 'low'"),
        (box(), {"init_log_std": 2.5}, "init_log_std is 2.5"),
        (box(), {"init_log_std": -6, "continuous": "tanh_gaussian"}, "init_log_std is -6"),
        (box(), {"std": "state", "continuous": "beta"}, "std is 'state': it has no effect"),
        (box(), {"init_log_std": 0.0, "continuous": "beta"}, "init_log_std is 0.0: it has no effect"),
        (box(), {"scale_to_bounds": True, "continuous": "beta"}, "scale_to_bounds is True: it has no eff"),
        (box(), {"scale_to_bounds": False, "continuous": "tanh_gaussian"}, "scale_to_bounds is False: it"),
        (integers(0, 1), {"continuous": "beta"}, "continuous is 'beta': it has no effect"),
        (integers(0, 1), {"std": "shared"}, "std is 'shared': it has no effect"),
        ((UNEVEN, BITS), {"scale_to_bounds": True}, "scale_to_bounds is True: it has no effect"),
        (UNBOUNDED, {"scale_to_bounds": True}, "scale_to_bounds is True: that needs finite bounds"),
        (UNBOUNDED, {"continuous": "tanh_gaussian"}, "continuous is 'tanh_gaussian': that needs finite"),
        (half_bounded(), {"continuous": "beta"}, "continuous is 'beta': that needs finite bounds"),
        (no_bounds(), {"continuous": "beta"}, "continuous is 'beta': that needs finite bounds"),
        (box((1,), 2.0, 1.0), {"continuous": "beta"}, "a minimum is above its maximum"),
    ],
)
def test_settings_are_checked(spec, options, message):
    with pytest.raises(ConfigError, match=message):
        make_action_distribution(spec, **options)
