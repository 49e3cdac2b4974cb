# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The benchmark of several policies: its kinds have batches of the sizes that it says."""

import gin
import pytest

from alf.config.parsing import parse_config
from alf.training import Experiment
from tests.benchmarks.conftest import import_program
from tests.builders import driver_of
from tests.example_runs import EXAMPLES

pytestmark = pytest.mark.programs

program = import_program("benchmarks.several_policies")
EXAMPLE = str(EXAMPLES / "impala_cartpole.gin")


def test_batches_are_divided_or_as_large():
    batch = program.count_batch([EXAMPLE])
    assert batch == (128, 1)
    kinds = program.make_kinds(2, *batch)
    assert list(kinds.values())[:2] == [[], ["UnrollLearner.num_minibatches=2"]]
    sizes = {}
    for kind, bindings in kinds.items():
        gin.clear_config()
        parse_config([EXAMPLE], bindings)
        driver = driver_of(Experiment())
        driver.stop()
        shapes = getattr(driver.learner, "shapes", None)
        sizes[kind] = shapes and [shape.num_sequences for shape in shapes.values()]
    assert list(sizes.values()) == [None, None, [64, 64], [128, 128]]


def test_the_table_has_medians_of_ratios_in_a_round():
    results = {"one policy": [100.0, 200.0, 50.0], "two": [90.0, 170.0, 40.0], "other": [95.0, 190.0, 60.0]}
    assert program.format_table("x.gin", results).splitlines() == [
        "| x.gin | trained steps/s | beside one policy |",
        "| --- | --- | --- |",
        "| one policy | 100 | 1.00 |",
        "| two | 90 | 0.85 |",
        "| other | 95 | 0.95 |",
    ]
