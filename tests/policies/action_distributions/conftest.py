# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Seeds the draws of each test."""

import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def _same_samples_in_every_run():
    tf.random.set_seed(0)
