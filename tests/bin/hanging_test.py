# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Users' code that hangs in the training thread: the log names it, and a signal ends the run all the same."""

import itertools
import json
import re
import signal
import textwrap

import pytest

from alf.runs.checkpoint_files import list_numbers
from tests.example_runs import EXAMPLES
from tests.programs import ALF

pytestmark = pytest.mark.programs

NUMBERS = itertools.count()
MODULE = """
    import time

    import gin
    import tensorflow as tf

    import alf
    from alf.algorithms import ImpalaAlgorithm


    def hang():
        print("hangs", flush=True)
        time.sleep(600)


    @gin.configurable
    class Hangs(alf.training.Callback):
        iterations = 0

        def __init__(self, method):
            self._method = method

        def _call(self, method):
            if method == self._method and self.iterations >= 10:
                hang()

        def on_iter_begin(self, trainer):
            self._call("on_iter_begin")

        def on_train_iter(self, trainer, summary):
            self.iterations = trainer.counters["iterations"]
            self._call("on_train_iter")

        def get_state(self):
            self._call("get_state")
            return 1

        def on_checkpoint(self, trainer, path):
            self._call("on_checkpoint")

        def on_end(self, trainer, reason):
            self._call("on_end")

        def on_close(self, trainer):
            self._call("on_close")


    @gin.configurable
    class HangingMetric(alf.drivers.metrics.EnvironmentSteps):
        name = "Hanging"

        def result(self):
            if super().result() >= 640:
                hang()
            return super().result()


    @gin.configurable
    def custom(trainer):
        if trainer.counters["iterations"] >= 10:
            hang()


    @gin.configurable
    class HangingLoss(ImpalaAlgorithm):
        def calc_loss(self, experience, train_info):
            tf.py_function(lambda n: hang() if n >= 10 else None, [self.progress.updates], [])
            return super().calc_loss(experience, train_info)
"""
CALLS = {
    "on_iter_begin": "Hangs.on_iter_begin of Trainer.callbacks",
    "on_train_iter": "Hangs.on_train_iter of Trainer.callbacks",
    "on_checkpoint": "Hangs.on_checkpoint of Trainer.callbacks",
    "get_state": "get_state of Hangs/0",
    "on_end": "Hangs.on_end of Trainer.callbacks",
    "on_close": "Hangs.on_close of Trainer.callbacks",
    "custom": "Summaries.custom",
    "HangingMetric": "result of the metric 'Hanging'",
    "HangingLoss": "an update of the learner",
}


@pytest.mark.parametrize("where", CALLS)
def test_a_call_that_hangs_is_named_and_a_signal_ends_the_process(tmp_path, forks, where):
    module = f"hanging_{next(NUMBERS)}"  # gin knows each module but once
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(MODULE))
    given = {
        "custom": f"Summaries.custom = @{module}.custom\nSummaries.interval = 0.0",
        "HangingMetric": f"Monitoring.metrics = (@{module}.HangingMetric(),)\nSummaries.interval = 0.0",
        "HangingLoss": f"Experiment.algorithm = @{module}.HangingLoss\nCheckpoints.interval = 0.0",
    }
    callbacks = f"Trainer.callbacks = (@{module}.Hangs(),)\n{module}.Hangs.method = '{where}'"
    ends = where in ("on_end", "on_close")
    (tmp_path / "mine.gin").write_text(
        f'import {module}\ninclude "{EXAMPLES / "impala_cartpole.gin"}"\n'
        f"{given.get(where, callbacks)}\n"
        "Experiment.num_envs = 16\nExperiment.unroll_length = 4\nActorCriticNetwork.fc_layer_params = (8,)\n"
        "StopCriteria.target_return = None\n"
        f"StopCriteria.num_iterations = {10 if ends else None}\n"
        f"{'Checkpoints.interval = 0.0' if where in ('get_state', 'on_checkpoint') else ''}\n"
        "Monitoring.stall_timeout = 1.0\nMonitoring.on_stall = 'warn'\nMonitoring.signal_timeout = 1.0\n"
    )
    root_dir, name = tmp_path / "run", re.escape(CALLS[where])
    with forks.start(ALF, "train", str(tmp_path / "mine.gin"), f"--output={root_dir}", cwd=tmp_path) as fork:
        fork.wait_until(lambda: "hangs" in fork.out.read_text())
        stall = rf"{name} has not returned for [\d.]+ s, longer than stall_timeout=1\n(.*\n)*?.*in hang"
        fork.wait_until(lambda: re.search(stall, fork.err.read_text()))
        fork.send_signal(signal.SIGTERM)
        done = fork.finish()
    assert done.status == 143, done.err
    line = next(line for line in done.err.splitlines() if line.startswith("error: "))
    assert re.match(rf"error: stopped by SIGTERM: {name} has not returned for [\d.]+ s; ", line)
    saved = list_numbers(str(root_dir / "checkpoints"))
    if where == "HangingLoss":
        assert f"not saved, the newest checkpoint is {root_dir}/checkpoints/ckpt-{saved[-1]}" in line
    else:
        assert line.endswith(f"; saved in {root_dir}/checkpoints/ckpt-{saved[-1]}")
        assert saved[-1] == 10 or where == "HangingMetric"  # its own count is ahead of that of the iterations
    content = json.loads((root_dir / "done.json").read_text())
    assert content["status"] == "INTERRUPTED" and CALLS[where] in content["reason"]
