# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Gin files that train, and the modules that they import; "alf:NAME.gin" and "alf:TASK" name the files."""
