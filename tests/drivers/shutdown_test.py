# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""However a driver ends: soon, with the first error as it was raised, leaving no thread behind."""

import contextlib
import gc
import sys
import threading
import time
import traceback
import weakref

import pytest
import tensorflow as tf

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.drivers.metrics import EnvironmentSteps
from alf.errors import ConfigError, EnvError
from alf.testing.fakes import (
    FakeEnvironment,
    FrozenPolicy,
    RecordingLearner,
    RecordingObserver,
    make_counting_envs,
)

SECONDS = 5.0  # that an error may take to reach the main thread
KINDS = ("EnvThread-", "ActorThread-", "LogThread", "UnrollThread", "StallWatch")


class OwnError(Exception):
    """An error that nobody but the test knows."""


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
            assert self.release.wait(60), "the test did not release the environment"
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
        kwargs = {"num_actor_queues": 1, "unroll_length": 3, "stop_timeout": 10.0, **kwargs}
        driver = AsyncOffPolicyDriver(envs, learner, **kwargs)
        timers.append(threading.Timer(30, driver.interrupt))
        timers[-1].start()
        drivers.append(driver)
        return driver

    yield make
    for timer in timers:
        timer.cancel()
    for driver in drivers:
        driver.stop()


def run_until_it_fails(driver):
    """Runs `driver`; returns the exception that ended it and the seconds until then."""
    start = time.monotonic()
    try:
        while time.monotonic() < start + 20:
            driver.run_async()
    except BaseException as error:
        return error, time.monotonic() - start
    raise AssertionError("nothing failed")


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.005)


def assert_ended(driver, envs):
    driver.stop()
    assert driver_threads() == []
    assert [env.num_closes for env in envs] == [1] * len(envs)
    with pytest.raises(RuntimeError, match="start"):
        driver.collect()


# --- The first error is the one that the user sees.


@pytest.mark.parametrize(
    "raise_at, error",
    [
        (0, OwnError("no such level")),
        (1, OwnError("out of fuel")),
        (8, KeyError("observation")),
        (8, StopIteration("no more episodes")),
        (8, SystemExit("the simulator quit")),
        (8, tf.errors.InvalidArgumentError(None, None, "an environment that uses TensorFlow")),
        (8, tf.errors.OutOfRangeError(None, None, "what a closed queue raises, too")),
    ],
    ids=repr,
)
def test_error_of_an_environment(make_driver, raise_at, error):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    envs += [RaisingEnvironment(2, env_index=2, raise_at=raise_at, error=error)]
    driver = make_driver(envs, learn_queue_cap=2)
    driver.start()
    raised, seconds = run_until_it_fails(driver)
    if isinstance(error, (StopIteration, SystemExit)):  # They mean something to the code around.
        assert isinstance(raised, EnvError) and raised.__cause__ is error
        assert str(raised) == f"envs[2] (RaisingEnvironment) raised {error!r}"
    else:
        assert raised is error
    assert "fail_on_purpose" in "".join(traceback.format_exception(raised))
    assert seconds < SECONDS
    assert_ended(driver, envs)


def test_error_of_an_environment_is_shown_with_its_own_causes_alone(make_driver):
    """Not with the queue that its end closed, for which the learner waits."""
    error = OwnError("outer")
    error.__context__ = KeyError("inner")
    driver = make_driver([RaisingEnvironment(2, raise_at=1, error=error)])
    driver.start()
    raised, _ = run_until_it_fails(driver)
    assert raised is error and repr(raised.__context__) == "KeyError('inner')"
    assert raised.__context__.__context__ is None


def test_error_of_an_environment_whose_actor_waits_for_others(make_driver):
    """The actor of two environments waits for the one that is gone."""
    envs = [RaisingEnvironment(2, raise_at=2), FakeEnvironment(2, env_index=1)]
    driver = make_driver(envs, actor_queue_cap=2)
    driver.start()
    raised, seconds = run_until_it_fails(driver)
    assert isinstance(raised, OSError) and str(raised) == "the environment's own error"
    assert seconds < SECONDS
    assert_ended(driver, envs)


@pytest.mark.parametrize("raise_at", [0, 6])
def test_error_of_an_environment_for_whose_turn_others_wait(make_driver, raise_at):
    envs = [RaisingEnvironment(2, raise_at=raise_at), *make_counting_envs(3, cls=FakeEnvironment)[1:]]
    driver = make_driver(envs, one_env_at_a_time=True)
    driver.start()
    raised, seconds = run_until_it_fails(driver)
    assert isinstance(raised, OSError) and str(raised) == "the environment's own error"
    assert seconds < SECONDS
    assert_ended(driver, envs)


@pytest.mark.parametrize("out_of_range", [False, True])
def test_error_of_rollout_step(make_driver, out_of_range):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    driver = make_driver(
        envs, RecordingLearner(FailingPolicy(envs[0], fail_at=20, out_of_range=out_of_range))
    )
    driver.start()
    raised, seconds = run_until_it_fails(driver)
    if out_of_range:
        assert isinstance(raised, tf.errors.OutOfRangeError)
    else:
        assert isinstance(raised, tf.errors.InvalidArgumentError)
        assert "the policy failed" in str(raised)
    assert seconds < SECONDS
    assert_ended(driver, envs)


class FailingObserver(RecordingObserver):
    def __call__(self, record):
        super().__call__(record)
        if len(self.records) == 3:
            raise OwnError("the disk is full")


class FailingMetric(EnvironmentSteps):
    name = "Failing"

    def __call__(self, record):
        raise OwnError("the disk is full")


@pytest.mark.parametrize("what", ["observers", "metrics"])
def test_error_of_an_observer(make_driver, what):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    kwargs = {what: [FailingObserver() if what == "observers" else FailingMetric()]}
    driver = make_driver(envs, **kwargs)
    driver.start()
    raised, seconds = run_until_it_fails(driver)
    assert isinstance(raised, OwnError) and str(raised) == "the disk is full"
    assert "__call__" in "".join(traceback.format_exception(raised))
    assert seconds < SECONDS
    assert_ended(driver, envs)


class FailingLearner(RecordingLearner):
    def observe(self, experience):
        super().observe(experience)
        if len(self.observed) == 3:
            raise OwnError("no memory left")


def test_error_of_the_learner(make_driver):
    """stop() in a `finally` must not hide it."""
    envs = make_counting_envs(2, cls=FakeEnvironment)
    driver = make_driver(envs, FailingLearner(FrozenPolicy(envs[0])))
    with pytest.raises(OwnError, match="no memory left"):
        try:
            driver.start()
            for _ in range(10):
                driver.run_async()
        finally:
            driver.stop()
    assert_ended(driver, envs)


def test_stop_raises_what_run_async_had_no_chance_to(make_driver):
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
    raised, seconds = run_until_it_fails(driver)
    assert isinstance(raised, OSError) and str(raised) == "the environment's own error"
    assert seconds < SECONDS
    assert_ended(driver, envs)


def test_error_while_another_environment_blocks(make_driver):
    """The cause comes out, not the complaint about the thread that does not end."""
    blocking = BlockingEnvironment(2, block_at=2)
    driver = make_driver([blocking, RaisingEnvironment(2, env_index=1, raise_at=6)], stop_timeout=0.3)
    try:
        driver.start()
        raised, seconds = run_until_it_fails(driver)
        assert isinstance(raised, OSError)
        assert seconds < SECONDS
    finally:
        blocking.release.set()
    wait_until(lambda: driver_threads() == [])


def test_error_while_tracing_starts_no_thread(make_driver):
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


def test_stop_in_the_middle_and_again(make_driver):
    envs = make_counting_envs(3, cls=FakeEnvironment)
    driver = make_driver(envs, num_actor_queues=2, learn_queue_cap=2)
    driver.start()
    for _ in range(5):
        driver.run_async()
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


def test_stop_while_an_environment_blocks(make_driver):
    envs = [FakeEnvironment(2), BlockingEnvironment(2, env_index=1, block_at=5)]
    driver = make_driver(envs, stop_timeout=0.5)
    try:
        driver.start()
        while not envs[1].blocked.is_set():
            driver.run_async()
        start = time.monotonic()
        with pytest.raises(RuntimeError, match=r"envs\[1\] \(BlockingEnvironment\) still steps$"):
            driver.stop()
        assert time.monotonic() - start < SECONDS
        assert driver_threads() == ["EnvThread-1"]
        assert envs[1].num_closes == 0, "it was closed in the middle of a step"
        driver.stop()
    finally:
        envs[1].release.set()
    wait_until(lambda: driver_threads() == [])


def test_interrupt_ends_a_run_async_that_waits(make_driver):
    env = BlockingEnvironment(2, block_at=2)
    driver = make_driver([env])

    def interrupt():
        env.blocked.wait(10)
        driver.interrupt()
        env.release.set()

    driver.start()
    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(RuntimeError, match="interrupted"):
        driver.run_async()
    helper.join(10)
    assert_ended(driver, [env])


@pytest.mark.parametrize("parameter_update_period", [None, 1])
def test_interrupt_before_start_and_twice(make_driver, parameter_update_period):
    envs = make_counting_envs(1, cls=FakeEnvironment)
    driver = make_driver(envs, parameter_update_period=parameter_update_period)
    driver.interrupt()
    driver.interrupt()
    driver.start()
    raised, seconds = run_until_it_fails(driver)
    assert isinstance(raised, RuntimeError) and "interrupted" in str(raised)
    assert seconds < SECONDS
    assert_ended(driver, envs)


# --- What must not be called.


def test_run_async_needs_start(make_driver):
    driver = make_driver(make_counting_envs(1))
    with pytest.raises(RuntimeError, match=r"start\(\) first"):
        driver.run_async()


def test_start_works_once(make_driver):
    envs = make_counting_envs(1, cls=FakeEnvironment)
    driver = make_driver(envs)
    driver.start()
    with pytest.raises(RuntimeError, match="start.. works once"):
        driver.start()
    driver.run_async()  # The second call did no harm.
    assert_ended(driver, envs)


def test_run_says_what_to_call(make_driver):
    driver = make_driver(make_counting_envs(1))
    with pytest.raises(RuntimeError, match=r"run_async\(\)"):
        driver.run()


def test_two_drivers_one_after_another(make_driver):
    for _ in range(2):
        envs = make_counting_envs(2, cls=FakeEnvironment)
        driver = make_driver(envs)
        driver.start()
        for _ in range(3):
            assert driver.run_async() > 0
        assert_ended(driver, envs)


@pytest.mark.parametrize("driver_class", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
def test_a_driver_leaves_no_memory_behind(driver_class):
    """TensorFlow remembers all Python functions that a graph calls, but they need not hold much."""
    envs = make_counting_envs(1, cls=FakeEnvironment)
    driver = driver_class(envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=3)
    driver.start()
    driver.run_async() if driver_class is AsyncOffPolicyDriver else driver.run()
    driver.stop()
    references = [weakref.ref(driver), weakref.ref(envs[0])]
    del driver, envs
    gc.collect()
    assert [reference() for reference in references] == [None, None]


# --- The synchronous driver.


@pytest.mark.parametrize("raise_at", [0, 1, 8])
def test_sync_error_of_an_environment(raise_at):
    error = OwnError("out of fuel")
    envs = [FakeEnvironment(2), RaisingEnvironment(2, env_index=1, raise_at=raise_at, error=error)]
    driver = SyncOffPolicyDriver(envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=3)
    with pytest.raises(OwnError, match="out of fuel") as raised:
        driver.start()
        for _ in range(5):
            driver.run()
    assert raised.value is error
    assert "fail_on_purpose" in "".join(traceback.format_exception(raised.value))
    driver.stop()
    driver.stop()
    assert [env.num_closes for env in envs] == [1, 1]


def test_sync_calls_in_the_wrong_order():
    envs = make_counting_envs(1, cls=FakeEnvironment)
    driver = SyncOffPolicyDriver(envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=3)
    with pytest.raises(RuntimeError, match=r"start\(\) first"):
        driver.run()
    driver.start()
    with pytest.raises(RuntimeError, match="start.. works once"):
        driver.start()
    driver.stop()
    with pytest.raises(RuntimeError, match="not after stop"):
        driver.run()
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
            assert self.release.wait(60), "the test did not release the environment"
        if self._close_error is not None:
            raise self._close_error


DRIVERS = [AsyncOffPolicyDriver, SyncOffPolicyDriver]
TIMEOUT = 0.5


@contextlib.contextmanager
def stuck_driver(driver_class, changes, **kwargs):
    """A driver of one environment for each dict of arguments in `changes`; in the end they are released."""
    envs = [StuckEnvironment(2, env_index=i, **{"block_at": -1, **c}) for i, c in enumerate(changes)]
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    driver = driver_class(envs, learner, unroll_length=3, stop_timeout=TIMEOUT, **kwargs)
    try:
        yield driver, envs
    finally:
        for env in envs:
            env.release.set()
        with contextlib.suppress(Exception):
            driver.stop()
        wait_until(lambda: driver_threads() == [])


def collect_until_blocked(driver, env):
    """Calls `collect` in a loop and interrupts it once `env` blocks; returns the error and the seconds."""
    interrupted = []

    def interrupt():
        env.blocked.wait(20)
        time.sleep(0.1)
        interrupted.append(time.monotonic())
        driver.interrupt()

    helper = threading.Thread(target=interrupt)
    helper.start()
    raised, _ = run_until_it_fails_or_starts(driver)
    seconds = time.monotonic() - interrupted[0]
    helper.join(10)
    return raised, seconds


def run_until_it_fails_or_starts(driver):
    """Starts the driver and calls `collect` until one of the two raises; returns the exception."""
    try:
        driver.start()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            driver.collect()
    except Exception as error:
        return error, None
    raise AssertionError("nothing failed")


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize("block_at", [0, 5])
def test_an_environment_hangs(driver_class, block_at):
    """`collect` fails at once; `stop` closes the others; the one that hangs is closed when it is back."""
    with stuck_driver(driver_class, [{}, {"block_at": block_at}]) as (driver, envs):
        raised, seconds = collect_until_blocked(driver, envs[1])
        assert isinstance(raised, RuntimeError) and str(raised) == "the driver was interrupted"
        assert seconds < TIMEOUT, "it waited for the environment"
        start = time.monotonic()
        what = "steps" if block_at else "resets"
        with pytest.raises(RuntimeError, match=rf"envs\[1\] \(StuckEnvironment\) still {what}$"):
            driver.stop()
        assert TIMEOUT <= time.monotonic() - start < TIMEOUT + SECONDS
        assert [env.num_closes for env in envs] == [1, 0]
        envs[1].release.set()
        wait_until(lambda: envs[1].num_closes == 1)
        driver.stop()
    assert [env.num_closes for env in envs] == [1, 1]


def test_an_environment_that_was_closed_is_not_stepped_any_more():
    """The thread of a synchronous driver goes on to the next environment when one that hangs is back."""
    with stuck_driver(SyncOffPolicyDriver, [{"block_at": 5}, {}]) as (driver, envs):
        collect_until_blocked(driver, envs[0])
        with pytest.raises(RuntimeError, match="still steps$"):
            driver.stop()
        assert [env.num_closes for env in envs] == [0, 1]
        actions = []
        envs[1]._step = actions.append
        envs[0].release.set()
        wait_until(lambda: envs[0].num_closes == 1)  # the thread has ended
        assert not actions


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize("starts", [False, True])
def test_environments_do_not_close(driver_class, starts):
    first, second = OwnError("no display"), SystemExit("gone")
    changes = [{"close_error": first}, {"blocks_close": True}, {"close_error": second}, {}]
    with stuck_driver(driver_class, changes) as (driver, envs):
        if starts:
            driver.start()
            driver.collect()
        start = time.monotonic()
        with pytest.raises(RuntimeError) as raised:
            driver.stop()
        assert time.monotonic() - start < TIMEOUT + SECONDS
        names = [f"envs[{i}] (StuckEnvironment)" for i in range(4)]
        assert str(raised.value) == (
            f"after stop_timeout=0.5 seconds: {names[0]} raised {first!r} in close(); "
            f"{names[1]} is still closing; {names[2]} raised {second!r} in close()"
        )
        assert raised.value.__cause__ is first
        assert [env.num_closes for env in envs] == [1] * 4


def test_stop_names_a_thread_that_hangs():
    release = threading.Event()

    def observer(record):
        release.wait(60)

    with stuck_driver(AsyncOffPolicyDriver, [{}], observers=[observer]) as (driver, envs):
        driver.start()
        driver.collect()
        with pytest.raises(RuntimeError, match="seconds: LogThread still runs$"):
            driver.stop()
        assert envs[0].num_closes == 1
        release.set()


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_stop_after_an_error_only_warns_of_what_does_not_close(driver_class):
    """Else it would hide that error, in a `finally`."""
    with stuck_driver(driver_class, [{"blocks_close": True}]) as (driver, envs):
        envs[0].answer = lambda number, time_step: 1 / 0
        with pytest.raises(ZeroDivisionError):
            try:
                driver.start()
                for _ in range(10):
                    driver.collect()
            finally:
                driver.stop()


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_settings_of_the_end(driver_class):
    envs = make_counting_envs(1)
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    for name, value in [("stop_timeout", 0), ("stall_timeout", -1.0), ("on_stall", "stop")]:
        with pytest.raises(ConfigError, match=f"{name} is {value!r}"):
            driver_class(envs, learner, **{name: value})


# --- An interrupt at any moment.

KWARGS = [
    (AsyncOffPolicyDriver, {"parameter_update_period": None}),
    (AsyncOffPolicyDriver, {"parameter_update_period": 1}),
    (AsyncOffPolicyDriver, {"parameter_update_period": None, "max_waiting_batches": 0, "learn_queue_cap": 2}),
    (AsyncOffPolicyDriver, {"parameter_update_period": 1, "max_waiting_batches": 0, "learn_queue_cap": 2}),
    (SyncOffPolicyDriver, {}),
]


def run_and_stop(driver):
    """Runs a driver that is interrupted meanwhile; returns how it ended."""
    try:
        try:
            driver.start()
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                driver.collect()
                driver.learner.progress.updates.assign_add(1)
        finally:
            driver.stop()
    except Exception as error:
        return type(error), str(error)
    return None


def make_interrupted(driver_class, kwargs):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    return driver_class(envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=3, **kwargs), envs


@pytest.mark.parametrize("driver_class, kwargs", KWARGS)
def test_interrupt_after_any_delay(driver_class, kwargs):
    for delay in [0.0, 0.03, 0.1, 0.2, 0.3, 0.4]:
        driver, envs = make_interrupted(driver_class, kwargs)
        timers = [threading.Timer(seconds, driver.interrupt) for seconds in (delay, 1.1 * delay)]
        for timer in timers:
            timer.start()
        assert run_and_stop(driver) == (RuntimeError, "the driver was interrupted")
        for timer in timers:
            timer.join()
        assert_ended(driver, envs)


POINTS = {
    AsyncOffPolicyDriver: [
        ("tf_runtime.py", "trace"),
        ("driver.py", "_start_threads"),
        ("driver.py", "_waiting"),
        ("driver_thread.py", "run"),
        ("env_thread.py", "call"),
        ("log_thread.py", "work"),
        ("queues.py", "hold"),
        ("policy.py", "assign"),
    ],
    SyncOffPolicyDriver: [
        ("tf_runtime.py", "trace"),
        ("driver.py", "_waiting"),
        ("driver.py", "_count_due_batches"),
        ("env_thread.py", "call"),
        ("env_thread.py", "_step"),
        ("sync_off_policy_driver.py", "_take"),
    ],
}


@pytest.mark.parametrize(
    "driver_class, kwargs, module, function",
    [
        (driver_class, kwargs, *point)
        for driver_class, kwargs in KWARGS
        for point in POINTS[driver_class]
        if kwargs.get("parameter_update_period") or point[1] not in ("hold", "assign")
    ],
)
def test_interrupt_at_a_chosen_point(driver_class, kwargs, module, function):
    """Another thread interrupts when `function` is called for the first time."""
    driver, envs = make_interrupted(driver_class, kwargs)
    interrupted = threading.Event()

    def interrupt(frame, event, _):
        code = frame.f_code
        if code.co_name == function and code.co_filename.endswith(module) and not interrupted.is_set():
            interrupted.set()
            helper = threading.Thread(target=driver.interrupt)
            helper.start()
            helper.join(10)
            assert not helper.is_alive()

    before = sys.gettrace()
    # TensorFlow's own threads, which call environments, are not traced.
    late = threading.Timer(1.0, driver.interrupt)
    late.start()
    threading.settrace(interrupt)
    sys.settrace(interrupt)
    try:
        ended = run_and_stop(driver)
    finally:
        sys.settrace(before)
        threading.settrace(before)
        late.cancel()
    assert ended == (RuntimeError, "the driver was interrupted")
    assert_ended(driver, envs)
