# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Flags of all commands that have to do with a run."""

from absl import flags

ROOT_DIR = flags.DEFINE_string("root_dir", None, "Directory of the run.")
GIN_PARAM = flags.DEFINE_multi_string("gin_param", [], "A gin binding, NAME=VALUE; may be repeated.")
