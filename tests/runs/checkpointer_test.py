# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a checkpoint brings back, and what is refused."""

import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm
from alf.core.nest_utils import to_tensor_spec
from alf.data_structures import Experience
from alf.errors import ConfigError, DivergedError, SaveError
from alf.learner import optimizers
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.policies.action_distributions import ActionInfo
from alf.runs import checkpoint_files as files
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.builders import (
    build_checkpointer,
    build_learner,
    build_offline_driver,
    variables_of,
    write_checkpoint,
)

SPECS = tuple(
    to_tensor_spec(s)
    for s in (
        MatchObservationEnvironment(1).observation_spec(),
        MatchObservationEnvironment(1).action_spec(),
    )
)


def make_driver(seed=0, units=8):
    """A driver that collects nothing, and its learner."""
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(units,), seed=seed)
    policy = ActorCriticPolicy(*SPECS, network=network)
    optimizer = optimizers.Adam(0.01)
    driver = build_offline_driver(build_learner(ImpalaAlgorithm(policy), optimizer, max_grad_norm=40.0))
    driver.optimizer = optimizer  # for `state`
    return driver


def train(driver, seed=0):
    rng = np.random.default_rng(seed)
    shape = (1, 4, 2)
    floats = lambda *more: tf.constant(rng.normal(size=(*shape, *more)), tf.float32)  # noqa: E731
    experience = Experience(
        step_type=tf.ones(shape, tf.int32),
        reward=floats(),
        discount=tf.ones(shape),
        observation=floats(3),
        prev_action=tf.zeros(shape, tf.int64),
        env_id=tf.zeros(shape, tf.int32),
        action=tf.constant(rng.integers(0, 3, shape)),
        info=ActionInfo(floats(3), tf.constant(rng.integers(0, 3, shape))),
        policy_version=tf.zeros(shape, tf.int64),
    )
    driver.learner.observe(experience)
    driver.learner.train()


def state(driver):
    """Every variable: weights, counters, then Adam's m and v of every weight."""
    own = variables_of(driver.optimizer)
    assert len(own) == 1 + 2 * len(driver.learner.trainable_variables)
    assert {*map(id, own)} < {*map(id, driver.learner.variables)}
    return [v.numpy() for v in driver.learner.variables]


def change(driver):
    """Stands for an update: moves every variable of the learner, also its counters, and Adam's."""
    for variable in driver.learner.variables:
        variable.assign_add(tf.ones_like(variable))


def metrics(driver):
    return {metric.name: metric for metric in driver.get_metrics()}


def copy_of(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path / name)
    return tmp_path / name


@pytest.fixture(scope="module")
def other():
    """A driver to restore into, whatever it holds."""
    return make_driver(seed=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the checkpoint 3, the driver that made it in three updates, and its state then."""
    folder, driver = tmp_path_factory.mktemp("trained"), make_driver(seed=0)
    saved = build_checkpointer(folder, driver)
    assert saved.restore() is None
    for seed in range(3):
        train(driver, seed)
    saved.counts.iterations = 3
    driver.learner.progress.env_steps.assign(77)
    metrics(driver)["NumberOfEpisodes"].set_state(5)
    metrics(driver)["AverageReturn"].set_state([1.0, 2.0, 3.5])
    assert saved.save() == str(folder / "ckpt-3")
    return folder, driver, state(driver)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A folder with the checkpoints 1 and 2, and the weights of 1."""
    folder, driver = tmp_path_factory.mktemp("two"), make_driver()
    save(folder, driver, 1)
    weights = [v.numpy() for v in driver.learner.trainable_variables]
    change(driver)
    save(folder, driver, 2)
    return folder, weights


def assert_same(xs, ys):
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_checkpoint_brings_everything_back(trained):
    folder, _, saved = trained
    other = make_driver(seed=1)
    restored = build_checkpointer(folder, other)
    assert restored.counts.iterations == other.learner.progress.env_steps == 0
    assert restored.restore() == str(folder / "ckpt-3")
    assert restored.counts.iterations == 3 and other.learner.progress.env_steps == 77
    assert metrics(other)["NumberOfEpisodes"].get_state() == 5
    assert metrics(other)["AverageReturn"].get_state() == [1.0, 2.0, 3.5]
    assert_same(saved, state(other))
    # Adam's iterations, m and v among them, and not zeros.
    assert other.learner.train_step_counter.numpy() == other.optimizer._step.numpy() == 3
    assert all(slot.any() for slot in state(other)[-8:])


def test_training_goes_on_in_the_same_way(trained):
    """Also where the optimizer's variables do not exist before the first update makes them in its graph."""
    folder, driver, saved = trained
    other = make_driver(seed=1)
    build_checkpointer(folder, other).restore()
    for each in (driver, other):
        train(each, 9)
    assert_same(state(driver), state(other))
    assert any(np.any(x != y) for x, y in zip(saved, state(other), strict=True))


def test_keeps_the_newest(tmp_path):
    checkpointer = build_checkpointer(tmp_path, make_driver(), max_to_keep=2)
    for iterations in (1, 5, 9, 9):
        checkpointer.counts.iterations = iterations
        checkpointer.save()
    assert sorted(os.listdir(tmp_path)) == ["ckpt-5", "ckpt-9"]
    assert build_checkpointer(tmp_path, make_driver()).restore().endswith("ckpt-9")


def test_a_checkpoint_of_another_network_is_refused(trained):
    driver = make_driver(units=9)
    before = [variable.numpy() for variable in driver.learner.variables]
    with pytest.raises(ConfigError, match="ckpt-3 does not fit this algorithm") as caught:
        build_checkpointer(trained[0], driver).restore()
    assert "policy/network/head/kernel is float32 [8, 3] there, float32 [9, 3] here" in str(caught.value)
    assert re.search(r" and \d+ more$", str(caught.value)) and len(str(caught.value)) < 1000
    assert_same(before, driver.learner.variables)


def test_a_variable_that_the_checkpoint_lacks(tmp_path):
    build_checkpointer(tmp_path, make_driver()).save()
    driver = make_driver()
    driver.learner.policy.extra = tf.Variable(1.0)
    with pytest.raises(ConfigError, match="/policy/extra is not in the checkpoint$"):
        build_checkpointer(tmp_path, driver).restore()
    driver.learner.extra = driver.learner.policy.network_again = driver.learner.policy._network
    del driver.learner.policy.extra
    build_checkpointer(tmp_path, driver).restore()  # other ways to variables that it has


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_not_saved(tmp_path, value):
    driver = make_driver()
    checkpointer = build_checkpointer(tmp_path, driver)
    before = checkpointer.save()
    variable = driver.learner.trainable_variables[0]
    variable.assign(tf.fill(variable.shape, value))
    checkpointer.counts.iterations = 1
    with pytest.raises(DivergedError, match="not finite, so no checkpoint was written"):
        checkpointer.save()
    assert os.listdir(tmp_path) == [os.path.basename(before)]


def test_a_checkpoint_that_is_not_finite_is_not_restored(tmp_path):
    driver, other, path = make_driver(), make_driver(seed=1), files.path_of(str(tmp_path), 3)
    variable = driver.learner.trainable_variables[0]
    variable.assign(tf.fill(variable.shape, np.nan))
    write_checkpoint(path, driver.learner)
    before = [variable.numpy() for variable in other.learner.variables]
    with pytest.raises(ConfigError, match="ckpt-3 does not fit this algorithm: [^;]* is not finite there$"):
        build_checkpointer(tmp_path, other).restore()
    assert_same(before, other.learner.variables)


def save(path, driver, iterations):
    checkpointer = build_checkpointer(path, driver)
    checkpointer.counts.iterations = iterations
    return checkpointer.save()


def test_the_newest_has_the_highest_number(tmp_path, other):
    driver = make_driver()
    for iterations in (3, 20, 100):  # "20" is not after "100"
        change(driver)
        save(tmp_path, driver, iterations)
    restored = build_checkpointer(tmp_path, other)
    assert restored.restore() == str(tmp_path / "ckpt-100")
    assert restored.counts.iterations == 100
    assert_same(driver.learner.variables, other.learner.variables)


def flip(path, position=-20):
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


DATA = "weights.data-00000-of-00001"
TRUNCATE = lambda path: os.truncate(path, os.path.getsize(path) - 1)  # noqa: E731
MISSING = "No such file|Failed to find any matching files"
DAMAGES = {
    "data truncated": (DATA, TRUNCATE, "Read less bytes than requested"),
    "data flipped": (DATA, flip, "Checksum does not match"),
    "data empty": (DATA, lambda path: path.write_bytes(b""), "Read less bytes than requested"),
    "data missing": (DATA, os.remove, MISSING),
    "index truncated": ("weights.index", lambda path: os.truncate(path, 10), "weights: .*short"),
    "index flipped": ("weights.index", lambda path: flip(path, 5), "checksum|corrupt"),
    "index missing": ("weights.index", os.remove, MISSING),
    "state flipped": ("state.json", lambda path: flip(path, -30), "checksum|delimiter|Expecting"),
    "another number": (
        "state.json",
        lambda path: path.write_text(path.read_text().replace('"iterations": 2', '"iterations": 3')),
        "state.json: it has another checksum",
    ),
    "state missing": ("state.json", os.remove, "No such file"),
    "state truncated": ("state.json", lambda path: os.truncate(path, 10), "Expecting"),
    "state of another kind": ("state.json", lambda path: path.write_text("[1]"), "state.json: list indices"),
    "state without its value": ("state.json", lambda path: path.write_text('{"crc32": 1}'), "state"),
    "not utf-8": ("state.json", lambda path: path.write_bytes(b"\xff"), "utf-8"),
    "all missing": ("", lambda path: [os.remove(x) for x in path.iterdir()], MISSING),
}


def test_a_damaged_checkpoint_is_skipped_and_named(tmp_path, two, other, caplog, subtests):
    folder, weights = two
    for number, (damage, (end, break_file, text)) in enumerate(DAMAGES.items()):
        path = copy_of(folder, tmp_path, str(number))
        break_file(path / "ckpt-2" / end)
        with subtests.test(msg=damage):
            caplog.clear()
            restored = build_checkpointer(path, other)
            assert restored.restore() == str(path / "ckpt-1")
            assert restored.counts.iterations == 1
            assert_same(weights, other.learner.trainable_variables)
            (message,) = [r.getMessage() for r in caplog.records if "ckpt-2" in r.getMessage()]
            assert message.startswith(f"the checkpoint {path}/ckpt-2 is damaged: ")
            assert message.endswith(f"; {path}/ckpt-1 is taken in its place")
            assert re.search(text, message)
            # The run replaces the damaged one when it comes to the same number.
            change(other)
            saved = [v.numpy() for v in other.learner.trainable_variables]
            restored.counts.iterations = 2
            restored.save()
            change(other)
            assert build_checkpointer(path, other).restore() == str(path / "ckpt-2")
            assert_same(saved, other.learner.trainable_variables)


def test_every_byte_of_a_checkpoint_is_checked(two, tmp_path, other):
    """Each byte that is wrong is found, or changes nothing."""
    folder, driver = copy_of(two[0], tmp_path, "flipped"), tf.train.Checkpoint(learner=other.learner)
    path = str(folder / "ckpt-2")
    read = lambda: (  # noqa: E731
        [(id(v), x.tobytes()) for v, x in files.read_variables(path, driver, "x")],
        files.read_state(path),
    )
    right, found = read(), 0
    for file in (folder / "ckpt-2").iterdir():
        content = file.read_bytes()
        for position in range(0, len(content), 41):
            flip(file, position)
            try:
                assert read() == right
            except ConfigError:
                found += 1
            file.write_bytes(content)
    assert found > 20 and read() == right


def test_each_value_is_read_once(two, tmp_path, other, monkeypatch):
    load, taken = tf.train.load_checkpoint, []

    class Reader:
        def __init__(self, path):
            self._reader = load(path)

        def __getattr__(self, name):
            return getattr(self._reader, name)

        def get_tensor(self, name):
            taken.append(name)
            return self._reader.get_tensor(name)

    monkeypatch.setattr(tf.train, "load_checkpoint", Reader)
    monkeypatch.setattr(tf.train.Checkpoint, "read", None)
    assert build_checkpointer(two[0], other).restore() == str(two[0] / "ckpt-2")
    assert len(taken) == len(set(taken)) == len(other.learner.variables) + 1  # and the names


def test_damaged_checkpoints_alone_are_an_error(tmp_path, two, other):
    folder = copy_of(two[0], tmp_path, "damaged")
    for iterations in (1, 2):
        flip(folder / f"ckpt-{iterations}" / DATA)
    before = contents(folder)
    with pytest.raises(ConfigError, match=r"ckpt-2 is damaged: .*; the checkpoint .*ckpt-1 is damaged"):
        build_checkpointer(folder, other).restore()
    assert contents(folder) == before


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_that_alf_did_not_write_stay(tmp_path, one):
    folder, driver = copy_of(one, tmp_path, "with others"), make_driver()
    others = [folder / name for name in ("notes.txt", "ckpt-0.index", "my-ckpt-1/weights.index", "ckpt-1b/a")]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"another's")
    checkpointer = build_checkpointer(folder, driver, max_to_keep=1)
    assert checkpointer.restore() == str(folder / "ckpt-1")
    checkpointer.counts.iterations = 2
    checkpointer.save()
    assert not (folder / "ckpt-1").exists() and all(path.exists() for path in others)


def test_a_damaged_newer_checkpoint_does_not_push_out_the_whole_ones(tmp_path, one, other):
    folder = copy_of(one, tmp_path, "run")
    save(folder, make_driver(), 9)
    flip(folder / "ckpt-9" / DATA)
    checkpointer = build_checkpointer(folder, other, max_to_keep=1)
    assert checkpointer.restore() == str(folder / "ckpt-1")
    checkpointer.counts.iterations = 2
    newest = checkpointer.save()
    assert os.listdir(folder) == ["ckpt-2"]
    assert build_checkpointer(folder, other).restore() == newest


CUT_OFF = {  # what there may be when the process is killed while it saves or removes, in the order of time
    "nothing": [],
    "empty": [".ckpt-2.abc_1234"],
    "parts": [".ckpt-2.abc_1234/new/weights_temp/part-00000-of-00001.data-00000-of-00001"],
    "weights": [f".ckpt-2.abc_1234/new/{DATA}", ".ckpt-2.abc_1234/new/weights.index"],
    "replaced": [".ckpt-2.abc_1234/old/weights.index", "ckpt-2"],
    "removed": [f".ckpt-0.abc_1234/removed/{DATA}"],
    "file": ["replay_buffer.npz.tmp"],
}


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A folder with the checkpoint 1."""
    folder = tmp_path_factory.mktemp("one")
    save(folder, make_driver(), 1)
    return folder


def test_a_checkpoint_that_was_cut_off_is_no_checkpoint(tmp_path, one, other, subtests):
    for (cut_off, left), next_number in itertools.product(CUT_OFF.items(), (2, 3)):
        folder = copy_of(one, tmp_path, f"{cut_off} {next_number}")
        for name in left:
            if name == "ckpt-2":
                shutil.copytree(folder / "ckpt-1", folder / name)
                continue
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            (folder / name).write_bytes(b"half of")
        whole = 2 if "ckpt-2" in left else 1
        for kept in ("best", "evaluated"):
            (folder / kept / ".ckpt-2.abc_1234" / "new").mkdir(parents=True)
        with subtests.test(msg=folder.name):
            restored = build_checkpointer(folder, other)
            assert restored.restore() == str(folder / f"ckpt-{whole}")
            names = {f"ckpt-{n}" for n in range(1, whole + 1)} | {"best", "evaluated"}
            empty = [".ckpt-2.abc_1234"] if cut_off == "empty" else []  # a file, which is nobody's
            assert sorted(os.listdir(folder)) == sorted({*names, *empty})
            assert not os.listdir(folder / "best") and not os.listdir(folder / "evaluated")
            restored.counts.iterations = next_number
            newest = restored.save()
            assert newest == str(folder / f"ckpt-{next_number}")
            assert build_checkpointer(folder, other).restore() == newest


def test_a_folder_whose_replacement_was_cut_off_comes_back(tmp_path, one, other):
    folder = copy_of(one, tmp_path, "run")
    (folder / ".ckpt-1.abc_1234" / "new").mkdir(parents=True)
    (folder / "ckpt-1").rename(folder / ".ckpt-1.abc_1234" / "old")
    assert build_checkpointer(folder, other).restore() == str(folder / "ckpt-1")
    assert os.listdir(folder) == ["ckpt-1"]


OPERATIONS = ("replace", "rename", "remove", "unlink", "rmdir", "mkdir", "fsync", "link")


@pytest.mark.parametrize("again", [False, True], ids=["new", "again"])
def test_every_moment_at_which_a_save_may_be_cut_off(tmp_path, monkeypatch, other, again):
    """Each file operation of Python in a save fails in turn, and so do all after it, as after a kill.

    Args:
        again: whether the save replaces a checkpoint of the same number, in which no byte is wrong.
    """
    driver = make_driver()
    newest = save(tmp_path, driver, 1)
    kept = {newest: weights_of(driver)}
    for fails_at in range(200):
        change(driver)
        path = str(tmp_path / f"ckpt-{2 if again else 2 + fails_at}")
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            calls = []
            for name in OPERATIONS:
                patch.setattr(os, name, functools.partial(_count, calls, getattr(os, name), fails_at))
            assert save(tmp_path, driver, int(path.rpartition("-")[2])) == path
        before = kept.get(path)
        assert build_checkpointer(tmp_path, other).restore() in (newest, path)
        found = os.path.join(tmp_path, f"ckpt-{files.list_numbers(str(tmp_path))[-1]}")
        if found == path and before is None or not same(before or [], weights_of(other)):
            kept[path] = weights_of(driver)
        newest = found
        assert same(kept[newest], weights_of(other))
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
        if len(calls) <= fails_at:
            break
    assert 8 <= fails_at < 199 and newest == path and same(weights_of(driver), weights_of(other))


def weights_of(driver):
    return [v.numpy() for v in driver.learner.trainable_variables]


def same(xs, ys):
    return len(xs) == len(ys) and all(np.array_equal(x, y) for x, y in zip(xs, ys, strict=True))


def test_everything_is_on_the_disk_before_the_folder_gets_its_name(tmp_path, monkeypatch):
    synced, fsync, rename = [], os.fsync, os.rename

    def note_fsync(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def check(source, target):
        assert target == str(tmp_path / "run" / "ckpt-2")
        files_of = {os.path.join(source, name) for name in os.listdir(source)}
        assert len(files_of) == 3 and files_of | {source} == set(synced)
        synced.clear()
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", check)
    save(tmp_path / "run", make_driver(), 2)
    assert synced == [str(tmp_path / "run")], "the folder's name is on the disk, too"


class Killed(BaseException):
    pass


def _count(calls, function, fails_at, *args, **kwargs):
    calls.append(function)
    if len(calls) > fails_at:
        raise Killed
    return function(*args, **kwargs)


def test_a_checkpoint_of_the_same_state_is_not_written_again(trained, other):
    folder = trained[0]
    before = {name: os.stat(folder / name) for name in os.listdir(folder)}
    again = build_checkpointer(folder, other)
    again.restore()
    assert again.save() == str(folder / "ckpt-3")
    after = {name: os.stat(folder / name) for name in os.listdir(folder)}
    assert {k: (v.st_ino, v.st_mtime_ns) for k, v in after.items()} == {
        k: (v.st_ino, v.st_mtime_ns) for k, v in before.items()
    }


def test_a_save_before_the_first_update_keeps_the_state_of_the_optimizer(tmp_path, trained):
    folder, (fresh, third) = copy_of(trained[0], tmp_path, "run"), (make_driver(seed=1), make_driver(seed=2))
    again = build_checkpointer(folder, fresh)
    again.restore()
    again.counts.iterations = 4  # experience was collected, no update was due
    again.save()
    assert build_checkpointer(folder, third).restore() == str(folder / "ckpt-4")
    assert_same(trained[2], state(third))


def test_statistics_that_are_not_finite_are_not_saved(tmp_path):
    driver = make_driver()
    driver.learner.statistics = tf.Variable([1.0, np.nan], trainable=False, name="statistics")
    with pytest.raises(DivergedError, match="statistics.* is not finite, so no checkpoint was written"):
        build_checkpointer(tmp_path, driver).save()
    assert os.listdir(tmp_path) == []


def test_checkpoints_of_weights_that_diverged_are_set_aside(tmp_path):
    driver = make_driver()
    checkpointer = build_checkpointer(tmp_path, driver)
    for iterations in (1, 2):
        change(driver)
        checkpointer.counts.iterations = iterations
        checkpointer.save()
    assert checkpointer.discard_diverged() == "; ckpt-2 has these weights and is set aside"
    assert sorted(os.listdir(tmp_path)) == ["ckpt-1", "ckpt-2.diverged"]
    again = build_checkpointer(tmp_path, driver)
    assert again.restore() == str(tmp_path / "ckpt-1")
    assert driver.learner.progress.updates == 1
    change(driver)
    change(driver)  # no checkpoint has these weights
    assert again.discard_diverged() == ""
    for iterations in (3, 4, 5, 6):
        again.counts.iterations = iterations
        again.save()
    assert sorted(os.listdir(tmp_path)) == ["ckpt-4", "ckpt-5", "ckpt-6"]


class Replayer:
    """A replayer that is slow to save, until `written` is set, or fails with an error."""

    name = "slow"

    def __init__(self):
        self.written, self.error, self.paths = threading.Event(), None, []

    def save(self, path, compress):
        assert self.written.wait(60.0)
        self.paths.append(path)
        if self.error is not None:
            raise self.error

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


def make_saver(path):
    driver = make_driver()
    driver.learner.replayer = Replayer()
    return build_checkpointer(path, driver, saves_replay_buffer=True), driver.learner.replayer


def test_a_slow_replay_buffer_does_not_delay_the_weights(tmp_path, caplog):
    checkpointer, replayer = make_saver(tmp_path)
    for iterations in (1, 2):
        checkpointer.counts.iterations = iterations
        assert checkpointer.save() == str(tmp_path / f"ckpt-{iterations}")
        assert (tmp_path / f"ckpt-{iterations}").exists()
    assert "is still being written" in caplog.text
    checkpointer.counts.iterations = 3
    checkpointer.save(is_last=True)  # the buffer of now is written after the one before
    assert (tmp_path / "ckpt-3").exists() and not replayer.paths
    replayer.written.set()
    checkpointer.wait_for_replay_buffer()
    assert replayer.paths == [str(tmp_path / "replay_buffer.npz")] * 2


def test_a_replay_buffer_that_cannot_be_written_does_not_keep_the_weights_from_it(tmp_path, caplog):
    checkpointer, replayer = make_saver(tmp_path)
    replayer.written.set()
    replayer.error = OSError("no space left")
    for iterations in (1, 2):
        checkpointer.counts.iterations = iterations
        checkpointer.save()
        with pytest.raises(SaveError, match="the replay buffer could not be saved: no space left"):
            checkpointer.wait_for_replay_buffer()
    assert "could not be saved: OSError('no space left')" in caplog.text
    assert (tmp_path / "ckpt-2").exists()
    replayer.error = None
    checkpointer.save()
    checkpointer.wait_for_replay_buffer()


def test_what_a_checkpoint_holds(trained):
    path = str(trained[0] / "ckpt-3")
    assert sorted(os.listdir(path)) == ["state.json", DATA, "weights.index"]
    with open(f"{path}/state.json") as file:
        state = json.load(file)["state"]
    assert (state["iterations"], state["updates"]) == (3, 3)
    assert tf.train.load_checkpoint(f"{path}/weights").get_variable_to_shape_map()
