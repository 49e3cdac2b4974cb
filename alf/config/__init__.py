# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Gin: the registry of settings, gin files, and errors of both with the line to write instead."""
