# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Uses trained policies: evaluates them, also while they train, plays and records them, and exports them."""
