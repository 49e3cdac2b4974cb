# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The memory that a buffer may take: of the machine, or of a container with a limit."""

import math

import pytest
import tensorflow as tf

from alf.replay import storage

FILES = {  # of cgroups, by what /proc/self/cgroup says
    "version 2": ("0::/a/b", {"memory.max": "max\n", "a/memory.max": "3000\n", "a/b/memory.max": "5000\n"}),
    "version 2, inside": ("0::/", {"memory.max": "3000\n"}),
    "version 2, path of the host": ("0::/docker/77", {"memory.max": "3000\n"}),
    "version 1": (
        "5:cpu,memory:/a\n1:name=systemd:/\n0::/",
        {"memory/memory.limit_in_bytes": f"{2**63 - 4096}\n", "memory/a/memory.limit_in_bytes": "3000\n"},
    ),
    "another controller": ("1:cpu:/a", {"memory/a/memory.limit_in_bytes": "1\n", "a/memory.max": "1\n"}),
    "no limit": ("0::/a", {"a/memory.max": "max\n"}),
    "no files": ("0::/a", {}),
}


def write(folder, lines, files):
    proc, root = folder / "cgroup", folder / "fs"
    proc.write_text(lines + "\n")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(proc), str(root)


@pytest.mark.parametrize("kind", FILES)
def test_the_least_limit_around_the_process_counts(kind, tmp_path):
    expected = 3000 if kind.startswith("version") else math.inf
    assert storage.read_cgroup_limit(*write(tmp_path, *FILES[kind])) == expected


def test_without_cgroups_there_is_no_limit(tmp_path):
    assert storage.read_cgroup_limit(str(tmp_path / "none"), str(tmp_path)) == math.inf


def test_a_buffer_above_the_limit_of_the_container_is_refused(monkeypatch):
    monkeypatch.setattr(storage, "read_cgroup_limit", lambda: 4_000_000_000)
    spec = tf.TensorSpec((1000,), tf.uint8)
    message = r"capacity is 9: that takes 4.1 GB, the limit of this container \(cgroup\) is 4.0 GB of memory"
    with pytest.raises(storage.TooLittleMemory, match=message):
        storage.allocate("capacity is 9", 4_100_000, spec)
    assert storage.allocate("capacity is 9", 10, spec).shape == (10, 1000)
