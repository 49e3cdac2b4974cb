# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How a run ends in a Python program: at signals and exceptions; and what it never replaces."""

import os
import re
import signal
import sys
import threading
import types

import pytest

import alf
from alf.drivers import AsyncOffPolicyDriver, Monitoring, SyncOffPolicyDriver
from alf.errors import ConfigError, EnvError, FolderError, InterruptedDriverError
from alf.runs.progress_file import PROGRESS_FILE
from alf.training import Callback
from tests.training.trainer_test import (
    Clock,
    Environment,
    checkpoints,
    make_counting_trainer,
    make_trainer,
    read_done,
)

SMALL = {"num_envs": 2, "num_groups": 1, "unroll_length": 8, "num_workers": 0, "seed": 0}


class Acts(Callback):
    """Calls `act(trainer)` after train iteration 3, or where another method says so."""

    def __init__(self, act, method="on_train_iter"):
        self._act, self._method = act, method

    def _call(self, method, trainer):
        if method == self._method and trainer.counters["iterations"] >= 3:
            self._act(trainer)

    def on_iter_begin(self, trainer):
        self._call("on_iter_begin", trainer)

    def on_train_iter(self, trainer, summary):
        self._call("on_train_iter", trainer)

    def on_summary(self, trainer, step, values):
        self._call("on_summary", trainer)

    def on_checkpoint(self, trainer, path):
        self._call("on_checkpoint", trainer)

    def on_end(self, trainer, reason):
        self._call("on_end", trainer)

    def on_close(self, trainer):
        self._call("on_close", trainer)


def send(signum, waits=True):
    """An `act` that sends a signal to this process, and waits until the trainer knows of it."""

    def act(trainer):
        if trainer._interrupted is None:
            os.kill(os.getpid(), signum)
        for _ in range(6_000 if waits else 0):
            if trainer._interrupted is not None:
                return
            threading.Event().wait(0.01)
        assert not waits, "nobody has interrupted the trainer"

    return act


def train(root_dir, act, method="on_train_iter", num_iterations=6, **kwargs):
    """A counting run with an `Acts`."""
    callbacks = [Acts(act, method)]
    stop = {"num_iterations": num_iterations}
    make_counting_trainer(root_dir, stop=stop, callbacks=callbacks, **kwargs).train()


@pytest.fixture
def handlers():
    """The handlers of a Python program; those of the tests come back."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGUSR1
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_ctrl_c_saves_and_says_where_the_run_is(tmp_path, handlers):
    with pytest.raises(KeyboardInterrupt) as raised:
        train(tmp_path / "run", send(signal.SIGINT))
    text = str(raised.value)
    assert text.startswith(f"stopped by SIGINT after 80 environment steps of the run in {tmp_path / 'run'}")
    assert f"saved in {tmp_path}/run/checkpoints/ckpt-3. The same call goes on" in text
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert read_done(tmp_path / "run")["status"] == "INTERRUPTED"
    assert make_counting_trainer(tmp_path / "run", callbacks=()).counters["iterations"] == 3


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_other_signals_save_if_the_program_asks_for_it(tmp_path, handlers, name):
    number = signal.Signals[name]
    with pytest.raises(SystemExit) as raised:
        train(tmp_path, send(number), signals=["SIGINT", name])
    assert raised.value.code == 128 + number
    assert "ckpt-3" in checkpoints(tmp_path)
    assert read_done(tmp_path)["reason"] == f"stopped by {name}"


def test_without_the_setting_they_are_the_programs_own(tmp_path, handlers):
    came = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: came.append(number))

    def act(trainer):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    train(tmp_path, act, num_iterations=3)
    assert came == [signal.SIGTERM, signal.SIGINT]


def test_an_unknown_signal_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"Trainer.signals.* 'SIGKILL': it must be one of 'SIGINT', "):
        make_counting_trainer(tmp_path, signals=["SIGKILL"])


def test_in_another_thread_nothing_is_handled(tmp_path, handlers, caplog):
    settings = {"num_iterations": 3, "signals": ["SIGTERM"]}
    thread = threading.Thread(target=train, args=(tmp_path, lambda _: None), kwargs=settings)
    thread.start()
    thread.join(60.0)
    assert "it has no effect, because only the main thread gets signals" in caplog.text
    assert read_done(tmp_path)["status"] == "SUCCESS"


def interrupt_at_once(trainer):
    raise KeyboardInterrupt


@pytest.mark.parametrize("act", [send(signal.SIGINT), interrupt_at_once])
@pytest.mark.parametrize("is_notebook", [False, True])
def test_alf_train_in_a_script_and_in_a_notebook(tmp_path, handlers, monkeypatch, capsys, act, is_notebook):
    """Also after a second Ctrl-C, which raises where the callback is."""
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(**({"kernel": object()} if is_notebook else {}))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr("alf.training.train.can_show_curves", lambda: False)
    root_dir = tmp_path / "run"

    def call():
        return alf.train("CartPole-v1", "impala", 10**7, root_dir, callbacks=[Acts(act)], **SMALL)

    if is_notebook:
        agent, run = call()
        out = capsys.readouterr().out
        assert agent.predict([0.0] * 4)[0] in (0, 1) and run.root_dir == str(root_dir)
    else:
        with pytest.raises(KeyboardInterrupt) as raised:
            call()
        out = str(raised.value)
    assert out.count("stopped by SIGINT") == 1 and str(root_dir) in out
    alf.load_agent(root_dir)


@pytest.mark.parametrize("is_notebook", [False, True])
def test_alf_train_says_how_a_run_ended_also_after_an_error(tmp_path, monkeypatch, capsys, is_notebook):
    monkeypatch.setattr("alf.errors.is_notebook", lambda: is_notebook)
    monkeypatch.setattr("alf.training.train.can_show_curves", lambda: False)
    with pytest.raises(ZeroDivisionError) as raised:
        alf.train("CartPole-v1", "impala", 10**7, tmp_path, callbacks=[Acts(lambda trainer: 1 / 0)], **SMALL)
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"trains in {tmp_path}"
    assert re.fullmatch(rf"{tmp_path}: ended after [\d,]+ environment steps, ZeroDivisionError", last)
    if is_notebook:
        assert raised.value._render_traceback_()[0] == "ZeroDivisionError: division by zero"
    else:
        assert not hasattr(raised.value, "_render_traceback_")


def test_a_call_that_hangs_in_a_notebook_is_interrupted_again(tmp_path, handlers, monkeypatch, caplog):
    """The notebook has more to lose than the run: its process does not end."""
    monkeypatch.setattr("alf.training.call_watch.is_notebook", lambda: True)

    def hang(trainer):
        send(signal.SIGINT)(trainer)
        assert not threading.Event().wait(600.0)

    stop = {"num_iterations": 6}
    trainer = make_counting_trainer(tmp_path, stop=stop, callbacks=[Acts(hang)])
    trainer.driver.monitoring = Monitoring(signal_timeout=0.1)
    with pytest.raises(KeyboardInterrupt, match="stopped by SIGINT after"):
        trainer.train()
    assert "Acts.on_train_iter of Trainer.callbacks has not returned for 0.1 s" in caplog.text
    assert f"; saved in {tmp_path}/checkpoints/ckpt-3" in caplog.text and "in hang" in caplog.text


class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text")


ERRORS = [
    SystemExit(3),
    KeyboardInterrupt("own"),
    GeneratorExit(),
    Odd(),
    MemoryError("full"),
    StopIteration(),
    InterruptedDriverError("by Driver.interrupt, not of the trainer"),
]


@pytest.mark.parametrize("method", ["on_iter_begin", "on_train_iter", "on_summary", "on_checkpoint"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_exception_of_a_callback_saves_first(tmp_path, error, method):
    def act(trainer):
        raise error

    with pytest.raises(type(error)) as raised:
        train(tmp_path, act, method, summary_interval=0.0, checkpoint_interval=0.0)
    assert raised.value is error
    assert checkpoints(tmp_path)[-1] == "ckpt-3"
    done = read_done(tmp_path)
    assert type(error).__name__ in done["reason"]
    assert done["status"] == ("INTERRUPTED" if isinstance(error, KeyboardInterrupt) else "FAILURE")


@pytest.mark.parametrize("method", ["on_end", "on_close"])
def test_every_exception_at_the_end_comes_after_the_save(tmp_path, method):
    def act(trainer):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        train(tmp_path, act, method)
    assert "ckpt-6" in checkpoints(tmp_path)


def test_an_error_of_the_last_summary_comes_after_the_save(tmp_path):
    def custom(trainer):
        raise Odd

    with pytest.raises(Odd):
        train(tmp_path, lambda _: None, custom_summary=custom)
    assert "ckpt-6" in checkpoints(tmp_path)


def test_an_error_of_an_update_saves_the_updates_before_it(tmp_path, monkeypatch):
    def fail(trainer):
        def raise_error():
            raise Odd

        trainer.learner.train = raise_error

    with pytest.raises(Odd):
        train(tmp_path, fail)
    assert checkpoints(tmp_path)[-1] == "ckpt-3"


class OddEnvironment(Environment):
    """Raises an `Odd` in its step 30."""

    count = 0

    def _step(self, action):
        self.count += 1
        if self.count == 30:
            raise Odd
        return super()._step(action)


@pytest.mark.parametrize("driver", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_an_error_without_a_text_in_an_environment_is_named(tmp_path, driver):
    """In the graph, in a thread of the driver."""
    parts = {"env": lambda seed: OddEnvironment(seed=seed), "driver": driver}
    with pytest.raises(
        EnvError, match=r"envs\[\d\] \(OddEnvironment\) raised Odd, whose text cannot be made"
    ):
        make_trainer(tmp_path, experiment=parts).train()
    assert checkpoints(tmp_path)


class Stateless(Callback):
    def __init__(self, state):
        self._state = state

    def get_state(self):
        if self._state is None:
            raise Odd
        return self._state


class Stateful(Callback):
    state = None

    def get_state(self):
        return {"level": 7}

    def set_state(self, state):
        self.state = state


@pytest.mark.parametrize("state", [None, {1, 2}, object()])
def test_a_state_that_cannot_be_saved_is_named_and_left_out(tmp_path, caplog, state):
    callbacks = [Stateless(state), Stateful()]
    make_counting_trainer(tmp_path, stop={"num_iterations": 2}, callbacks=callbacks).train()
    assert "without the state of Stateless/0: its get_state() failed" in caplog.text
    again = Stateful()
    make_counting_trainer(tmp_path, stop={"num_iterations": 3}, callbacks=[again]).train()
    assert again.state == {"level": 7}


def test_a_checkpoint_within_on_checkpoint_is_refused(tmp_path):
    with pytest.raises(
        ConfigError, match="on_checkpoint calls Trainer.save: the checkpoint is saved already"
    ):
        train(tmp_path, lambda trainer: trainer.save(), "on_checkpoint", checkpoint_interval=0.0)


def test_the_first_checkpoint_of_a_run_comes_soon(tmp_path):
    clock, saved = Clock(), []

    class Ticks(Callback):
        def on_train_iter(self, trainer, summary):
            clock.now += 4.0

        def on_checkpoint(self, trainer, path):
            saved.append(os.path.basename(path))

    for num_iterations, expected in ((9, ["ckpt-4", "ckpt-9"]), (18, ["ckpt-18"])):
        saved.clear()
        stop = {"num_iterations": num_iterations}
        make_counting_trainer(tmp_path, clock, stop=stop, callbacks=[Ticks()]).train()
        assert saved == expected


def test_a_run_that_has_trained_is_not_replaced_because_it_has_no_checkpoint(tmp_path):
    make_counting_trainer(tmp_path, stop={"num_iterations": 2}).train()
    progress = (tmp_path / PROGRESS_FILE).read_bytes()
    os.rename(tmp_path / "checkpoints", tmp_path.parent / "away")
    with pytest.raises(
        FolderError, match="holds a run that has trained, but has no checkpoint to go on from"
    ):
        make_counting_trainer(tmp_path, stop={"num_iterations": 2})
    assert (tmp_path / PROGRESS_FILE).read_bytes() == progress
    (tmp_path / PROGRESS_FILE).unlink()
    make_counting_trainer(tmp_path, stop={"num_iterations": 2}).close()
