# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a run is made of, and what it has on disk."""
