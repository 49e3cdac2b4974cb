# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A driver works where TensorFlow has started with few threads, and says once what it costs."""

import pytest

pytestmark = pytest.mark.programs


def test_a_driver_works_with_fewer_threads_than_it_asks_for(forks, tmp_path):
    done = forks.run("tests.bin.fork_jobs:few_threads", cwd=tmp_path)
    assert done.status == 0, done.err
    assert done.out == "True\n" * 3
    (line,) = [line for line in done.err.splitlines() if "inter-op" in line]
    # 10 are enough for one environment.
    assert "TensorFlow had started before, with 10 inter-op and all intra-op threads for 14 and any: " in line
    assert "up to half of the speed; alf.drivers.reserve_threads(), before the first operation" in line
