# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""on_signal: noticed while the main thread waits inside TensorFlow; what was before comes back."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import tensorflow as tf

from alf.core.signals import end_at_interrupts, on_signal, raise_interrupts
from tests.bin.forks import SECONDS
from tests.programs import ROOT, environment

pytestmark = pytest.mark.programs

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers_are_restored():
    before = [signal.getsignal(s) for s in SIGNALS], signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before[1])
    threads = threading.active_count()
    yield
    assert [signal.getsignal(s) for s in SIGNALS] == before[0]
    assert signal.set_wakeup_fd(before[1]) == before[1]
    assert threading.active_count() <= threads


@contextlib.contextmanager
def usr1_handler():
    """Handles SIGUSR1; yields a function that sends it to this process and waits until it was handled."""
    got = []  # no event: its lock may be held where the handler interrupts the main thread
    before = signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))

    def send():
        os.kill(os.getpid(), signal.SIGUSR1)
        while not got:
            time.sleep(0.01)

    try:
        yield send
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert got == [signal.SIGUSR1]


@pytest.mark.parametrize("signum", SIGNALS)
def test_callback_gets_the_signal_in_a_thread_of_its_own(signum):
    got, seen = [], threading.Event()

    def callback(number):
        got.append((number, threading.current_thread()))
        seen.set()

    with on_signal(SIGNALS, callback):
        os.kill(os.getpid(), signum)
        assert seen.wait(SECONDS)
    ((number, thread),) = got
    assert number == signum
    assert thread is not threading.main_thread()


def test_wakes_a_main_thread_that_waits_inside_tensorflow():
    queue = tf.queue.FIFOQueue(1, [tf.float32], [()])
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with on_signal(SIGNALS, lambda _: queue.close()):
        timer.start()
        start = time.monotonic()
        with pytest.raises(tf.errors.OutOfRangeError):
            queue.dequeue()  # Python runs no handler here
        assert time.monotonic() - start < SECONDS
    timer.join()


def test_the_second_signal_after_a_second_does_what_it_did_before(monkeypatch):
    # Python's default; a process that was started in the background ignores SIGINT instead.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    seen = threading.Event()
    calls = []
    with on_signal(SIGNALS, lambda number: (calls.append(number), seen.set())):
        os.kill(os.getpid(), signal.SIGTERM)
        assert seen.wait(SECONDS)
        for _ in range(5):  # too early
            os.kill(os.getpid(), signal.SIGINT)
        monkeypatch.setattr("alf.core.signals._REPEAT_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(SECONDS)
    signal.signal(signal.SIGINT, before)
    assert calls == [signal.SIGTERM]


def test_other_signals_are_left_alone():
    calls = []
    with usr1_handler() as send_usr1, on_signal(SIGNALS, calls.append):
        send_usr1()
    # The thread has read all that was written before it ended.
    assert not calls


def test_a_signal_after_another_ones_is_still_noticed():
    # The wake-up descriptor tells of every signal, also of one that is not asked for.
    seen = threading.Event()
    with usr1_handler() as send_usr1, on_signal(SIGNALS, lambda _: seen.set()):
        send_usr1()
        os.kill(os.getpid(), signal.SIGTERM)
        assert seen.wait(SECONDS)


def test_nothing_happens_without_a_signal():
    calls = []
    with pytest.raises(ZeroDivisionError), on_signal(SIGNALS, calls.append):
        raise ZeroDivisionError
    assert not calls


FORKS = """
import os, signal, time
from alf.core.signals import on_signal

came = []
with on_signal([signal.SIGTERM], came.append):
    children, (reader, writer) = [], os.pipe()
    for _ in range(2):
        children.append(os.fork())
        if not children[-1]:
            os.closerange(1, 3)  # the test reads these until all have closed them
            os.write(writer, b".")
            time.sleep(600)
        os.read(reader, 1)  # a signal that comes earlier may meet the handler of the parent
    first, second = children
    os.kill(first, signal.SIGTERM)
    status = os.waitpid(first, 0)[1]
    time.sleep(0.1)
print(came, os.WTERMSIG(status), flush=True)
os.kill(second, signal.SIGKILL)
"""


def test_a_forked_process_neither_keeps_the_thread_nor_sends_it_signals():
    """An environment may start helpers by fork, which hold both ends of the pipe as long as they live."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.stdout, done.stderr) == (f"[] {int(signal.SIGTERM)}\n", "")


def test_ctrl_c_ends_a_command_that_still_imports_tensorflow(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import os, time; os.kill(os.getpid(), 2); time.sleep(600)")
    done = subprocess.run(
        [sys.executable, "-m", "alf", "train", "CartPole-v1", "--output=run"],
        env=environment(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)])),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the background ignores it
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    "handler, expected",
    [(signal.default_int_handler, signal.SIG_DFL), (signal.SIG_IGN, signal.SIG_IGN)],
)
def test_a_command_ends_at_ctrl_c_at_once_unless_it_is_ignored(handler, expected):
    before = signal.signal(signal.SIGINT, handler)
    try:
        end_at_interrupts()
        assert signal.getsignal(signal.SIGINT) == expected
        raise_interrupts()
        assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, before)
