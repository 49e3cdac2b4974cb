# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The flag of the commands that may use a Ray cluster."""

from absl import flags

RAY_ADDRESS = flags.DEFINE_string(
    "ray_address", None, "Ray cluster to use, such as 'auto'; without it Ray starts on this machine."
)
