# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Many runs of one experiment: sweeps over seeds and settings, populations whose members copy each other."""
