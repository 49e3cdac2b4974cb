# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Many runs of one experiment: over seeds and bindings, within limits, with one table and one picture."""
