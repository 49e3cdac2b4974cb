# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Toy environments, the contract of environments and fakes, for tests of ALF and of your own code."""
