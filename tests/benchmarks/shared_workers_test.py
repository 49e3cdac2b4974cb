# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.splits: it runs splits, and its table has what they cost."""

from tests.benchmarks.conftest import import_program

splits = import_program("benchmarks.splits")


def test_two_splits_share_their_workers():
    result = splits.measure("cartpole_python", 6, (2, 2, 1), 1.0)
    assert (result["num_envs"], result["batch_size"], result["learn_queue_cap"]) == (2, 3, 2)
    assert result["worker_processes"] == 1 and 5 < result["memory_of_workers_mb"] < 500
    row = splits.format_row("two splits", [result]).split(" | ")
    assert len(row) == 6 and row[0] == "| two splits" and row[4] == "1"


def test_every_kind_has_the_same_number_of_environments():
    for num_envs, num_splits, num_workers in splits.make_kinds(3).values():
        assert 6 % num_envs == 0 and num_envs % num_splits == 0 and num_workers >= 1
