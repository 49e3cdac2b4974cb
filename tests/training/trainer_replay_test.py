# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trainer with a replay buffer: its file in the checkpoint, runs without environments, mixed batches.

Drivers and replay buffers are real. Updates are counted alone, except where a test says that it learns.
"""

import functools
import glob
import math
import os
import re
import shutil
import threading
import time
import zipfile
from fractions import Fraction

import gin
import numpy as np
import pytest

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm
from alf.data_structures import count_transitions
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError, StallError
from alf.learner import ReplayLearner, UnrollLearner, optimizers
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy
from alf.replay import HybridReplayer, UniformReplayer
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Experiment
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_trainer, collect_and_observe, driver_of
from tests.training.counting_parts import CountingReplayLearner, WeightDecay
from tests.training.event_files import read_events


class Decaying(WeightDecay, ImpalaAlgorithm):
    pass


UNROLLS = dict(replayer="one_time", policy=ActorCriticPolicy, algorithm=Decaying, learner=UnrollLearner)


def make_env(seed):
    return MatchObservationEnvironment(4, episode_length=5, seed=seed)


def make_trainer(
    root_dir,
    stop=None,
    replayer="uniform",
    policy=EpsilonGreedyPolicy,
    algorithm=DqnAlgorithm,
    num_groups=2,
    num_envs=None,
    offline_buffer=None,
    unroll_length=5,
    driver=SyncOffPolicyDriver,
    offline_buffer_length=None,
    learner=CountingReplayLearner,
    **kwargs,
):
    optimizer = optimizers.Adam(1e-3)
    experiment = Experiment(
        make_env,
        num_groups,
        num_envs,
        policy=policy,
        algorithm=algorithm,
        exp_replayer=replayer,
        offline_buffer=offline_buffer,
        offline_buffer_length=offline_buffer_length,
        learner=functools.partial(learner, optimizer=optimizer),
        driver=driver,
        unroll_length=unroll_length,
        seed=0,
    )
    stop_criteria = lambda: StopCriteria(**(stop or {"num_iterations": 4}))  # noqa: E731
    kwargs = {"save_git_state": False, **kwargs}
    return build_trainer(str(root_dir), driver_of(experiment), stop_criteria, **kwargs)


def run(*args, **kwargs):
    trainer = make_trainer(*args, **kwargs)
    trainer.train()
    return trainer


def buffer_file(root_dir):
    return str(root_dir / "checkpoints" / "replay_buffer.npz")


HELD = 4 * 2 * 5 * 4  # rows of 4 train iterations


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The directory of a run of 4 iterations whose checkpoint holds the replay buffer."""
    root_dir = tmp_path_factory.mktemp("saved")
    trainer = run(root_dir, checkpoint_replay_buffer=True)
    assert trainer.learner.replayer.num_steps() == HELD
    gin.clear_config()  # it was locked
    return root_dir


@pytest.fixture
def copied(tmp_path, saved):
    """A copy of that directory."""
    return shutil.copytree(saved, tmp_path / "copied")


@pytest.fixture
def recorded(copied):
    """The file of its replay buffer."""
    return buffer_file(copied)


def test_a_checkpoint_holds_the_buffer_and_a_run_continues_with_it(copied):
    again = make_trainer(copied, stop={"num_iterations": 6}, checkpoint_replay_buffer=True)
    assert again.counters["iterations"] == 4 and again.learner.replayer.num_steps() == HELD
    again.train()
    assert again.learner.replayer.num_steps() == HELD + 2 * 2 * 5 * 4
    with np.load(buffer_file(copied)) as file:
        assert file["observation"].dtype == np.float32
        np.testing.assert_array_equal(file["end"] - file["begin"], [6 * 5 + 1, 6 * 5 + 1])


def test_a_fraction_as_unroll_length(tmp_path):
    trainer = run(tmp_path, unroll_length=2.5)
    assert trainer.learner.replayer.num_steps() == (2 + 3 + 2 + 3) * 2 * 4
    assert trainer.learner.replayer.unroll_length == 1


def test_a_compressed_buffer_is_a_setting(tmp_path):
    run(tmp_path, checkpoint_replay_buffer="compressed")
    with zipfile.ZipFile(buffer_file(tmp_path)) as file:
        compressed = {info.filename for info in file.infolist() if info.compress_type != zipfile.ZIP_STORED}
        assert {"step_type.npy", "action.npy", "prev_action.npy", "policy_version.npy"} == compressed
    again = make_trainer(tmp_path, {"num_iterations": 6}, checkpoint_replay_buffer="compressed")
    assert again.learner.replayer.num_steps() == HELD
    for value in ("zip", 1, None):
        with pytest.raises(ConfigError, match=f"is {value!r}: it must be True or False or 'compressed'"):
            make_trainer(tmp_path / "other", checkpoint_replay_buffer=value)


def test_a_buffer_is_written_while_training_goes_on(tmp_path, monkeypatch):
    save = UniformReplayer.save
    observed = []
    at_start, at_end = [], []

    def slow_save(self, path, compress):
        at_start.append(len(observed))
        deadline = time.monotonic() + 60
        while len(observed) < min(at_start[-1] + 5, 8) and time.monotonic() < deadline:
            time.sleep(0.01)
        save(self, path, compress)
        at_end.append(len(observed))

    monkeypatch.setattr(UniformReplayer, "save", slow_save)
    trainer = make_trainer(
        tmp_path, {"num_iterations": 8}, checkpoint_replay_buffer=True, checkpoint_interval=0.0
    )
    observe = trainer.learner.observe
    trainer.learner.observe = lambda e: (observed.append(e), observe(e))
    trainer.train()
    assert at_end[0] - at_start[0] >= 5
    assert at_end[-1] == 8, "the last one is complete when the run ends"


WRONG = [
    (
        dict(checkpoint_replay_buffer=True, **UNROLLS),
        "replay_buffer is True, but exp_replayer is 'one_time'",
    ),
    (dict(num_envs=0), "Experiment.num_envs is 0: .*offline_buffer.*num_collectors"),
    (dict(offline_buffer_length=3), "Experiment.offline_buffer_length is set, but offline_buffer is"),
    (dict(offline_buffer="x", offline_buffer_length=0), "Experiment.offline_buffer_length is 0: it must be"),
]


@pytest.mark.parametrize("settings, message", WRONG)
def test_what_cannot_train_is_refused(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        make_trainer(tmp_path, **settings)


def test_an_error_of_the_writing_thread_ends_the_run(tmp_path, monkeypatch):
    def fail(self, path, compress):
        raise OSError("no space left")

    monkeypatch.setattr(UniformReplayer, "save", fail)
    with pytest.raises(OSError, match="no space left"):
        run(tmp_path, checkpoint_replay_buffer=True)


def test_a_run_that_fails_waits_until_its_buffer_is_written(tmp_path, monkeypatch):
    trainer, is_awaited = make_trainer(tmp_path, checkpoint_replay_buffer=True), threading.Event()
    checkpointer, collect, save = (
        trainer.checkpoints.checkpointer,
        trainer.driver.collect,
        UniformReplayer.save,
    )
    wait = checkpointer.wait_for_replay_buffer

    def collect_or_fail():
        if trainer.counters["iterations"] == 2:
            raise StallError("an environment hangs")
        return collect()

    def save_late(self, path, compress):
        is_awaited.wait(60)
        save(self, path, compress)

    trainer.driver.collect = collect_or_fail
    checkpointer.wait_for_replay_buffer = lambda: (is_awaited.set(), wait())
    monkeypatch.setattr(UniformReplayer, "save", save_late)
    try:
        with pytest.raises(StallError, match="^an environment hangs$"):
            trainer.train()
        assert os.path.exists(buffer_file(tmp_path))
    finally:
        is_awaited.set()


def copy_file(path):
    """Copies a file to "other.npz" in the same folder; returns a pattern of that."""
    other = os.path.join(os.path.dirname(path), "other")
    shutil.copy(path, f"{other}.npz")
    return f"{other}*"


def test_it_learns_without_an_environment_from_files(tmp_path, recorded, monkeypatch):
    monkeypatch.setitem(globals(), "make_env", pytest.fail)  # it must not be called
    files = dict(offline_buffer=[recorded, copy_file(recorded)], offline_buffer_length=7)
    trainer = make_trainer(tmp_path / "offline", num_envs=0, learner=ReplayLearner, **files)
    before = [v.numpy() for v in trainer.learner.trainable_variables]
    trainer.train()
    assert trainer.counters == {"iterations": 4, "env_steps": 0}
    assert trainer.learner.train_step_counter == 4
    after = trainer.learner.trainable_variables
    assert all(np.any(x != y.numpy()) for x, y in zip(before, after, strict=True))


def test_what_needs_fresh_experience_is_refused_without_environments(tmp_path, recorded):
    offline = dict(num_envs=0, offline_buffer=recorded)
    gin.clear_config()
    gin.parse_config("Experiment.data_transformers = (@ObservationNormalizer,)")
    with pytest.raises(ConfigError, match="Experiment.num_envs is 0: data transformers that learn"):
        make_trainer(tmp_path / "offline", **offline)
    gin.clear_config()
    gin.parse_config("ReplayLearner.clear_replay_buffer = True")
    with pytest.raises(ConfigError, match="num_envs is 0: .*clear_replay_buffer must be False"):
        make_trainer(tmp_path / "offline", **offline)
    assert not (tmp_path / "offline").exists()


def test_training_from_a_file_and_fresh_experience(tmp_path, recorded):
    trainer = run(tmp_path / "hybrid", offline_buffer=recorded)
    assert isinstance(trainer.learner.replayer, HybridReplayer)
    assert trainer.counters["env_steps"] > 0
    assert trainer.learner.train_step_counter > 0


@pytest.mark.parametrize("num_envs", [0, None])
@pytest.mark.parametrize("length, held", [(None, 20), (7, 7)])
def test_several_files(tmp_path, recorded, num_envs, length, held):
    trainer = make_trainer(
        tmp_path / "run",
        num_envs=num_envs,
        offline_buffer=[recorded, copy_file(recorded)],
        offline_buffer_length=length,
    )
    replayer = trainer.learner.replayer
    offline = replayer.offline if num_envs is None else replayer
    assert offline.num_steps() == 2 * 2 * 4 * held  # files, environments, sub-environments


@pytest.mark.parametrize("num_envs", [0, None])
def test_a_damaged_file(tmp_path, recorded, num_envs):
    with open(recorded, "rb") as file:
        content = file.read()
    with open(recorded, "wb") as file:
        file.write(content[: len(content) // 2])
    with pytest.raises(ConfigError, match="replay_buffer.npz"):
        make_trainer(tmp_path / "offline", num_envs=num_envs, offline_buffer=recorded)
    assert not (tmp_path / "offline").exists()


def test_several_batches_for_each_training(tmp_path):
    trainer = make_trainer(tmp_path, batches_per_train_iter=3, **UNROLLS)
    seen = []
    trainer.learner.algorithm.after_train_iter = lambda experience: seen.append(experience.reward.shape)
    trainer.train()
    assert seen == [(6, 6, 4)] * 4  # 3 batches of 2 unrolls
    assert trainer.learner.train_step_counter == 4
    with pytest.raises(ConfigError, match="batches_per_train_iter is 0"):
        make_trainer(tmp_path / "other", batches_per_train_iter=0, **UNROLLS)


@pytest.mark.parametrize("driver", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_minibatches_split_all_batches_of_a_train_iteration(tmp_path, driver):
    """An unroll of 5 steps of 4 environments: one alone has no 3 minibatches, 3 have."""
    settings = dict(num_groups=1, driver=driver, **UNROLLS)
    gin.parse_config("UnrollLearner.num_minibatches = 3")
    with pytest.raises(ConfigError, match="UnrollLearner.num_minibatches is 3: .* 1 unrolls .* = 4;"):
        make_trainer(tmp_path / "refused", **settings)
    assert not (tmp_path / "refused").exists()
    trainer = make_trainer(tmp_path, batches_per_train_iter=3, **settings)
    trainer.train()
    assert trainer.learner.train_step_counter == 4 * 3
    assert trainer.counters["env_steps"] > 0


def test_what_a_cyclic_replayer_drops_is_counted_and_shown(tmp_path, caplog):
    gin.parse_config("CyclicOneTimeReplayer.max_unrolls = 3")
    kwargs = {**UNROLLS, "replayer": "cyclic_one_time", "batches_per_train_iter": 4}  # of 2 unrolls
    dropped, collected = [], 0
    for stop in ({"num_iterations": 3}, {"num_iterations": 5}):  # the second run continues the first
        trainer = make_trainer(tmp_path, stop, **kwargs)
        collect, taken = trainer.driver.collect, []
        trainer.driver.collect = lambda collect=collect, taken=taken: taken.append(collect()) or taken[-1]
        with caplog.at_level("INFO", "absl"):
            trainer.train()
        collected += sum(int(count_transitions(x.step_type)) for batches in taken for x in batches)
        dropped.append(trainer.learner.replayer.num_dropped_steps)
        # Nothing waits after a train iteration.
        assert collected == trainer.counters["env_steps"] + dropped[-1]
    assert 0 < dropped[0] < dropped[1]
    assert [value for _, value in read_events(tmp_path / "train")["replay/dropped_steps"]][-1] == dropped[1]
    row = f"dropped steps +{dropped[1] - dropped[0]:,} +{dropped[1]:,}"
    assert re.search(row, caplog.text), caplog.text


def test_waiting_steps_are_neither_trained_nor_dropped(tmp_path):
    gin.parse_config("CyclicOneTimeReplayer.max_unrolls = 3")
    trainer = make_trainer(tmp_path, **{**UNROLLS, "replayer": "cyclic_one_time"})
    driver, learner, replayer = trainer.driver, trainer.learner, trainer.learner.replayer
    driver.start()
    collected = sum(collect_and_observe(driver) for _ in range(3))
    waiting, _ = replayer.replay_all()
    assert collected == int(count_transitions(waiting.step_type)) + replayer.num_dropped_steps
    replayer.observe(waiting)
    learner.train()
    assert collected == learner.progress.env_steps + replayer.num_dropped_steps
    driver.stop()


@pytest.mark.parametrize("saves_buffer", [True, False])
def test_a_run_continues_with_the_fraction_of_an_update_that_is_due(tmp_path, saves_buffer):
    gin.parse_config("ReplayLearner.replay_ratio = 0.03")
    first = run(tmp_path, {"num_iterations": 5}, checkpoint_replay_buffer=saves_buffer)
    state = first.learner.get_state()
    assert state["credit"] != [0, 1], "a fraction is due"
    again = make_trainer(tmp_path, {"num_iterations": 9}, checkpoint_replay_buffer=saves_buffer)
    assert again.learner.get_state() == state
    assert again.counters == first.counters
    again.train()
    start_steps, start_updates = again.learner.get_state()["start"]
    steps = again.counters["env_steps"] - start_steps
    updates = int(again.learner.train_step_counter) - start_updates
    assert updates == again.learner.train_step_counter == math.floor(Fraction("0.03") * steps)
    # The steps before the first update do not count, nor do those that fill a new buffer.
    fresh = again.counters["env_steps"] - steps
    assert 0 < fresh <= (1 if saves_buffer else 2) * 40


def test_without_the_buffer_the_initial_steps_are_collected_again(tmp_path, caplog):
    gin.parse_config("ReplayLearner.initial_collect_steps = 100")  # 40 rows in each iteration
    first = run(tmp_path, {"num_iterations": 6})
    assert not glob.glob(buffer_file(tmp_path) + "*"), "a checkpoint holds it if that was asked for"
    updates = int(first.learner.train_step_counter)
    assert updates > 0 and "no update was made" not in caplog.text
    again = run(tmp_path, {"num_iterations": 8})
    assert again.learner.train_step_counter == updates
    third = run(tmp_path, {"num_iterations": 12})
    assert third.learner.train_step_counter > updates


def test_a_run_without_an_update_is_in_the_log(tmp_path, caplog):
    gin.parse_config("ReplayLearner.initial_collect_steps = 100")  # 40 rows in each iteration
    trainer = run(tmp_path, {"num_iterations": 2})
    assert "no update was made in this run: " in caplog.text and "League" in caplog.text
    assert trainer.learner.train_step_counter == 0


def test_a_run_that_is_interrupted_early_lacks_no_experience(tmp_path, caplog):
    trainer = make_trainer(tmp_path)
    trainer.interrupt("stopped")
    assert trainer.train() == (False, "stopped") and "no update was made" not in caplog.text


def test_a_buffer_file_that_was_removed_is_in_the_log(copied, caplog):
    os.remove(buffer_file(copied))
    again = make_trainer(copied, {"num_iterations": 6}, checkpoint_replay_buffer=True)
    assert f"there is no {buffer_file(copied)}: the replay buffer is empty" in caplog.text
    assert again.counters["iterations"] == 4 and again.learner.replayer.num_steps() == 0
    again.train()


def test_a_damaged_buffer_file_says_how_to_go_on(copied):
    os.truncate(buffer_file(copied), 1000)
    with pytest.raises(ConfigError, match="replay_buffer.npz.*; remove the file to continue with an empty"):
        make_trainer(copied, checkpoint_replay_buffer=True)
    os.remove(buffer_file(copied))
    assert make_trainer(copied, checkpoint_replay_buffer=True).counters["iterations"] == 4
