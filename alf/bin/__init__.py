# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The commands. They all start TensorFlow here, before any other module of ALF imports it."""

from alf.bin.signals import end_at_interrupts
from alf.bin.streams import open_closed_streams
from alf.core.startup import start_tensorflow

open_closed_streams()
end_at_interrupts()
start_tensorflow()
