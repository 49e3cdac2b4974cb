# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The commands. They all start TensorFlow here, before any other module of ALF imports it."""

from alf.startup import start_tensorflow

start_tensorflow()
