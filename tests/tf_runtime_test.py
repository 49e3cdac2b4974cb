# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TensorFlow's threads: a setting changes them before TensorFlow starts, and is refused afterwards."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.tf_runtime import set_intra_op_threads
from alf.training import Experiment

# A product starts TensorFlow, if the driver has not: with one core more or less, 7 threads stay 7.
_SCRIPT = """
import functools, os, sys
import alf, gin
import tensorflow as tf
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Experiment

gin.parse_config(["alf.Learner.optimizer = @SGD()", f"Experiment.intra_op_threads = {sys.argv[1]}"])
driver = Experiment(functools.partial(MatchObservationEnvironment, 2)).make_driver()
tf.linalg.matmul(tf.ones((9, 9)), tf.ones((9, 9)))
print(tf.config.threading.get_intra_op_parallelism_threads(), len(os.listdir("/proc/self/task")))
driver.stop()
"""


def count_threads(num_threads):
    """Of a process with this setting: what TensorFlow says, and all threads of the process."""
    command = [sys.executable, "-c", _SCRIPT, str(num_threads)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=True)
    return [int(x) for x in done.stdout.split()[-2:]]


def test_the_intra_op_pool_has_as_many_threads_as_set():
    (few, few_in_all), (many, many_in_all) = count_threads(1), count_threads(7)
    assert (few, many) == (1, 7)
    assert many_in_all - few_in_all == 6


def test_a_pool_that_is_there_stays_as_it_is():
    tf.zeros(()).numpy()  # TensorFlow starts
    present = tf.config.threading.get_intra_op_parallelism_threads()
    set_intra_op_threads(present)
    with pytest.raises(ConfigError, match=f"intra_op_threads is {present + 1}: TensorFlow has started with"):
        Experiment(MatchObservationEnvironment, intra_op_threads=present + 1).make_driver()


@pytest.mark.parametrize("num_threads", [0, 1.5, True])
def test_the_setting_is_checked(num_threads):
    with pytest.raises(ConfigError, match=f"Experiment.intra_op_threads is {num_threads}"):
        Experiment(intra_op_threads=num_threads)
