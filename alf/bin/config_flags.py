# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The flag of the commands that read gin files."""

from absl import flags

GIN_FILE = flags.DEFINE_multi_string(
    "gin_file", [], "Path of a gin file, or alf:NAME.gin for one of ALF's examples; may be repeated."
)
