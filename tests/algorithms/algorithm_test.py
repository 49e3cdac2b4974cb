# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The package of algorithms: what its import leaves as it is."""

import subprocess
import sys

CHECK = """
import alf.algorithms
import tensorflow as tf
from tensorflow.python.util import numpy_compat
assert tf.config.threading.get_inter_op_parallelism_threads() == 0
assert numpy_compat.np_asarray.__module__ == numpy_compat.__name__, numpy_compat.np_asarray
"""


def test_the_import_sizes_no_thread_pool_and_patches_nothing_in_tensorflow():
    """A program that only uses the losses or a policy keeps TensorFlow as it is; drivers change it."""
    result = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
