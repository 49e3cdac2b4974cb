# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A study that cannot be written ends, and Ray Tune blames no member for it; without any process."""

import types

import pytest

from alf.errors import SaveError

pytest.importorskip("ray")
pytest.importorskip("pandas")
from alf.population.ray_study import StudyScheduler, _Events, _find_fault  # noqa: E402


class FullDisk:
    """A study that cannot write its files any more."""

    def report(self, report):
        raise SaveError("population.json cannot be written: No space left on device")

    lose = report


def make_scheduler():
    return StudyScheduler(FullDisk(), True, announce=lambda text: None, on_change=lambda: None)


class Trial(types.SimpleNamespace):
    def __init__(self):
        actor = types.SimpleNamespace(reset_config=types.SimpleNamespace(remote=lambda config: None))
        super().__init__(config={"order": {"member": 1, "number": 4}}, error_file="none", given=[])
        self.temporary_state = types.SimpleNamespace(ray_actor=actor)

    def set_config(self, config):
        self.given.append(config["order"])


def test_a_report_that_cannot_be_written_ends_the_study():
    scheduler, trial = make_scheduler(), Trial()
    result = dict(member=1, objective=1.0, env_steps=5, diverged=False, is_partial=False)
    assert scheduler.on_trial_result(None, trial, result) == StudyScheduler.CONTINUE
    assert trial.given == [{"member": 1, "number": 4, "stop": "the study cannot be saved"}]
    assert isinstance(scheduler.error, SaveError) and scheduler.choose_trial_to_run(None) is None


def test_a_loss_that_cannot_be_written_ends_the_study():
    scheduler = make_scheduler()
    _Events(scheduler, announce=lambda text: None).on_trial_error(0, [], Trial())
    assert isinstance(scheduler.error, SaveError) and scheduler.stop_reason == "the study cannot be saved"


def test_a_disk_that_is_full_for_tune_is_one_line():
    def fail(error):
        try:
            raise error
        except OSError:
            raise RuntimeError("The Ray Tune run failed") from None

    with pytest.raises(RuntimeError) as caught:
        fail(OSError(28, "No space left on device"))
    fault = _find_fault(caught.value, "study/tune")
    assert isinstance(fault, SaveError)
    assert str(fault) == "study/tune cannot be written: No space left on device"
    with pytest.raises(RuntimeError) as caught:
        fail(ConnectionError("no answer"))
    assert _find_fault(caught.value, "study/tune") is caught.value
