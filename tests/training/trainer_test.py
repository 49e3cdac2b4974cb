# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trainer: what ends a run, what it writes, how it continues, what it leaves after an error."""

import errno
import functools
import json
import os
import resource
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError, DivergedError, EnvError, SaveError
from alf.learner import Learner
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Experiment, Trainer
from alf.training.callback import Callback
from alf.training.experiment import seed_everything
from alf.training.git_state import read_git_state
from alf.training.run_description import read_description
from alf.training.run_dir import RunDir
from alf.training.stop_criteria import StopCriteria
from tests.training.event_files import read_kinds, read_summaries

BATCH_SIZE, EPISODE_LENGTH, UNROLL_LENGTH = 4, 5, 4


class Environment(MatchObservationEnvironment):
    """Notes what is done with it; from step `special_step` on it does something special.

    Args:
        made: list that gets every instance.
        special: called with each reward from then on, returns another one.
    """

    def __init__(self, made=None, special=None, special_step=10, seed=0, **kwargs):
        super().__init__(BATCH_SIZE, episode_length=EPISODE_LENGTH, seed=seed, **kwargs)
        self.given_seed, self.closed, self.steps = seed, 0, 0
        self._special, self._special_step = special, special_step
        if made is not None:
            made.append(self)

    def close(self):
        self.closed += 1

    def _step(self, action):
        time_step = super()._step(action)
        self.steps += 1
        if self._special is not None and self.steps >= self._special_step:
            return time_step._replace(reward=self._special(time_step.reward))
        return time_step


def make_trainer(root_dir, env=None, stop=None, learning_rate=0.01, experiment=None, **kwargs):
    """A trainer of a small network. `env`, `stop`, `experiment`: arguments of their constructors."""
    optimizer = tf.keras.optimizers.legacy.Adam(learning_rate)
    network_ctor = functools.partial(ActorCriticNetwork, fc_layer_params=(8,))
    parts = {
        "env_ctor": functools.partial(Environment, **(env or {})),
        "policy_ctor": functools.partial(ActorCriticPolicy, network_ctor=network_ctor),
        "learner_ctor": functools.partial(Learner, optimizer=optimizer, max_grad_norm=40.0),
        "unroll_length": UNROLL_LENGTH,
        **(experiment or {}),
    }
    driver = Experiment(**parts).make_driver()
    trainer = Trainer(
        str(root_dir), driver, stop_criteria_ctor=lambda: StopCriteria(**(stop or {})), **kwargs
    )
    trainer.optimizer = optimizer  # for `variables`
    return trainer


def checkpoints(root_dir):
    folder = os.path.join(root_dir, "checkpoints")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def variables(trainer):
    """Every variable: weights, counters, then Adam's m and v of every weight."""
    optimizer, weights = trainer.optimizer, trainer.learner.trainable_variables
    optimizer._create_all_weights(weights)
    slots = [optimizer.get_slot(w, name) for name in ("m", "v") for w in weights]
    return [v.numpy() for v in (*trainer.learner.variables, optimizer.iterations, *slots)]


def read_done(root_dir):
    with open(os.path.join(root_dir, "done.json")) as file:
        return json.load(file)


def metrics(trainer):
    return {metric.name: metric.get_state() for metric in trainer.driver.get_metrics()}


@pytest.mark.parametrize("driver", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
def test_num_iterations(tmp_path, driver):
    trainer = make_trainer(
        tmp_path,
        stop={"num_iterations": 7},
        experiment={"driver_ctor": driver},
    )
    assert trainer.train() == (True, "num_iterations=7 reached")
    assert trainer.counters["iterations"] == 7
    assert trainer.learner.train_step_counter.numpy() == 7
    # All rows but those from LAST to FIRST.
    unrolls = 7 * (2 if driver is SyncOffPolicyDriver else 1)
    rows = unrolls * UNROLL_LENGTH * BATCH_SIZE
    assert rows * EPISODE_LENGTH / (EPISODE_LENGTH + 1) - 8 <= trainer.counters["env_steps"] < rows
    assert "checkpoint" in checkpoints(tmp_path)


def test_num_env_steps(tmp_path):
    trainer = make_trainer(tmp_path, stop={"num_env_steps": 100})
    assert trainer.train() == (True, "num_env_steps=100 reached")
    assert 100 <= trainer.counters["env_steps"] < 100 + UNROLL_LENGTH * BATCH_SIZE


def test_max_seconds(tmp_path):
    trainer = make_trainer(tmp_path, stop={"max_seconds": 1.5})
    start = time.monotonic()
    assert trainer.train() == (True, "max_seconds=1.5 reached")
    assert 1.5 <= time.monotonic() - start < 30.0
    assert trainer.counters["iterations"] >= 1


def test_max_seconds_counts_from_the_first_train_step(tmp_path):
    trainer = make_trainer(tmp_path, stop={"max_seconds": 0.5})
    train, times = trainer.learner.train, []

    def train_late():
        times.append(time.monotonic())
        if len(times) == 1:
            time.sleep(1.0)  # as if it compiled
        return train()

    trainer.learner.train = train_late
    assert trainer.train() == (True, "max_seconds=0.5 reached")
    assert trainer.counters["iterations"] > 1
    assert times[-1] - times[0] > 1.0


def test_max_to_keep(tmp_path):
    stop = {"num_iterations": 5}
    make_trainer(tmp_path, stop=stop, checkpoint_interval=0.0, max_to_keep=2).train()
    assert [name for name in checkpoints(tmp_path) if name.endswith(".index")] == [
        f"ckpt-{n}.index" for n in (4, 5)
    ]
    for value in (0, 2.5, None):
        with pytest.raises(ConfigError, match=f"Trainer.max_to_keep is {value}"):
            make_trainer(tmp_path, max_to_keep=value)


def test_a_table_at_the_end(tmp_path, caplog):
    make_trainer(tmp_path, stop={"num_iterations": 30}, checkpoint_interval=0.0).train()
    caplog.set_level("INFO", "absl")
    start = time.monotonic()
    trainer = make_trainer(tmp_path, stop={"num_iterations": 70}, checkpoint_interval=0.0)
    env_steps = trainer.counters["env_steps"]
    trainer.train()
    seconds = time.monotonic() - start
    (table,) = [r.getMessage() for r in caplog.records if "where the time went" in r.getMessage()]
    rows = {line[:36].strip(): line[36:].split() for line in table.splitlines()[2:]}
    assert rows["train iterations"] == rows["updates"] == ["40", "70"]
    added, total = (int(number.replace(",", "")) for number in rows["env steps"])
    assert total == trainer.counters["env_steps"] == env_steps + added
    assert rows["episodes"][1] == str(trainer.metrics["NumberOfEpisodes"].result())
    parts = ["until the first train step", "waiting for experience", "training", "rest", "checkpoints"]
    parts.append("storing experience")
    found = [name for name in rows if rows[name][-1].endswith("%") and ":" not in name]
    assert set(found) == set(parts)
    assert len(rows["bottleneck"]) == 1
    for group in ("environments", "actors"):
        shares = [float(row[0][:-1]) for name, row in rows.items() if name.startswith(f"{group}: ")]
        assert len(shares) >= 2 and sum(shares) == pytest.approx(100.0, abs=0.3)
    assert float(rows["seconds"][0]) <= seconds + 0.1
    assert sum(float(rows[name][0]) for name in parts) == pytest.approx(float(rows["seconds"][0]), abs=0.3)
    assert sum(float(rows[name][1][:-1]) for name in parts) == pytest.approx(100.0, abs=0.3)
    assert int(rows["env steps/s since first train step"][0].replace(",", "")) > 0
    assert 0 < float(rows["average return"][0]) <= EPISODE_LENGTH
    assert rows["average episode length"] == [str(EPISODE_LENGTH)]


def test_target_return(tmp_path):
    trainer = make_trainer(tmp_path, stop={"target_return": 0.1 * EPISODE_LENGTH, "num_iterations": 10_000})
    finished, reason = trainer.train()
    assert finished and reason.startswith("target_return=0.5 reached: ")
    assert trainer.counters["iterations"] < 10_000


def read_events(folder):
    """Returns {tag: [(step, value), ...]} of the scalars and texts."""
    kinds = read_kinds(folder)
    read = {"scalars": float, "text": lambda array: array.item().decode()}
    return {
        tag: [(step, read[kinds[tag]](tf.make_ndarray(value.tensor))) for step, value in values]
        for tag, values in read_summaries(folder).items()
        if kinds[tag] in read
    }


def test_summaries(tmp_path):
    trainer = make_trainer(tmp_path, stop={"num_iterations": 60}, summary_interval=0.0)
    trainer.train()
    events = read_events(tmp_path / "train")
    assert len(events.pop("config/operative_config")) == 1
    expected = {
        "metrics": [
            *("AverageReturn", "MinReturn", "MaxReturn", "AverageDiscountedReturn", "AverageReward"),
            *("AverageEpisodeLength", "NumberOfEpisodes"),
        ],
        "train": [
            *("loss", "policy_loss", "value_loss", "entropy", "entropy_weight", "gradient_norm"),
            *("explained_variance", "learning_rate"),
            *("policy_lag_min", "policy_lag_mean", "policy_lag_max"),
        ],
        "throughput": [
            f"{name}steps_per_second_{window}"
            for name in ("", "collected_")
            for window in ("10s", "1min", "5min")
        ],
        "time": [
            "bottleneck",
            *("environments/step", "environments/waiting_for_actor", "environments/waiting_for_learner"),
            *("actors/inference", "learner/waiting_for_experience", "learner/update"),
        ],
        "time_share": [
            *(f"environments/{stage}" for stage in ("step", "waiting_for_actor", "waiting_for_learner")),
            *("environments/waiting_for_metrics", "environments/rest"),
            *("actors/inference", "actors/waiting_for_environments"),
            *(f"learner/{stage}" for stage in ("waiting_for_experience", "storing_experience", "training")),
            "learner/rest",
        ],
        "memory": ["process_mb", "children_mb"],
        "cpu": ["cores"],
        "environments": ["worker_restarts"],
        "queues": ["actor_queue", "learn_queue", "log_queue"],
    }
    assert set(events) == {f"{group}/{name}" for group, names in expected.items() for name in names}
    for tag, points in events.items():
        steps, values = zip(*points)
        assert list(steps) == sorted(steps), tag
        assert tag == "time/bottleneck" or np.isfinite(values).all(), f"{tag}: {values}"
        # Episodes have no figures before the first one has ended.
        if not tag.startswith(("metrics/Average", "metrics/Min", "metrics/Max")):
            assert len(points) == 60, tag
    last = {tag: points[-1][1] for tag, points in events.items()}
    assert events["train/loss"][-1][0] == trainer.counters["env_steps"]
    assert last["train/learning_rate"] == pytest.approx(0.01)
    assert last["train/gradient_norm"] > 0
    assert last["train/policy_lag_min"] <= last["train/policy_lag_mean"]
    assert last["train/policy_lag_mean"] <= last["train/policy_lag_max"]
    assert last["metrics/AverageEpisodeLength"] == EPISODE_LENGTH
    assert 0 < last["metrics/AverageReturn"] <= EPISODE_LENGTH
    assert last["throughput/steps_per_second_10s"] > 0
    assert last["throughput/collected_steps_per_second_10s"] > 0
    for group in ("environments", "actors", "learner"):
        shares = [value for tag, value in last.items() if tag.startswith(f"time_share/{group}/")]
        assert sum(shares) == pytest.approx(1.0, abs=1e-4)


def test_summaries_come_at_their_interval_and_at_the_end(tmp_path):
    trainer = make_trainer(tmp_path, stop={"num_iterations": 60}, summary_interval=1e6)
    trainer.train()
    events = read_events(tmp_path / "train")
    del events["config/operative_config"]
    env_steps = trainer.counters["env_steps"]
    assert {tuple(step for step, _ in points) for points in events.values()} == {(env_steps,)}


def test_a_run_of_one_iteration_has_a_point_of_each_name(tmp_path):
    names = []
    for num_iterations in (1, 60):
        path = tmp_path / str(num_iterations)
        make_trainer(path, stop={"num_iterations": num_iterations}, summary_interval=1e6).train()
        names.append({tag for tag in read_events(path / "train") if not tag.startswith("metrics/")})
    assert names[0] == names[1]


def test_the_last_summary_is_that_of_the_last_update(tmp_path):
    trainer = make_trainer(tmp_path, stop={"num_iterations": 4}, summary_interval=1e6)
    train, summaries = trainer.learner.train, []

    def train_twice():
        summaries.append(train() if len(summaries) < 2 else {})
        return summaries[-1]

    trainer.learner.train = train_twice
    trainer.train()
    ((_, loss),) = read_events(tmp_path / "train")["train/loss"]
    assert loss == pytest.approx(float(summaries[1]["loss"]))


def test_nothing_that_is_drawn_repeats_the_x_axis(tmp_path):
    trainer = make_trainer(tmp_path, stop={"num_iterations": 40}, summary_interval=0.0)
    trainer.train()
    for tag, points in read_events(tmp_path / "train").items():
        # Two texts; and episodes are of equal length here.
        if tag in ("config/operative_config", "time/bottleneck", "metrics/NumberOfEpisodes"):
            continue
        x, y = np.transpose(points[5:])
        if np.ptp(y) > 0:
            assert abs(np.corrcoef(x, y)[0, 1]) < 0.9999, tag


def test_a_run_continues_where_it_ended(tmp_path):
    first = make_trainer(tmp_path, stop={"num_iterations": 30}, experiment={"seed": 0})
    first.train()
    second = make_trainer(tmp_path, stop={"num_iterations": 32}, experiment={"seed": 1})
    assert second.counters == first.counters
    assert second.counters["iterations"] == 30 and second.counters["env_steps"] > 300
    for a, b in zip(variables(first), variables(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert second.optimizer.iterations.numpy() == 30
    assert all(slot.any() for slot in variables(second)[-8:]), "Adam's m and v"
    assert metrics(second) == metrics(first)
    assert metrics(second)["EnvironmentSteps"] > 0 and metrics(second)["AverageReturn"]

    env_steps = second.counters["env_steps"]
    assert second.train() == (True, "num_iterations=32 reached")
    assert second.counters["iterations"] == 32
    assert second.learner.train_step_counter.numpy() == 32
    assert second.optimizer.iterations.numpy() == 32
    rows = UNROLL_LENGTH * BATCH_SIZE
    assert env_steps + rows <= second.counters["env_steps"] <= env_steps + 2 * rows
    assert metrics(second)["EnvironmentSteps"] > metrics(first)["EnvironmentSteps"]
    assert "ckpt-32.index" in checkpoints(tmp_path)


def test_a_run_that_has_nothing_left_to_do_ends_at_once(tmp_path):
    make_trainer(tmp_path, stop={"num_iterations": 2}).train()
    again = make_trainer(tmp_path, stop={"num_iterations": 2})
    before = variables(again)
    assert again.train() == (True, "num_iterations=2 reached")
    third = make_trainer(tmp_path, stop={"num_iterations": 2})
    for a, b in zip(before, variables(third), strict=True):
        np.testing.assert_array_equal(a, b)


class WhileItRuns(Callback):
    """Notes in each train iteration whether `done.json` is there; may raise an error at the end."""

    def __init__(self, path, error=None):
        self.path, self.error, self.found = path, error, []

    def on_train_iter(self, trainer, summary):
        self.found.append(os.path.exists(os.path.join(self.path, "done.json")))

    def on_end(self, trainer, reason):
        if self.error is not None:
            raise self.error


def test_a_file_says_how_the_run_ended_while_no_run_goes_on(tmp_path):
    trainer = make_trainer(tmp_path, stop={"num_iterations": 2})
    trainer.train()
    done = {"status": "SUCCESS", "reason": "num_iterations=2 reached", **trainer.counters}
    assert done["iterations"] == 2 and read_done(tmp_path) == done
    # A run that is refused leaves it, and one that is continued replaces it.
    with pytest.raises(ConfigError):
        make_trainer(tmp_path, max_to_keep=0)
    assert read_done(tmp_path) == done
    callback = WhileItRuns(tmp_path, error=KeyError("my\nbug"))
    trainer = make_trainer(tmp_path, stop={"num_iterations": 4}, callbacks=[callback])
    with pytest.raises(KeyError):
        trainer.train()
    assert callback.found == [False, False]
    done = read_done(tmp_path)
    assert (done["status"], done["reason"], done["iterations"]) == ("FAILURE", r"KeyError: 'my\nbug'", 4)
    callback = WhileItRuns(tmp_path, error=KeyboardInterrupt())
    trainer = make_trainer(tmp_path, stop={"num_iterations": 5}, callbacks=[callback])
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert read_done(tmp_path)["status"] == "INTERRUPTED"
    trainer = make_trainer(tmp_path)
    trainer.stop("good enough")
    assert trainer.train() == (True, "good enough")
    assert read_done(tmp_path)["status"] == "SUCCESS"


def test_the_end_is_written_before_another_run_may_begin(tmp_path, monkeypatch):
    held = []
    close = RunDir.close

    def note(self):
        held.append(os.path.exists(os.path.join(self.path, "done.json")))
        close(self)

    monkeypatch.setattr(RunDir, "close", note)
    make_trainer(tmp_path, stop={"num_iterations": 1}).train()
    assert held == [True]


def test_whether_the_state_of_git_is_saved(tmp_path):
    for save_git_state in (True, False):
        make_trainer(tmp_path, save_git_state=save_git_state, stop={"num_iterations": 1}).train()
        # The tests are in a repository, or in a copy of one.
        expected = read_git_state([os.getcwd()]) is not None and save_git_state
        assert (read_description(str(tmp_path)).git is not None) == expected


def test_checkpoints_come_at_their_interval(tmp_path):
    make_trainer(tmp_path, stop={"num_iterations": 5}, checkpoint_interval=0.0).train()
    assert [name for name in checkpoints(tmp_path) if name.endswith(".index")] == [
        f"ckpt-{n}.index" for n in (3, 4, 5)
    ]


def slowly(seconds, started=None):
    def special(reward):
        if started is not None:
            started.set()
        time.sleep(seconds)
        return reward

    return special


def test_interrupt_ends_a_run_that_waits_for_a_slow_environment(tmp_path):
    started = threading.Event()
    made = []
    # An unroll takes 4 s from step 10 on.
    trainer = make_trainer(tmp_path, env={"special": slowly(1.0, started), "made": made})
    interrupted = []

    def interrupt():
        started.wait()
        time.sleep(0.2)
        interrupted.append(time.monotonic())
        trainer.interrupt("enough")

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert trainer.train() == (False, "enough")
    assert time.monotonic() - interrupted[0] < 3.0
    thread.join()
    iterations = trainer.counters["iterations"]
    assert iterations >= 1
    assert f"ckpt-{iterations}.index" in checkpoints(tmp_path)
    assert [env.closed for env in made] == [1, 1]
    assert read_done(tmp_path) == {"status": "INTERRUPTED", "reason": "enough", **trainer.counters}
    assert make_trainer(tmp_path).counters == trainer.counters


def test_interrupt_before_train(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.interrupt("enough")
    assert trainer.train() == (False, "enough")
    assert "ckpt-0.index" in checkpoints(tmp_path)


class EnvironmentError_(Exception):
    pass


def fail(reward):
    raise EnvironmentError_("the simulator crashed")


def test_an_environments_own_error_ends_the_run(tmp_path):
    made = []
    trainer = make_trainer(tmp_path, env={"special": fail, "made": made})
    start = time.monotonic()
    with pytest.raises(EnvironmentError_, match="the simulator crashed") as info:
        trainer.train()
    assert "fail" in [frame.name for frame in info.traceback]
    done = {"status": "FAILURE", "reason": "EnvironmentError_: the simulator crashed", **trainer.counters}
    assert read_done(tmp_path) == done
    assert time.monotonic() - start < 30.0
    assert [env.closed for env in made] == [1, 1]
    assert checkpoints(tmp_path) == []


def test_an_error_keeps_the_checkpoint_of_before(tmp_path):
    make_trainer(tmp_path, stop={"num_iterations": 3}).train()
    before = checkpoints(tmp_path)
    with pytest.raises(EnvironmentError_):
        make_trainer(tmp_path, env={"special": fail}).train()
    assert checkpoints(tmp_path) == before
    assert make_trainer(tmp_path).counters["iterations"] == 3


def test_a_reward_that_is_not_finite_ends_the_run(tmp_path):
    made = []
    trainer = make_trainer(tmp_path, env={"special": lambda r: r * np.nan, "made": made})
    with pytest.raises(EnvError, match=r"envs\[[01]\] \(Environment\) returned nan in reward of sub-environ"):
        trainer.train()
    assert all(np.isfinite(v).all() for v in variables(trainer))
    assert checkpoints(tmp_path) == []
    assert [env.closed for env in made] == [1, 1]


def test_a_learning_rate_that_is_too_large_ends_the_run(tmp_path):
    trainer = make_trainer(tmp_path, learning_rate=1e30)
    with pytest.raises(DivergedError, match="lower the optimizer's learning_rate"):
        trainer.train()
    assert not [name for name in checkpoints(tmp_path) if name.endswith(".index")]


def test_a_run_that_diverges_keeps_its_last_good_checkpoint(tmp_path):
    make_trainer(tmp_path, stop={"num_iterations": 3}).train()
    trainer = make_trainer(tmp_path, checkpoint_interval=0.0)
    trainer.optimizer.learning_rate = 1e30
    with pytest.raises(DivergedError, match="learning_rate.*; ckpt-4 has these weights and is set aside$"):
        trainer.train()
    assert make_trainer(tmp_path).counters["iterations"] == 3
    assert make_trainer(tmp_path, stop={"num_iterations": 5}).train() == (True, "num_iterations=5 reached")


def test_a_disk_that_is_full_for_a_while_does_not_end_the_run(tmp_path, monkeypatch, caplog):
    write = tf.train.Checkpoint.write
    errors = [OSError(errno.ENOSPC, "No space left"), tf.errors.ResourceExhaustedError(None, None, "full")]

    def fail_twice(*args):
        if errors:
            raise errors.pop()
        return write(*args)

    monkeypatch.setattr(tf.train.Checkpoint, "write", fail_twice)
    make_trainer(tmp_path, stop={"num_iterations": 5}, checkpoint_interval=0.0).train()
    assert [name for name in checkpoints(tmp_path) if name.endswith(".index")] == [
        f"ckpt-{n}.index" for n in (3, 4, 5)
    ]
    messages = [r.getMessage() for r in caplog.records if "no checkpoint was saved" in r.getMessage()]
    assert len(messages) == 2 and "full" in messages[0] and "No space left" in messages[1]


def test_an_error_of_tensorflow_is_said_without_its_graph(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path, stop={"num_iterations": 2})
    monkeypatch.setattr(tf.train.Checkpoint, "write", lambda *_: tf.io.read_file("/nope/mine"))
    with pytest.raises(SaveError, match="^no checkpoint was saved: /nope/mine; No such file or directory$"):
        trainer.train()


def test_a_disk_that_is_full_at_the_end_is_an_error(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left")

    made = []
    trainer = make_trainer(tmp_path, stop={"num_iterations": 2}, env={"made": made})
    monkeypatch.setattr(tf.train.Checkpoint, "write", fail)
    with pytest.raises(SaveError, match="no checkpoint was saved: .*No space left"):
        trainer.train()
    assert [env.closed for env in made] == [1, 1]
    assert read_done(tmp_path)["reason"].startswith("SaveError: no checkpoint was saved: ")


def test_summaries_that_cannot_be_written_are_a_warning(tmp_path, caplog):
    trainer = make_trainer(tmp_path, stop={"num_iterations": 5}, summary_interval=0.0)
    (tmp_path / "train").write_text("a file in place of the folder")
    assert trainer.train() == (True, "num_iterations=5 reached")
    (message,) = [r.getMessage() for r in caplog.records if "no summaries" in r.getMessage()]
    assert message.startswith(f"no summaries can be written to {tmp_path}/train: ")
    assert "ckpt-5.index" in checkpoints(tmp_path)


def test_a_full_disk_beneath_the_summaries(tmp_path, caplog):
    """The events' file must not grow beyond what it has: the write fails as on a full disk."""
    trainer = make_trainer(tmp_path, stop={"num_iterations": 40}, summary_interval=0.0)
    write, limits = trainer._checkpointer.save, resource.getrlimit(resource.RLIMIT_FSIZE)
    trainer._checkpointer.save = lambda **kw: (resource.setrlimit(resource.RLIMIT_FSIZE, limits), write(**kw))
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        assert trainer.train() == (True, "num_iterations=40 reached")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert "no summaries can be written" in caplog.text
    assert "ckpt-40.index" in checkpoints(tmp_path)


def test_a_second_run_in_the_directory_is_refused(tmp_path):
    made = []
    first = make_trainer(tmp_path, stop={"num_iterations": 2})
    with pytest.raises(ConfigError, match="is in use: another run writes there now"):
        make_trainer(tmp_path, env={"made": made})
    assert [env.closed for env in made] == [1, 1]
    first.train()
    with pytest.raises(EnvironmentError_):
        make_trainer(tmp_path, env={"special": fail}).train()
    make_trainer(tmp_path)  # both runs gave the directory back


def test_an_environment_that_cannot_be_closed_does_not_fail_a_run_that_is_saved(tmp_path, caplog):
    class Unclosable(Environment):
        def close(self):
            super().close()
            raise ValueError("the simulator has gone")

    made = []
    experiment = {"env_ctor": functools.partial(Unclosable, made)}
    trainer = make_trainer(tmp_path, stop={"num_iterations": 2}, experiment=experiment)
    assert trainer.train() == (True, "num_iterations=2 reached")
    assert [env.closed for env in made] == [1, 1]
    assert "the driver did not stop as it should" in caplog.text and "the simulator has gone" in caplog.text
    assert "ckpt-2.index" in checkpoints(tmp_path)


@pytest.mark.parametrize("driver", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.5, 1.0, 1.5, 2.0])
def test_interrupts_at_many_moments(tmp_path, driver, seconds):
    settings = {"driver_ctor": driver}
    if driver is AsyncOffPolicyDriver:
        settings["driver_ctor"] = functools.partial(driver, parameter_update_period=1)
    trainer = make_trainer(tmp_path, experiment=settings, checkpoint_interval=0.0)
    timer = threading.Timer(seconds, trainer.interrupt, ["enough"])
    timer.start()
    assert trainer.train() == (False, "enough")
    timer.join()
    assert f"ckpt-{trainer.counters['iterations']}.index" in checkpoints(tmp_path)
    assert make_trainer(tmp_path, experiment=settings).counters == trainer.counters


class Seeded(Environment):
    """Keeps the seeds that it gets, each a tuple of its constructor's and that of `seed`."""

    seeds = []

    def __init__(self, seed):
        super().__init__(seed=seed)

    def seed(self, seed):
        self.seeds.append((self.given_seed, seed))


@pytest.mark.parametrize("seed", [3, None])
def test_a_continued_run_has_other_seeds(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(Seeded, "seeds", [])
    context.context()._seed = None  # as in a new process
    drawn = []
    for _ in range(2):  # the second continuation is from the same checkpoint: it is the same
        drawn.append(draw_after_start(tmp_path, seed))
    make_trainer(tmp_path, stop={"num_iterations": 2}, experiment={"seed": seed}).train()
    del Seeded.seeds[:]
    for _ in range(2):
        drawn.append(draw_after_start(tmp_path, seed))
    make_trainer(tmp_path, stop={"num_iterations": 4}, experiment={"seed": seed}).train()
    drawn.append(draw_after_start(tmp_path, seed))
    if seed is None:
        assert not Seeded.seeds and len(set(drawn)) == 5
        return
    first, again, later = Seeded.seeds[:2], Seeded.seeds[2:4], Seeded.seeds[4:]
    assert first == again != later
    assert len({seed for _, seed in (*first, *later)} | {given for given, _ in first}) == 6
    assert drawn[0] == drawn[1] and drawn[2] == drawn[3] and len(set(drawn)) == 3


def draw_after_start(root_dir, seed):
    """Makes a trainer; returns the numbers that TensorFlow and NumPy draw next."""
    trainer = make_trainer(root_dir, experiment={"seed": seed, "env_ctor": Seeded})
    trainer._run_dir.close()
    return float(tf.random.normal(())), np.random.random()  # noqa: NPY002


def test_failures_while_building_close_the_environments_and_write_nothing(tmp_path):
    root_dir = tmp_path / "run"
    made = []

    def second_fails(seed):
        if made:
            raise ValueError("no licence left")
        return Environment(made)

    with pytest.raises(ValueError, match="no licence left"):
        make_trainer(root_dir, experiment={"env_ctor": second_fails})
    assert [env.closed for env in made] == [1]

    made.clear()
    with pytest.raises(ConfigError, match="unroll_length is 0"):
        make_trainer(root_dir, env={"made": made}, experiment={"unroll_length": 0})
    assert [env.closed for env in made] == [1, 1]

    made.clear()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written to"):
        make_trainer(tmp_path / "file" / "run", env={"made": made})
    assert [env.closed for env in made] == [1, 1]
    assert os.listdir(tmp_path) == ["file"]


def test_num_envs_is_checked(tmp_path):
    with pytest.raises(ConfigError, match="Experiment.num_envs is 0"):
        make_trainer(tmp_path, experiment={"num_envs": 0})


def test_each_environment_gets_a_seed_of_its_own(tmp_path):
    made = []
    make_trainer(tmp_path, env={"made": made}, experiment={"num_envs": 4, "seed": 7})
    seeds = [env.given_seed for env in made]
    assert len(set(seeds)) == 4
    assert seeds == seed_everything(7, 4)


def test_seeds():
    assert seed_everything(3, 5) == seed_everything(3, 5)
    # More environments do not change the seeds of the first ones.
    assert seed_everything(3, 5)[:2] == seed_everything(3, 2)
    assert not set(seed_everything(3, 5)) & set(seed_everything(4, 5))
    assert seed_everything(None, 3) != seed_everything(None, 3)
    assert all(isinstance(s, int) and 0 <= s < 2**31 for s in seed_everything(3, 100))
    seed_everything(3, 1)
    drawn = tf.random.normal(()).numpy()
    seed_everything(3, 1)
    assert tf.random.normal(()).numpy() == drawn


@pytest.mark.parametrize("num_iterations", [0, 5])
def test_weights_follow_from_the_seed(tmp_path, num_iterations):
    def train(name, seed):
        settings = {"seed": seed, "driver_ctor": SyncOffPolicyDriver}
        stop = {"num_iterations": num_iterations or None}
        trainer = make_trainer(tmp_path / name, stop=stop, experiment=settings)
        if num_iterations:
            trainer.train()
        return np.concatenate([np.ravel(w) for w in trainer.learner.algorithm.policy.trainable_variables])

    expected = train("a", 3)
    tf.keras.utils.set_random_seed(5)  # Keras then draws from another generator
    np.testing.assert_array_equal(train("b", 3), expected)
    assert (train("c", 3) != train("d", 4)).mean() > 0.5  # biases begin at 0
    assert (train("e", None) != train("f", None)).mean() > 0.5
