# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Drivers for tests, which need a line for each setting otherwise."""

import dataclasses

from alf.drivers import DriverSettings, Monitoring


def build_driver(driver_class, envs, learner, **kwargs):
    """Makes a driver; arguments that are fields of `DriverSettings` or `Monitoring` go there.

    Args:
        driver_class: the class, or its `from_env_fn` with the number of environments in `kwargs`.
        envs, learner, **kwargs: the arguments.
    """
    for name, kind in (("settings", DriverSettings), ("monitoring", Monitoring)):
        fields = {field.name for field in dataclasses.fields(kind)}
        kwargs[name] = kind(**{key: kwargs.pop(key) for key in fields & kwargs.keys()})
    return driver_class(envs, learner, **kwargs)
