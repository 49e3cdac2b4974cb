# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Episodes of what was trained, and its use elsewhere."""
