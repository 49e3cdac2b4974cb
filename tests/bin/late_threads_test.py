# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A driver works with as many threads as it asks for, where TensorFlow has started with few."""


def test_as_many_threads_as_a_driver_needs_are_enough(forks, tmp_path):
    done = forks.run("tests.bin.fork_jobs:few_threads", cwd=tmp_path)
    assert done.status == 0, done.err
    assert done.out == (
        "11 inter-op threads are needed, TensorFlow has started with 10: call "
        "alf.drivers.reserve_threads(11) before the first TensorFlow operation.\n"
    )
