# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""However a driver ends: soon, with the first error as it was raised, leaving no thread behind."""

import contextlib
import gc
import logging
import threading
import time
import traceback
import weakref
from unittest import mock

import pytest
import tensorflow as tf

from alf.drivers import (
    AsyncOffPolicyDriver,
    SyncOffPolicyDriver,
    graph_steps,
    threads,
    unroller,
)
from alf.drivers.driver import Driver
from alf.drivers.driver_settings import Monitoring
from alf.drivers.log_thread import LogThread
from alf.drivers.prefetch_thread import PrefetchThread
from alf.drivers.queues import Semaphore
from alf.drivers.threads import DriverThread, DriverThreads
from alf.errors import ConfigError, EnvError, InterruptedDriverError
from alf.policies import Policy
from alf.testing.fakes import (
    FakeEnvironment,
    FrozenPolicy,
    RecordingLearner,
    RecordingObserver,
    make_counting_envs,
)
from tests.builders import build_driver, collect_and_observe

# Seconds of whatever waits in vain: for an environment that hangs, for a thread that does not end.
PATIENCE = 60.0
# That an error may take to reach the main thread. It needs milliseconds of a core: beside busy processes that
# may be seconds, but not as long as a wait in vain.
SECONDS = 20.0
TIMEOUT = 0.1  # `stop_timeout` of drivers of which something hangs
KINDS = ("EnvThread-", "ActorThread-", "LogThread", "UnrollThread", "StallWatch", "PrefetchThread")


class OwnError(Exception):
    """An error that nobody but the test knows."""


class TextlessError(Exception):
    """Nobody can make its text."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class RaisingEnvironment(FakeEnvironment):
    """Raises `error` in step number `raise_at`, from `fail_on_purpose`; 0 is the reset."""

    def __init__(self, *args, raise_at, error=None, **kwargs):
        super().__init__(*args, **kwargs)
        self._raise_at = raise_at
        self._error = OSError("the environment's own error") if error is None else error

    def fail_on_purpose(self):
        raise self._error

    def answer(self, number, time_step):
        if number == self._raise_at:
            self.fail_on_purpose()
        return time_step


class BlockingEnvironment(FakeEnvironment):
    """Does not return from step number `block_at` until `release` is set; `blocked` is set while it waits."""

    def __init__(self, *args, block_at, **kwargs):
        super().__init__(*args, **kwargs)
        self._block_at = block_at
        self.blocked = threading.Event()
        self.release = threading.Event()

    def answer(self, number, time_step):
        if number == self._block_at:
            self.blocked.set()
            assert self.release.wait(PATIENCE), "the test did not release the environment"
        return time_step


class FailingPolicy(FrozenPolicy):
    """Its rollout step fails, as it runs, at call `fail_at`.

    With an assertion, or, if `out_of_range` holds, with the error that a closed queue raises too.
    """

    def __init__(self, env, fail_at, out_of_range=False):
        super().__init__(env)
        self._fail_at = fail_at
        self._empty = tf.queue.FIFOQueue(1, [tf.int32], [()]) if out_of_range else None
        if out_of_range:
            self._empty.close()
        self._calls = tf.Variable(0, trainable=False)

    def rollout_step(self, time_step, state):
        calls = self._calls.assign_add(1)
        if self._empty is None:
            fine = tf.debugging.Assert(calls < self._fail_at, ["the policy failed", calls])
        else:
            fine = tf.cond(calls < self._fail_at, lambda: 0, self._empty.dequeue)
        with tf.control_dependencies([fine]):
            return super().rollout_step(time_step, state)


def driver_threads():
    return [t.name for t in threading.enumerate() if t.name.startswith(KINDS)]


@pytest.fixture(autouse=True)
def _no_thread_left():
    assert driver_threads() == []
    yield
    assert driver_threads() == []


@pytest.fixture
def make_driver():
    """Makes drivers that cannot hang for long: after a while they are interrupted."""
    drivers, timers = [], []

    def make(envs, learner=None, **kwargs):
        learner = learner or RecordingLearner(FrozenPolicy(envs[0]))
        kwargs = {"num_actor_queues": 1, "unroll_length": 3, "stop_timeout": PATIENCE, **kwargs}
        driver = build_driver(AsyncOffPolicyDriver, envs, learner, **kwargs)
        timers.append(threading.Timer(PATIENCE, driver.interrupt))
        timers[-1].start()
        drivers.append(driver)
        return driver

    yield make
    for timer in timers:
        timer.cancel()
    for driver in drivers:
        driver.stop()


def run_until_it_fails(driver, starts=False):
    """Calls `collect`, after `start` if it should, until one of them raises soon; returns the exception."""
    start = time.monotonic()
    try:
        if starts:
            driver.start()
        while time.monotonic() < start + PATIENCE:
            collect_and_observe(driver)
    except BaseException as error:
        assert time.monotonic() - start < SECONDS, f"it took too long until {error!r}"
        return error
    raise AssertionError("nothing failed")


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.005)


def assert_ended(driver, envs):
    driver.stop()
    assert driver_threads() == []
    assert [env.num_closes for env in envs] == [1] * len(envs)
    with pytest.raises(RuntimeError, match="start"):
        collect_and_observe(driver)


# --- The first error is the one that the user sees.


@pytest.mark.parametrize(
    "raise_at, error",
    [
        (0, OwnError("no such level")),
        (1, KeyError("observation")),
        (8, SystemExit("the simulator quit")),
        (8, tf.errors.OutOfRangeError(None, None, "what a closed queue raises, too")),
        (8, TextlessError()),
        # TensorFlow would look for names of operations in it, for hours, while no other thread runs.
        (8, ValueError(str([0.0] * 100_000))),
    ],
    ids=lambda x: type(x).__name__,
)
def test_an_error_of_an_environment_comes_out_as_it_was_raised(make_driver, raise_at, error, caplog):
    caplog.set_level("INFO", logger="tensorflow")  # as in a notebook
    error.__context__ = KeyError("inner")
    envs = make_counting_envs(2, cls=FakeEnvironment)
    envs += [RaisingEnvironment(2, env_index=2, raise_at=raise_at, error=error)]
    driver = make_driver(envs, learn_queue_cap=2)
    driver.start()
    raised = run_until_it_fails(driver)
    if isinstance(error, SystemExit):  # It means something to the code around.
        assert isinstance(raised, EnvError) and raised.__cause__ is error
        assert str(raised) == f"envs[2] (RaisingEnvironment) raised {error!r}"
    elif isinstance(error, TextlessError):
        assert isinstance(raised, EnvError) and raised.__cause__ is error
        assert str(raised) == "envs[2] (RaisingEnvironment) raised TextlessError, whose text cannot be made"
    else:
        assert raised is error
        # Its own context, and not the queue that its end closed, for which the learner waits.
        assert repr(raised.__context__) == "KeyError('inner')" and raised.__context__.__context__ is None
    assert "fail_on_purpose" in "".join(traceback.format_exception(raised))
    assert not [x for x in caplog.records if x.name == "tensorflow"]
    assert_ended(driver, envs)


def test_an_error_of_an_environment_ends_an_actor_that_waits_for_more(make_driver):
    """The actor of two environments waits for the one that is gone."""
    envs = [RaisingEnvironment(2, raise_at=2), FakeEnvironment(2, env_index=1)]
    driver = make_driver(envs, actor_queue_cap=2)
    driver.start()
    raised = run_until_it_fails(driver)
    assert isinstance(raised, OSError) and str(raised) == "the environment's own error"
    assert_ended(driver, envs)


@pytest.mark.parametrize("raise_at", [0, 6])
@pytest.mark.parametrize("place", [0, 2])
def test_an_error_of_an_environment_ends_those_of_its_thread(make_driver, raise_at, place):
    envs = make_counting_envs(3, cls=FakeEnvironment)
    envs[place] = RaisingEnvironment(2, raise_at=raise_at)
    driver = make_driver(envs, num_env_threads=1)
    driver.start()
    raised = run_until_it_fails(driver)
    assert isinstance(raised, OSError) and str(raised) == "the environment's own error"
    assert_ended(driver, envs)


@pytest.mark.parametrize("num_actor_queues", [1, 0])
@pytest.mark.parametrize("out_of_range", [False, True])
def test_an_error_of_rollout_step_comes_out(make_driver, out_of_range, num_actor_queues):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    policy = FailingPolicy(envs[0], fail_at=20, out_of_range=out_of_range)
    driver = make_driver(envs, RecordingLearner(policy), num_actor_queues=num_actor_queues)
    driver.start()
    raised = run_until_it_fails(driver)
    if out_of_range:
        assert isinstance(raised, tf.errors.OutOfRangeError)
    else:
        assert isinstance(raised, tf.errors.InvalidArgumentError)
        assert "the policy failed" in str(raised)
    assert_ended(driver, envs)


def test_an_error_of_python_code_in_rollout_step_comes_out(make_driver):
    error = KeyError(str([0.0] * 100_000))

    class Calling(FrozenPolicy):
        def rollout_step(self, time_step, state):
            step = super().rollout_step(time_step, state)

            def fail(x):
                raise error

            with tf.control_dependencies([tf.py_function(fail, [time_step.reward], tf.float32)]):
                return step._replace(action=tf.nest.map_structure(tf.identity, step.action))

    envs = make_counting_envs(2, cls=FakeEnvironment)
    driver = make_driver(envs, RecordingLearner(Calling(envs[0])))
    driver.start()
    assert run_until_it_fails(driver) is error
    assert_ended(driver, envs)


class FailingObserver(RecordingObserver):
    def __call__(self, record):
        super().__call__(record)
        if len(self.records) == 3:
            raise self.error


@pytest.mark.parametrize("error", [OwnError("the disk is full"), TextlessError()], ids=type)
def test_an_error_of_an_observer_comes_out(make_driver, error):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    observer = FailingObserver()
    observer.error = error
    driver = make_driver(envs, observers=[observer])
    driver.start()
    raised = run_until_it_fails(driver)
    assert raised is error or str(raised) == "LogThread raised TextlessError, whose text cannot be made"
    assert "__call__" in "".join(traceback.format_exception(raised))
    assert_ended(driver, envs)


class FailingLearner(RecordingLearner):
    def observe(self, experience):
        super().observe(experience)
        if len(self.observed) == 3:
            raise OwnError("no memory left")


def test_stop_in_a_finally_does_not_hide_an_error_of_the_learner(make_driver):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    driver = make_driver(envs, FailingLearner(FrozenPolicy(envs[0])))
    with pytest.raises(OwnError, match="no memory left"):
        try:
            driver.start()
            for _ in range(10):
                collect_and_observe(driver)
        finally:
            driver.stop()
    assert_ended(driver, envs)


def test_stop_raises_an_error_that_collect_had_no_chance_to_raise(make_driver):
    envs = [RaisingEnvironment(2, raise_at=1, error=OwnError("early"))]
    driver = make_driver(envs)
    driver.start()
    wait_until(lambda: driver_threads() == [])
    with pytest.raises(OwnError, match="early"):
        driver.stop()
    assert_ended(driver, envs)


def test_the_first_error_wins(make_driver):
    """Every environment fails; the later errors are not the cause."""
    envs = make_counting_envs(3, cls=RaisingEnvironment, raise_at=5)
    driver = make_driver(envs, num_actor_queues=3)
    driver.start()
    raised = run_until_it_fails(driver)
    assert isinstance(raised, OSError) and str(raised) == "the environment's own error"
    assert_ended(driver, envs)


def test_an_error_comes_out_while_another_environment_blocks(make_driver):
    """The error, not the complaint about the thread that does not end."""
    error = OwnError("while another one blocks")

    def fail(number, time_step):
        assert blocking.blocked.wait(PATIENCE)
        raise error

    blocking, failing = BlockingEnvironment(2, block_at=2), FakeEnvironment(2, env_index=1)
    failing.answer = fail
    driver = make_driver([blocking, failing], stop_timeout=TIMEOUT)
    try:
        driver.start()
        assert run_until_it_fails(driver) is error
        driver.stop()
        assert blocking.num_closes == 0
    finally:
        blocking.release.set()
    wait_until(lambda: driver_threads() == [])


def test_an_error_while_tracing_starts_no_thread(make_driver):
    envs = make_counting_envs(2, cls=FakeEnvironment)

    def fail(policy_step):
        raise OwnError("a typo")

    driver = make_driver(envs, RecordingLearner(FrozenPolicy(envs[0], change=fail)))
    with pytest.raises(OwnError, match="a typo"):
        driver.start()
    assert driver_threads() == []
    assert_ended(driver, envs)


# --- stop() and interrupt().


def test_stop_before_start(make_driver):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    driver = make_driver(envs)
    driver.stop()
    assert_ended(driver, envs)
    with pytest.raises(RuntimeError, match="start.. works once"):
        driver.start()
    assert [env.num_resets for env in envs] == [0, 0]


def test_stop_right_after_start(make_driver):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    driver = make_driver(envs)
    driver.start()
    driver.stop()
    assert_ended(driver, envs)


def test_a_second_start_does_no_harm_and_stop_ends_all(make_driver):
    envs = make_counting_envs(3, cls=FakeEnvironment)
    driver = make_driver(envs, num_actor_queues=2, learn_queue_cap=2)
    driver.start()
    with pytest.raises(RuntimeError, match="start.. works once"):
        driver.start()
    for _ in range(5):
        collect_and_observe(driver)
    start = time.monotonic()
    driver.stop()
    assert time.monotonic() - start < SECONDS
    assert_ended(driver, envs)


def test_stop_while_everything_waits_for_the_learner(make_driver):
    envs = make_counting_envs(3, cls=FakeEnvironment)
    driver = make_driver(envs)
    driver.start()
    wait_until(lambda: driver.queue_sizes()["learn_queue"] == 1)
    steps = lambda: [env.num_steps for env in envs]  # noqa: E731
    wait_until(lambda: min(steps()) >= 3)
    driver.stop()
    assert max(steps()) <= 6, "an environment ran on although nobody took its unroll"
    assert_ended(driver, envs)


def test_interrupt_ends_a_collect_that_waits(make_driver):
    env = BlockingEnvironment(2, block_at=2)
    driver = make_driver([env])

    def interrupt():
        env.blocked.wait(PATIENCE)
        driver.interrupt()
        env.release.set()

    driver.start()
    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(RuntimeError, match="interrupted"):
        collect_and_observe(driver)
    helper.join(PATIENCE)
    assert_ended(driver, [env])


def test_interrupt_works_before_start_and_twice(make_driver):
    envs = make_counting_envs(1, cls=FakeEnvironment)
    driver = make_driver(envs, parameter_update_period=1)
    driver.interrupt()
    driver.interrupt()
    driver.start()
    raised = run_until_it_fails(driver)
    assert isinstance(raised, RuntimeError) and "interrupted" in str(raised)
    assert_ended(driver, envs)


# --- What must not be called.


def test_calls_in_the_wrong_order_say_what_to_call(make_driver):
    driver = make_driver(make_counting_envs(1))
    with pytest.raises(RuntimeError, match=r"start\(\) first"):
        collect_and_observe(driver)
    driver.stop()


def test_a_driver_leaves_no_memory_behind():
    """TensorFlow remembers all Python functions that a graph calls, but they need not hold much."""
    references = []
    for driver_class in (AsyncOffPolicyDriver, SyncOffPolicyDriver):
        envs = make_counting_envs(1, cls=FakeEnvironment)
        driver = build_driver(driver_class, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=3)
        driver.start()
        collect_and_observe(driver)
        driver.stop()
        references += [weakref.ref(driver), weakref.ref(envs[0])]
    del driver, envs
    gc.collect()
    assert [reference() for reference in references] == [None] * 4


# --- The synchronous driver.


@pytest.mark.parametrize("raise_at", [0, 8])
def test_a_synchronous_driver_raises_the_error_of_an_environment(raise_at):
    error = OwnError("out of fuel")
    envs = [FakeEnvironment(2), RaisingEnvironment(2, env_index=1, raise_at=raise_at, error=error)]
    driver = build_driver(SyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=3)
    with pytest.raises(OwnError, match="out of fuel") as raised:
        driver.start()
        for _ in range(5):
            collect_and_observe(driver)
    assert raised.value is error
    assert "fail_on_purpose" in "".join(traceback.format_exception(raised.value))
    driver.stop()
    driver.stop()
    assert [env.num_closes for env in envs] == [1, 1]


def test_a_synchronous_driver_says_what_to_call():
    envs = make_counting_envs(1, cls=FakeEnvironment)
    driver = build_driver(SyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=3)
    with pytest.raises(RuntimeError, match=r"start\(\) first"):
        collect_and_observe(driver)
    driver.start()
    with pytest.raises(RuntimeError, match="start.. works once"):
        driver.start()
    driver.stop()
    with pytest.raises(RuntimeError, match="not after stop"):
        collect_and_observe(driver)
    with pytest.raises(RuntimeError, match="start.. works once"):
        driver.start()
    assert envs[0].num_closes == 1


# --- Every driver, while an environment hangs or does not close.


class StuckEnvironment(BlockingEnvironment):
    """Blocks as long as `BlockingEnvironment` does; `close` raises `close_error`, or blocks, if it should."""

    def __init__(self, *args, close_error=None, blocks_close=False, **kwargs):
        super().__init__(*args, **kwargs)
        self._close_error = close_error
        self._blocks_close = blocks_close

    def close(self):
        super().close()
        if self._blocks_close:
            assert self.release.wait(PATIENCE), "the test did not release the environment"
        if self._close_error is not None:
            raise self._close_error


DRIVERS = [AsyncOffPolicyDriver, SyncOffPolicyDriver]


@contextlib.contextmanager
def stuck_driver(driver_class, changes, num_hanging, **kwargs):
    """A driver of one environment for each dict of arguments in `changes`; in the end they are released.

    `num_hanging` threads do not end when it stops. All others get the time that they need: only then the
    `stop_timeout` begins.
    """
    envs = [StuckEnvironment(2, env_index=i, **{"block_at": -1, **c}) for i, c in enumerate(changes)]
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    stuck = build_driver(driver_class, envs, learner, unroll_length=3, stop_timeout=TIMEOUT, **kwargs)

    join_in_time = threads.join_all

    def join_all(ending, timeout):
        wait_until(lambda: sum(thread.is_alive() for thread in ending) <= num_hanging)
        start = time.monotonic()
        join_in_time(ending, timeout)
        # Python's locks may measure it with another clock.
        assert timeout == TIMEOUT and time.monotonic() - start > 0.9 * TIMEOUT, "it did not wait so long"

    try:
        with mock.patch.object(threads, "join_all", join_all):
            yield stuck, envs
    finally:
        for env in envs:
            env.release.set()
        with contextlib.suppress(Exception):
            stuck.stop()
        wait_until(lambda: driver_threads() == [])


def collect_until_blocked(driver, env):
    """Starts a driver, calls `collect` in a loop and interrupts it once `env` blocks; returns the error."""

    def interrupt():
        env.blocked.wait(PATIENCE)
        wait_until(lambda: driver._threads._waiting_since is not None)
        driver.interrupt()

    helper = threading.Thread(target=interrupt)
    helper.start()
    raised = run_until_it_fails(driver, starts=True)
    helper.join(PATIENCE)
    return raised


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize("block_at", [0, 5])
def test_an_environment_that_hangs_is_closed_when_it_is_back(driver_class, block_at):
    """`collect` fails at once; `stop` closes the others, and says which one hangs."""
    changes = [{}, {"block_at": block_at}]
    with stuck_driver(driver_class, changes, num_hanging=2) as (driver, envs):
        raised = collect_until_blocked(driver, envs[1])
        assert isinstance(raised, RuntimeError) and str(raised) == "the driver was interrupted"
        start = time.monotonic()
        what = "steps" if block_at else "resets"
        with pytest.raises(RuntimeError, match=rf"envs\[1\] \(StuckEnvironment\) still {what}$"):
            driver.stop()
        assert time.monotonic() - start < SECONDS
        assert [env.num_closes for env in envs] == [1, 0], "closed in the middle of a step, or not at all"
        assert driver_threads() == ["EnvThread-1" if driver_class is AsyncOffPolicyDriver else "UnrollThread"]
        envs[1].release.set()
        wait_until(lambda: envs[1].num_closes == 1)
        driver.stop()
    assert [env.num_closes for env in envs] == [1, 1]


def test_an_environment_that_was_closed_is_not_stepped_any_more():
    """The thread of a synchronous driver goes on to the next environment when one that hangs is back."""
    with stuck_driver(SyncOffPolicyDriver, [{"block_at": 5}, {}], num_hanging=2) as (driver, envs):
        collect_until_blocked(driver, envs[0])
        with pytest.raises(RuntimeError, match="still steps$"):
            driver.stop()
        assert [env.num_closes for env in envs] == [0, 1]
        actions = []
        envs[1]._step = actions.append
        envs[0].release.set()
        wait_until(lambda: envs[0].num_closes == 1)  # the thread has ended
        assert not actions


@pytest.mark.parametrize("driver_class, starts", [(AsyncOffPolicyDriver, True), (SyncOffPolicyDriver, False)])
def test_stop_names_the_environments_that_do_not_close(driver_class, starts):
    first, second = OwnError("no display"), SystemExit("gone")
    changes = [{"close_error": first}, {"blocks_close": True}, {"close_error": second}, {}]
    with stuck_driver(driver_class, changes, num_hanging=1) as (driver, envs):
        if starts:
            driver.start()
            collect_and_observe(driver)
        start = time.monotonic()
        with pytest.raises(RuntimeError) as raised:
            driver.stop()
        assert time.monotonic() - start < SECONDS
        names = [f"envs[{i}] (StuckEnvironment)" for i in range(4)]
        assert str(raised.value) == (
            f"after stop_timeout={TIMEOUT:g} seconds: {names[0]} raised {first!r} in close(); "
            f"{names[1]} is still closing; {names[2]} raised {second!r} in close()"
        )
        assert raised.value.__cause__ is first
        assert [env.num_closes for env in envs] == [1] * 4


def test_stop_names_a_thread_that_hangs():
    release = threading.Event()

    def observer(record):
        release.wait(PATIENCE)

    with stuck_driver(AsyncOffPolicyDriver, [{}], num_hanging=1, observers=[observer]) as (driver, envs):
        driver.start()
        collect_and_observe(driver)
        with pytest.raises(RuntimeError, match="seconds: LogThread still runs$"):
            driver.stop()
        assert envs[0].num_closes == 1
        release.set()


def test_stop_after_an_error_only_warns_of_an_environment_that_does_not_close():
    """Else it would hide that error, in a `finally`."""
    changes = [{"blocks_close": True}]
    with stuck_driver(AsyncOffPolicyDriver, changes, num_hanging=1) as (driver, envs):
        envs[0].answer = lambda number, time_step: 1 / 0
        with pytest.raises(ZeroDivisionError):
            try:
                driver.start()
                for _ in range(10):
                    collect_and_observe(driver)
            finally:
                driver.stop()


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_settings_of_the_end(driver_class):
    envs = make_counting_envs(1)
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    for name, value in [("stop_timeout", 0), ("stall_timeout", -1.0), ("on_stall", "stop")]:
        with pytest.raises(ConfigError, match=f"{name} is {value!r}"):
            build_driver(driver_class, envs, learner, **{name: value})


# --- An interrupt at any moment.

COPIES_IN_LOCKSTEP = {"parameter_update_period": 1, "mode": "lockstep", "learn_queue_cap": 2}
KINDS_OF_DRIVERS = [
    (AsyncOffPolicyDriver, {}),
    (AsyncOffPolicyDriver, COPIES_IN_LOCKSTEP),
    (AsyncOffPolicyDriver, {"prefetch": True}),
    (AsyncOffPolicyDriver, {"mode": "overlap"}),
    (AsyncOffPolicyDriver, {"num_actor_queues": 0, "parameter_update_period": 1}),
    (SyncOffPolicyDriver, {}),
]


def run_and_stop(driver):
    """Runs a driver that is interrupted meanwhile; returns how it ended."""
    try:
        try:
            driver.start()
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                collect_and_observe(driver)
                driver.learner.progress.updates.assign_add(1)
        finally:
            driver.stop()
    except Exception as error:
        return type(error), str(error)
    return None


def make_interrupted(driver_class, kwargs):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    return build_driver(driver_class, envs, learner, unroll_length=3, stop_timeout=PATIENCE, **kwargs), envs


@pytest.mark.parametrize("driver_class, kwargs", KINDS_OF_DRIVERS)
def test_an_interrupt_may_come_after_any_delay(driver_class, kwargs):
    for delay in (0.0, 0.05, 0.2, 0.4):
        driver, envs = make_interrupted(driver_class, kwargs)
        timers = [threading.Timer(seconds, driver.interrupt) for seconds in (delay, 1.1 * delay)]
        for timer in timers:
            timer.start()
        assert run_and_stop(driver) == (InterruptedDriverError, "the driver was interrupted")
        for timer in timers:
            timer.join()
        assert_ended(driver, envs)


ASYNC_POINTS = [
    (graph_steps, "trace"),
    (threads.DriverThreads, "start"),
    (Driver, "_waiting"),
    (DriverThread, "run"),
    (unroller, "keep_python_thread"),  # with which each call of an environment begins
]
LOG_POINTS = [(LogThread, "work")]
PREFETCH_POINTS = [(PrefetchThread, "work"), (PrefetchThread, "take")]
COPY_POINTS = [(Semaphore, "hold"), (Policy, "assign")]
OVERLAP_POINTS = [*COPY_POINTS, (AsyncOffPolicyDriver, "_renew_weights"), (AsyncOffPolicyDriver, "_log_all")]
SYNC_POINTS = [
    (graph_steps, "trace"),
    (Driver, "_waiting"),
    (Driver, "_count_due_batches"),
    (unroller, "keep_python_thread"),
    (unroller.EnvUnroller, "_step"),
    (SyncOffPolicyDriver, "_take"),
]
# Of each of KINDS_OF_DRIVERS.
POINTS = [
    ASYNC_POINTS + LOG_POINTS,
    ASYNC_POINTS + COPY_POINTS,
    ASYNC_POINTS + LOG_POINTS + PREFETCH_POINTS,
    ASYNC_POINTS + OVERLAP_POINTS,
    ASYNC_POINTS + COPY_POINTS,
    SYNC_POINTS,
]


@pytest.mark.parametrize(
    "driver_class, kwargs, owner, name",
    [(*kind, *point) for kind, points in zip(KINDS_OF_DRIVERS, POINTS, strict=True) for point in points],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_an_interrupt_may_come_at_any_point(monkeypatch, driver_class, kwargs, owner, name):
    """Another thread interrupts when a function is called for the first time."""
    driver, envs = make_interrupted(driver_class, kwargs)
    function, interrupted = getattr(owner, name), threading.Event()

    def interrupt_before(*args, **kwargs):
        if not interrupted.is_set():
            interrupted.set()
            helper = threading.Thread(target=driver.interrupt)
            helper.start()
            helper.join(PATIENCE)
            assert not helper.is_alive()
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupt_before)
    ended = run_and_stop(driver)
    assert interrupted.is_set(), f"nothing calls {name}"
    assert ended == (InterruptedDriverError, "the driver was interrupted")
    assert_ended(driver, envs)


def test_tensorflow_logs_no_error_that_the_driver_raises():
    """In a notebook its level is INFO, and a long traceback would come before the message."""
    logger, records = tf.get_logger(), []
    handler, level = logging.Handler(), logger.level
    handler.emit = records.append
    logger.addHandler(handler)
    logger.setLevel("INFO")
    try:
        parts = DriverThreads([], None, Monitoring(), lambda: None, dict)
        with contextlib.suppress(OwnError), parts.coord.stop_on_exception():
            raise OwnError("the first")
        logger.info("another line")
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
    assert [record.msg for record in records] == ["another line"]
