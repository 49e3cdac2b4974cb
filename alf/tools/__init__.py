# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tools that make no run: checks of environments, and measurements of speed."""
