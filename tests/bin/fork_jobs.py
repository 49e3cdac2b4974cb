# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf train and others where something is not as usual: functions for `Forks`."""

import os
import runpy
import signal
import sys
import threading
import time

import tensorflow as tf

from alf.bin import command, train
from alf.bin.main import console_main
from alf.drivers import AsyncOffPolicyDriver
from alf.testing.fakes import FrozenPolicy, RecordingLearner, make_counting_envs
from alf.training import progress_bar
from tests.builders import build_driver


def closed_pipe():
    """The reader of the output has gone, as after `| true`. The first argument has the output's numbers."""
    reader, writer = os.pipe()
    os.close(reader)
    for fd in map(int, sys.argv.pop(1)):
        os.dup2(writer, fd)
    console_main()


def logs_often():
    """The log has a line of the progress after each iteration; SIGHUP does what it does by default."""
    progress_bar._LOG_SECONDS = 0.0
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    console_main()


def under_nohup():
    progress_bar._LOG_SECONDS = 0.0
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    console_main()


def leaves_a_thread():
    """A command that ends with an error if its argument says so."""
    command._EXIT_SECONDS = 0.5

    def run(arguments):
        threading.Thread(target=time.sleep, args=(600,), name="Simulator").start()
        if "raises" in arguments.names:
            raise KeyError("my own bug")

    train.run = run
    console_main()


def train_with_peers():
    """alf train where the first argument is TF_CONFIG."""
    os.environ["TF_CONFIG"] = sys.argv.pop(1)
    console_main()


def run_script():
    """Runs the file that the first argument names, with the others."""
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


def few_threads():
    """Drivers of 1, 5 and 6 environments after TensorFlow has started with 10 threads."""
    tf.config.threading.set_inter_op_parallelism_threads(10)
    tf.constant(1) + 1
    for num_groups in (1, 5, 6):
        envs = make_counting_envs(num_groups)
        learner = RecordingLearner(FrozenPolicy(envs[0]))
        driver = build_driver(AsyncOffPolicyDriver, envs, learner, num_actor_queues=1)
        driver.start()
        for _ in range(20):
            driver.learner.observe(driver.get_training_exps())
        driver.stop()
        print(sum(map(len, driver.learner.observed)) > 0)
