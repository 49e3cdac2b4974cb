# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Its import starts TensorFlow as a command does, for processes that fork."""

from alf.core.startup import import_tensorflow

import_tensorflow()
