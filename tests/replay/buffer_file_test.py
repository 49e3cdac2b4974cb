# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Files of replay buffers: every file is complete or refused, and saving does not disturb a writer."""

import contextlib
import json
import os
import shutil
import threading
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from alf.core.nest_utils import BoundedTensorSpec
from alf.errors import ConfigError
from alf.replay import (
    PrioritizedReplayer,
    UniformReplayer,
    buffer_archive,
    buffer_file,
    load_replayer,
)
from alf.testing.fakes import assert_equal_nests
from tests.replay.buffers import change_header, everything, make, rewrite

pytestmark = pytest.mark.usefixtures("without_graphs")


@pytest.fixture
def with_graphs():
    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(True)


@pytest.mark.parametrize("recurrent", [False, True])
def test_what_was_saved_is_loaded(recurrent, path):
    replayer, streams = make(recurrent=recurrent)
    other, others_streams = make(recurrent=recurrent)
    other.observe(others_streams.next_unrolls([1]))
    for rounds in (0, 1, 4):
        for _ in range(rounds):
            replayer.observe(streams.next_unrolls([0, 1, 0]))
        replayer.save(path)
        for _ in range(2):
            other.load(path)
            assert other.num_steps() == replayer.num_steps()
            assert other.num_sequences(3) == replayer.num_sequences(3)
            if rounds:
                assert_equal_nests(everything(other), everything(replayer))
    unrolls = streams.next_unrolls([0, 1, 0])
    for buffer in (replayer, other):
        buffer.observe(unrolls)
    assert_equal_nests(everything(other), everything(replayer))


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_compressed_file_has_the_same_content(recurrent, path):
    replayer, streams = make(recurrent=recurrent, capacity=2000)
    for _ in range(10):
        replayer.observe(streams.next_unrolls([0, 1, 0]))
    replayer.save(path)
    size = os.path.getsize(path)
    replayer.save(path, compress=True)
    assert os.path.getsize(path) < 0.8 * size
    with zipfile.ZipFile(path) as file:
        types = {info.filename.removesuffix(".npy"): info.compress_type for info in file.infolist()}
    deflated = {name for name, kind in types.items() if kind == zipfile.ZIP_DEFLATED}
    assert {"observation/image", "observation/flags/0", "step_type", "action"} <= deflated
    assert not deflated & {"reward", "discount", "info/logits", "state/h", "begin", "end", "header"}
    other, _ = make(recurrent=recurrent, capacity=2000)
    other.load(path)
    assert_equal_nests(everything(other), everything(replayer))
    with np.load(path) as file:
        assert file["observation/image"].dtype == np.uint8
    flip(path, os.path.getsize(path) // 2)
    with pytest.raises(ConfigError, match="damaged|cannot be read"):
        other.load(path)


def by_order(replayer):
    """Priorities of the sequences that may be drawn, by environment, column and age."""
    rows = np.flatnonzero(replayer._tree.numbers())
    sequences = replayer.sequences_at(tf.constant(rows, tf.int64))
    order = np.lexsort((sequences.start, sequences.column, sequences.env))
    return replayer._tree.numbers().numpy()[rows][order]


@pytest.mark.parametrize("length", [1, 3])
def test_priorities_are_kept(length, path):
    replayer, streams = make(PrioritizedReplayer)
    replayer.observe(streams.next_unrolls([0, 1, 0, 0, 0, 0, 0, 0]))  # the first one is overwritten in part
    replayer.sample(1, length, None)
    sequences = replayer.all_sequences(1)
    replayer.update_priorities(sequences, tf.range(2.0, 2.0 + sequences.start.shape[0]))
    replayer.save(path)
    expected = by_order(replayer)
    assert len(set(expected)) == len(expected) > 10
    other, streams = make(PrioritizedReplayer)
    other.observe(streams.next_unrolls([1, 1, 0]))
    other.load(path)
    other.sample(1, length, None)
    np.testing.assert_array_equal(by_order(other), expected)
    assert other._largest == expected.max() == replayer._largest
    load_replayer(path)


def test_what_comes_without_priorities_has_the_largest(path):
    uniform, streams = make()
    uniform.observe(streams.next_unrolls([0, 1, 0]))
    uniform.save(path)
    replayer, streams = make(PrioritizedReplayer)
    replayer.observe(streams.next_unrolls([0, 1, 0]))
    replayer.update_priorities(replayer.all_sequences(1), tf.range(2.0, 20.0))
    replayer.load(path)
    numbers = replayer._tree.numbers().numpy()
    np.testing.assert_array_equal(numbers[numbers > 0], np.full(18, replayer._largest))
    tf.random.set_seed(1)
    _, sequences, _ = replayer.sample(1000, 1, None)
    assert len(set(zip(*(x.numpy() for x in sequences)))) == 18


@pytest.mark.parametrize("num_unrolls", [1, 8])
def test_what_was_drawn_before_a_load_names_nothing_new(num_unrolls, path):
    replayer, streams = make(PrioritizedReplayer)
    replayer.observe(streams.next_unrolls([0, 1] * num_unrolls))
    replayer.save(path)
    drawn = replayer.all_sequences(1)
    replayer.load(path)
    expected, priorities = by_order(replayer), tf.fill(drawn.start.shape, 50.0)
    replayer.update_priorities(drawn, priorities)
    np.testing.assert_array_equal(by_order(replayer), expected)
    replayer.update_priorities(replayer.all_sequences(1), priorities)
    assert by_order(replayer).max() > expected.max()


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_smaller_buffer_keeps_the_newest(recurrent, path):
    replayer, streams = make(recurrent=recurrent, capacity=200)
    replayer.observe(streams.next_unrolls([0, 1, 0, 0]))
    replayer.save(path)
    small, streams = make(recurrent=recurrent, capacity=4 * 5)
    small.load(path)
    small.save(path)
    expected, streams = make(recurrent=recurrent, capacity=4 * 5)
    expected.observe(streams.next_unrolls([0, 1, 0, 0]))
    assert_equal_nests(everything(small), everything(expected))
    large, _ = make(recurrent=recurrent, capacity=200)
    large.load(path)
    assert_equal_nests(everything(large), everything(expected))


def test_numpy_reads_it(path):
    replayer, streams = make(recurrent=True)
    replayer.observe(streams.next_unrolls([0, 0, 0, 0, 0, 1]))
    replayer.save(path)
    with np.load(path) as arrays:
        header = json.loads(arrays["header"].item())
        assert header["format"] == "ALF replay buffer" and header["version"] == 1
        assert (header["num_groups"], header["batch_size"], header["unroll_length"]) == (2, 2, 3)
        for env, (begin, end) in enumerate([(3, 15), (0, 3)]):
            rows = slice(arrays["begin"][env], arrays["end"][env])
            count = end - begin
            expected = streams.sequences([env, env], [0, 1], [begin, begin], 0, count)
            np.testing.assert_array_equal(arrays["observation/image"][rows], expected.observation["image"])
            np.testing.assert_array_equal(
                arrays["observation/flags/0"][rows], expected.observation["flags"][0]
            )
            np.testing.assert_array_equal(arrays["info/logits"][rows], expected.info["logits"])
            np.testing.assert_array_equal(arrays["prev_action"][rows], expected.prev_action)
            states = arrays["state/h"][arrays["state_begin"][env] : arrays["state_end"][env]]
            starts = range(begin, end, 3)
            for start, state in zip(starts, states, strict=True):
                entered = streams.sequences([env, env], [0, 1], [start] * 2, 0, 0).state.train["h"]
                np.testing.assert_array_equal(state, entered)


def test_bfloat16_is_kept(path):
    replayer, streams = make()
    spec = streams.unroll_spec
    spec = spec._replace(info=tf.TensorSpec(spec.reward.shape, tf.bfloat16))
    first, second = (UniformReplayer(spec, 2, capacity=48) for _ in range(2))
    unrolls = streams.next_unrolls([0, 1])
    first.observe(unrolls._replace(info=tf.cast(unrolls.reward, tf.bfloat16)))
    first.save(path)
    second.load(path)
    at = second.all_sequences(3)
    info = second.gather(at, 3).info
    assert info.dtype == tf.bfloat16
    expected = tf.cast(first.gather(first.all_sequences(3), 3).reward, tf.bfloat16)
    assert tf.reduce_all(info == expected)
    with np.load(path) as arrays:
        assert arrays["info"].dtype == np.uint16


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("writes_per_chunk", [1, 2])
def test_saved_while_written_to(recurrent, writes_per_chunk, path, monkeypatch):
    """Between any two chunks more is observed; the file must hold nothing that was overwritten."""
    monkeypatch.setattr(buffer_archive, "CHUNK_BYTES", 40)
    read_at, saving = buffer_file.read_at, [False]
    replayer, streams = make(recurrent=recurrent, capacity=4 * 30)
    replayer.observe(streams.next_unrolls([0, 1] * 10 + [0, 0]))
    steps = list(streams.steps)

    def read_and_write(variable, indices):
        chunk = read_at(variable, indices)
        if saving[0] and writes_left:
            writes_left.pop()
            replayer.observe(streams.next_unrolls([1] * writes_per_chunk))
        return chunk

    writes_left = [None] * 4
    monkeypatch.setattr(buffer_file, "read_at", read_and_write)
    saving[0] = True
    replayer.save(path)
    saving[0] = False
    assert not writes_left
    loaded, _ = make(recurrent=recurrent, capacity=4 * 30)
    loaded.load(path)
    rows, states = everything(loaded)[1]
    lost = 4 * writes_per_chunk * 3
    expected = streams.sequences([1], [0], [steps[1] - 30 + lost], 0, 30 - lost)
    assert_equal_nests(rows, expected._replace(state=()))
    if recurrent:
        with np.load(path) as arrays:
            assert arrays["state_end"][1] - arrays["state_begin"][1] == len(states) == (30 - lost) // 3
        for i, state in enumerate(states):
            start = steps[1] - 30 + lost + 3 * i
            assert_equal_nests(state, streams.sequences([1], [0], [start], 0, 0).state)
    rows, _ = everything(loaded)[0]
    np.testing.assert_array_equal(rows.reward[:, 0], np.arange(steps[0] - 30, steps[0] + 1))


def test_saved_in_another_thread(path, monkeypatch, with_graphs):
    monkeypatch.setattr(buffer_archive, "CHUNK_BYTES", 200)
    replayer, streams = make(num_groups=1, batch_size=1, capacity=100)
    replayer.observe(streams.next_unrolls([0] * 30))
    saver = threading.Thread(target=replayer.save, args=(path,))
    saver.start()
    while streams.steps[0] < 390:
        replayer.observe(streams.next_unrolls([0]))
    saver.join()
    loaded, _ = make(num_groups=1, batch_size=1, capacity=100)
    loaded.load(path)
    ((rows, _),) = everything(loaded)
    steps = rows.reward[:, 0].astype(int)
    assert len(steps) <= 101
    if len(steps):
        expected = streams.sequences([0], [0], steps[:1], 0, len(steps) - 1)
        assert_equal_nests(rows, expected._replace(state=()))


def spoil(path, name, value=np.nan):
    """Gives the last number of an array another value."""
    with np.load(path) as file:
        array = file[name].copy()
    array.flat[-1] = value
    rewrite(path, **{name: array})


def truncate(path, num_bytes=100):
    os.truncate(path, os.path.getsize(path) - num_bytes)


def flip(path, position):
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def flip_content(path):
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("observation/image.npy")
        flip(path, entry.header_offset + 300)


def write_text(path):
    with open(path, "w") as file:
        file.write("no buffer")


DAMAGES = {
    "missing": (os.remove, "No such file"),
    "other": (write_text, "not a zip file"),
    "truncated": (truncate, "not a zip file"),
    "half": (lambda path: truncate(path, os.path.getsize(path) // 2), "not a zip file"),
    "flipped": (flip_content, "wrong checksum of observation/image.npy"),
    "version": (lambda path: change_header(path, version=2), "has version 2, this ALF reads 1"),
    "format": (lambda path: change_header(path, format="x"), "is not a replay buffer"),
    "headless": (lambda path: rewrite(path, header=None), "no item named 'header.npy'"),
    "incomplete": (lambda path: rewrite(path, reward=None), "no item named 'reward.npy'"),
    "shorter": (lambda path: rewrite(path, reward=np.zeros((3, 2), np.float32)), "do not fit its header"),
    "dtype": (lambda path: rewrite(path, discount=np.zeros((11, 2), int)), "do not fit its header"),
    "index": (lambda path: rewrite(path, begin=np.array([-1, 4])), "do not fit its header"),
    "position": (lambda path: rewrite(path, position=np.array([-9, 6])), "do not fit its header"),
    "far": (lambda path: rewrite(path, position=np.full(2, 2**63 - 1)), "do not fit its header"),
    "part of a step": (lambda path: rewrite(path, position=np.full(2, 6.5)), "do not fit its header"),
    "no groups": (lambda path: change_header(path, num_groups=0), "its num_groups is 0, and must be an int"),
    "less than none": (lambda path: change_header(path, batch_size=-2), "its batch_size is -2, and must"),
    "a part": (lambda path: change_header(path, num_groups=2.0), "its num_groups is 2.0, and must be an int"),
    "a truth": (lambda path: change_header(path, num_groups=True), "its num_groups is True, and must be"),
    "a text": (lambda path: change_header(path, unroll_length="3"), "its unroll_length is '3', and must be"),
    "pickle": (lambda path: rewrite(path, begin=np.array([None, 4])), "cannot be read"),
    "layout": (
        lambda path: change_header(path, batch_size=4),
        "batch_size is 4 in the file, 2 here",
    ),
    "reward": (lambda path: spoil(path, "reward"), "a value of reward is not finite"),
    "nan discount": (lambda path: spoil(path, "discount"), "a value of discount is not finite"),
    "discount": (lambda path: spoil(path, "discount", 5.0), "a value of discount is not between 0 and 1"),
    "step_type": (lambda path: spoil(path, "step_type", 7), "a value of step_type is not between 0 and 2"),
    "unroll_length": (
        lambda path: change_header(path, unroll_length=4),
        "unroll_length is 4 in the file",
    ),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A replayer, what it holds, and the path of its file."""
    path = str(tmp_path_factory.mktemp("saved") / "buffer.npz")
    replayer, streams = make(recurrent=True)
    replayer.observe(streams.next_unrolls([0, 1, 0]))
    replayer.save(path)
    return replayer, everything(replayer), path


@pytest.mark.parametrize("maximum", [2, 10**6])
def test_an_integer_action_beyond_its_bounds_is_refused(maximum, path):
    replayer, streams = make()
    replayer.row_spec = replayer.row_spec._replace(action=BoundedTensorSpec((), tf.int64, 0, maximum))
    replayer.observe(streams.next_unrolls([0, 1, 0]))  # its actions count the steps
    replayer.save(path)
    refused = pytest.raises(ConfigError, match="a value of action is not between 0 and 2")
    with refused if maximum == 2 else contextlib.nullcontext():
        replayer.load(path)


PRIORITIES = {
    "negative": -np.ones((11, 2)),
    "nan": np.full((11, 2), np.nan),
    "without a sum": np.full((11, 2), 1e308),
    "shorter": np.ones((10, 2)),
    "dtype": np.ones((11, 2), np.float32),
}


@pytest.mark.parametrize("priority", PRIORITIES.values(), ids=PRIORITIES)
def test_bad_priorities_change_nothing(priority, saved, target, path):
    *_, good_path = saved
    shutil.copy(good_path, path)
    rewrite(path, priority=priority)
    before, numbers = everything(target), target._tree.numbers().numpy()
    with pytest.raises(ConfigError, match="its arrays do not fit its header"):
        target.load(path)
    assert_equal_nests(everything(target), before)
    np.testing.assert_array_equal(target._tree.numbers(), numbers)
    rewrite(path, priority=np.ones((11, 2)))
    load_replayer(path)


@pytest.fixture(scope="module")
def target():
    replayer, streams = make(PrioritizedReplayer, recurrent=True, seed=5)
    replayer.observe(streams.next_unrolls([1, 0, 1, 1]))
    return replayer


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_file_changes_nothing(damage, saved, target, path):
    *_, good_path = saved
    shutil.copy(good_path, path)
    before, numbers = everything(target), target._tree.numbers().numpy()
    destroy, message = DAMAGES[damage]
    destroy(path)
    with pytest.raises(ConfigError, match=message) as error:
        target.load(path)
    assert repr(path) in str(error.value)
    assert_equal_nests(everything(target), before)
    np.testing.assert_array_equal(target._tree.numbers(), numbers)
    if damage not in ("layout", "unroll_length"):
        with pytest.raises(ConfigError, match=message):
            load_replayer(path)


def test_other_specs_are_named(path):
    replayer, streams = make()
    replayer.save(path)
    spec = streams.unroll_spec
    spec = spec._replace(action=tf.TensorSpec((4, 2, 7), tf.float32), info=())
    with pytest.raises(
        ConfigError,
        match=r"has other specs: action is int64 \(\) in the file, float32 \(7,\) here; "
        r"info/logits is float32 \(3,\) in the file, not there here",
    ):
        UniformReplayer(spec, 2, capacity=48).load(path)


@settings(max_examples=30, deadline=None)
@given(where=st.floats(0, 1, exclude_max=True))
def test_a_flipped_bit_is_an_error_or_harmless(saved, where):
    replayer, expected, path = saved
    position = int(where * os.path.getsize(path))
    flip(path, position)
    try:
        replayer.load(path)
    except ConfigError:
        pass
    finally:
        flip(path, position)
    assert_equal_nests(everything(replayer), expected)


def test_a_file_is_replaced_only_by_a_complete_one(path, monkeypatch):
    replayer, streams = make()
    replayer.observe(streams.next_unrolls([0, 1]))
    replayer.save(path)
    with open(path, "rb") as file:
        before = file.read()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(buffer_file, "read_at", fail)
    with pytest.raises(OSError, match="disk full"):
        replayer.save(path)
    with open(path, "rb") as file:
        assert file.read() == before
    assert os.listdir(os.path.dirname(path)) == ["buffer.npz"]
