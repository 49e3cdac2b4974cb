# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Every setting of an optimizer is bound in gin by Keras' name for it."""

import gin
import pytest

from alf.learner import optimizers


@pytest.mark.parametrize(
    "make, settings",
    [
        (optimizers.Adam, dict(learning_rate=0.5, beta_1=0.25, beta_2=0.75, epsilon=0.125, amsgrad=True)),
        (optimizers.RMSprop, dict(learning_rate=0.5, rho=0.75, momentum=0.25, epsilon=0.125, centered=True)),
        (optimizers.SGD, dict(learning_rate=0.5, momentum=0.25, nesterov=True)),
    ],
)
@pytest.mark.parametrize("clip", [{}, {"clipnorm": 2.0}, {"clipvalue": 3.0}, {"global_clipnorm": 4.0}])
def test_settings_from_gin(make, settings, clip):
    settings = {**settings, **clip, "decay": 0.0625, "name": "mine"}
    for name, value in settings.items():
        gin.bind_parameter(f"{make.__name__}.{name}", value)
    assert make().get_config() == settings
