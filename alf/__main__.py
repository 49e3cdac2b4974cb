# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""`python -m alf`, which is the command `alf`."""

from alf.bin.main import console_main

console_main()
