# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Callbacks: when each method is called, what stops a run, what an error does."""

import functools
import os
import re
import sys
import threading

import gin
import pytest
from absl import flags

import alf
from alf.bin import train
from alf.callback import check_hooks
from alf.config.parsing import bind
from alf.config.registry import find_argument, own_config
from alf.errors import ConfigError
from alf.training import Callback, Evaluator, Trainer
from tests.bin.calls import call
from tests.example_runs import EXAMPLES
from tests.training.trainer_test import (
    EPISODE_LENGTH,
    Environment,
    checkpoints,
    fail,
    make_counting_trainer,
)

EXAMPLE = EXAMPLES / "own_callback.gin"


class Recorder(Callback):
    """Notes its calls; `act(trainer)` is called after those of one method."""

    def __init__(self, method=None, act=None):
        self.calls, self.checks = [], 0
        self._method, self._act = method, act

    def _note(self, method, trainer, *args):
        self.calls.append((method, trainer.counters["iterations"], *args))
        if method == self._method:
            self._act(trainer)

    def on_check(self, trainer):
        assert not os.path.exists(os.path.join(trainer.root_dir, "run.json"))
        self.checks += 1

    def on_begin(self, trainer):
        assert self.checks == 1
        self._note("on_begin", trainer)

    def on_train_iter(self, trainer, summary):
        assert "loss" in summary
        self._note("on_train_iter", trainer)

    def on_evaluation(self, trainer, figures):
        self._note("on_evaluation", trainer, figures)

    def on_checkpoint(self, trainer, path):
        assert os.path.isdir(path)
        self._note("on_checkpoint", trainer, os.path.basename(path))

    def on_end(self, trainer, reason):
        self._note("on_end", trainer, reason)


def test_every_method_is_called_at_its_moment(tmp_path):
    callbacks = [Recorder(), Callback(), Recorder()]
    stop = {"num_iterations": 3}
    trainer = make_counting_trainer(tmp_path, stop=stop, callbacks=callbacks, checkpoint_interval=0.0)
    assert trainer.train() == (True, "num_iterations=3 reached")
    assert callbacks[0].calls == callbacks[2].calls
    assert callbacks[0].calls == [
        ("on_begin", 0),
        ("on_train_iter", 1),
        ("on_checkpoint", 1, "ckpt-1"),
        ("on_train_iter", 2),
        ("on_checkpoint", 2, "ckpt-2"),
        ("on_train_iter", 3),
        ("on_checkpoint", 3, "ckpt-3"),
        ("on_checkpoint", 3, "ckpt-3"),  # the last one is there already
        ("on_end", 3, "num_iterations=3 reached"),
    ]


@pytest.mark.parametrize("method", ["on_train_iter", "on_checkpoint"])
def test_a_callback_ends_a_run_well(tmp_path, method):
    callback = Recorder(method, lambda trainer: trainer.stop("good enough"))
    trainer = make_counting_trainer(tmp_path, callbacks=[callback], checkpoint_interval=0.0)
    assert trainer.train() == (True, "good enough")
    assert callback.calls[-1] == ("on_end", 1, "good enough")
    assert "ckpt-1" in checkpoints(tmp_path)


def test_an_evaluation_is_a_moment_and_may_end_the_run(tmp_path, caplog):
    caplog.set_level("INFO", "absl")
    callback = Recorder("on_evaluation", lambda trainer: trainer.stop("evaluated"))
    settings = dict(interval_steps=1, num_episodes=3, env=lambda seed: Environment(seed=seed))
    evaluator = functools.partial(Evaluator, **settings)
    stop = {"max_seconds": 60.0}
    trainer = make_counting_trainer(tmp_path, stop=stop, callbacks=[callback], evaluator=evaluator)
    assert trainer.train() == (True, "evaluated")
    (figures,) = [call[2] for call in callback.calls if call[0] == "on_evaluation"][:1]
    assert 0 <= figures["eval/return_mean"] <= EPISODE_LENGTH
    assert (figures["eval/length_mean"], figures["eval/num_episodes"]) == (EPISODE_LENGTH, 3)
    assert callback.calls[-1][::2] == ("on_end", "evaluated")
    assert "  evaluation  " in caplog.text, "the table's row"


def test_the_command_prints_why_a_callback_has_ended_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", list(sys.path))  # parse_config adds to it
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    settings = ["StopWhenStuck.patience = 1", "StopCriteria.max_seconds = 60"]
    assert call(train, str(EXAMPLE), output=str(tmp_path), settings=settings) == 0
    assert re.fullmatch(r"no better return than \S+ in 1 train iterations\n", capsys.readouterr().out)


def test_an_interrupted_run_calls_on_end(tmp_path):
    callback = Recorder("on_train_iter", lambda trainer: trainer.interrupt("enough"))
    assert make_counting_trainer(tmp_path, callbacks=[callback]).train() == (False, "enough")
    assert [call[0] for call in callback.calls] == ["on_begin", "on_train_iter", "on_checkpoint", "on_end"]
    assert callback.calls[-1][2] == "enough"


class CallbackError(Exception):
    pass


def raise_error(_):
    raise CallbackError("out of paper")


@pytest.mark.parametrize("method", ["on_train_iter", "on_checkpoint"])
def test_an_error_of_a_callback_ends_the_run_and_is_named(tmp_path, caplog, method):
    made = []
    callbacks = [Recorder(method, raise_error), Recorder()]
    settings = dict(callbacks=callbacks, checkpoint_interval=0.0)
    trainer = make_counting_trainer(tmp_path, env={"made": made}, **settings)
    with pytest.raises(CallbackError, match="out of paper"):
        trainer.train()
    assert [env.closed for env in made] == [1, 1]
    assert f"Recorder.{method} of Trainer.callbacks raised an error" in caplog.text
    for callback in callbacks:
        assert callback.calls[-1] == ("on_end", 1, "CallbackError: out of paper")
    assert make_counting_trainer(tmp_path, callbacks=()).counters["iterations"] == 1, "saved"


def test_after_an_error_of_the_run_on_end_gets_it_and_cannot_hide_it(tmp_path, caplog):
    callbacks = [Recorder("on_end", raise_error), Recorder()]
    trainer = make_counting_trainer(tmp_path, env={"special": fail}, callbacks=callbacks)
    with pytest.raises(Exception, match="the simulator crashed"):
        trainer.train()
    assert "Recorder.on_end of Trainer.callbacks raised CallbackError: out of paper" in caplog.text
    (reason,) = [call[2] for call in callbacks[1].calls if call[0] == "on_end"]
    assert reason == "EnvironmentError_: the simulator crashed"


def test_an_error_in_on_end_fails_a_run_that_is_saved(tmp_path):
    made = []
    callbacks = [Recorder("on_end", raise_error), Recorder()]
    stop = {"num_iterations": 2}
    trainer = make_counting_trainer(tmp_path, env={"made": made}, stop=stop, callbacks=callbacks)
    with pytest.raises(CallbackError):
        trainer.train()
    assert [[call[0] for call in callback.calls].count("on_end") for callback in callbacks] == [1, 1]
    assert [env.closed for env in made] == [1, 1]
    assert make_counting_trainer(tmp_path, callbacks=()).counters["iterations"] == 2


@pytest.mark.parametrize("callbacks", [Recorder, [Recorder], [Recorder(), None], "abc", {"a": Recorder()}])
def test_what_is_no_callback_is_refused(tmp_path, callbacks):
    with pytest.raises(
        ConfigError,
        match=r"Trainer.callbacks(\[\d\])? is .*: it must be a .*Callback \(@NAME\(\)\)",
    ):
        make_counting_trainer(tmp_path, callbacks=callbacks)


def made_with(**methods):
    return type("Own", (Callback,), methods)


def on_step(self, *args):
    pass


# What is wrong, and a pattern of the message.
WRONG_METHODS = {
    "misspelt": ({"on_train_iteration": on_step}, "Own.on_train_iteration: .*did you mean on_train_iter "),
    "plural": ({"on_checkpoints": on_step}, "Own.on_checkpoints: .*did you mean on_checkpoint ?"),
    "like no other": ({"on_fire": on_step}, "Own.on_fire: .*it calls on_check, on_begin, .*, on_close$"),
    "static": ({"on_endings": staticmethod(on_step)}, "did you mean on_end"),
    "of Stable-Baselines3": ({"_on_step": on_step}, "Own._on_step: .*on_train_iter"),
    "of RLlib": ({"on_train_result": on_step}, "Own.on_train_result: .*on_train_iter"),
    "too few": (
        {"on_train_iter": lambda self, trainer: None},
        r"Own.on_train_iter cannot be called \(too many positional arguments\): define "
        r"on_train_iter\(self, trainer, summary\)",
    ),
    "too many": ({"on_begin": lambda self, trainer, extra: None}, r"on_begin\(self, trainer\)"),
    "without self": ({"on_end": lambda: None}, r"define on_end\(self, trainer, reason\)"),
    "state": ({"set_state": lambda self: None}, r"define set_state\(self, state\)"),
    "keyword": (
        {"on_check": lambda self, trainer, *, more: None},
        "missing a required (keyword-only )?argument: 'more'",  # so in Python 3.12
    ),
    "no method": ({"on_begin": None}, "Own.on_begin cannot be called"),
}


@pytest.mark.parametrize("as_class", [False, True])
@pytest.mark.parametrize("case", WRONG_METHODS)
def test_a_method_that_a_run_would_never_call_is_named(case, as_class):
    methods, message = WRONG_METHODS[case]
    owner = made_with(**methods)
    with pytest.raises(ConfigError, match=message):
        check_hooks(owner if as_class else owner())


def test_methods_that_a_run_calls_and_the_callbacks_own_are_right():
    right = made_with(
        on_train_iter=lambda self, *args, more=None: None,
        on_begin=functools.partialmethod(on_step, 1),
        on_end=staticmethod(lambda trainer, reason: None),
        on_close=classmethod(on_step),
        on_device=property(fail),
        on_fire=True,
        _on_fire=on_step,
    )
    for callback in (right, right()):
        check_hooks(callback)


def test_a_wrong_callback_is_told_before_an_environment_is_made(tmp_path):
    made = []
    wrong = made_with(on_train_iteration=on_step)
    with pytest.raises(ConfigError, match="did you mean on_train_iter"):
        alf.train(lambda: made.append(1), callbacks=(wrong(),), root_dir=tmp_path)
    gin.external_configurable(wrong, "WrongHooks", module="tests")
    file = tmp_path / "run.gin"
    file.write_text("Trainer.callbacks = (@WrongHooks(),)\nload.name = 'NoSuch-v0'\n")
    with pytest.raises(ConfigError, match="did you mean on_train_iter"):
        alf.train(file)
    assert not made


def test_a_trainer_checks_what_is_added_later(tmp_path):
    trainer = make_counting_trainer(tmp_path)
    callback = Callback()
    callback.on_train_iter = lambda trainer: None
    with pytest.raises(ConfigError, match="Callback.on_train_iter cannot be called"):
        trainer.add_callback(callback)
    trainer.close()
    with pytest.raises(ConfigError, match="Callback.on_train_iter cannot be called"):
        make_counting_trainer(tmp_path, callbacks=[callback])


def test_a_run_calls_the_object_that_a_program_has_passed():
    """Gin copies the values of bindings; the program would look at a callback that nobody has called."""
    callback = made_with(lock=threading.Lock())()
    with own_config():
        bind({"Trainer.callbacks": (callback,)})
        assert find_argument(Trainer, "callbacks")[0] is callback
