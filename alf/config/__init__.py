# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Configuration with gin: the registry of settings, gin files, and errors with the line to write instead."""
