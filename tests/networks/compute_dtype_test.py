# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""compute_dtype: what "auto" chooses, the scope, the error."""

import concurrent.futures

import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks import PolicyNetwork
from alf.networks.compute_dtype import bfloat16_is_fast, compute_in, current_dtype

CPUINFO = (
    "processor\t: 0\nvendor_id\t: {}\nmodel name\t: avx512_bf16\nflags\t\t: fpu sse2 {}\nbugs\t\t: amx_bf16\n"
)


@pytest.mark.parametrize(
    "vendor, flags, fast",
    [
        ("AuthenticAMD", "avx512f avx512_vnni", False),
        ("AuthenticAMD", "avx512_bf16x", False),
        ("AuthenticAMD", "avx512f avx512_bf16", True),
        ("GenuineIntel", "avx512f avx512_bf16", False),
        ("GenuineIntel", "avx512_bf16 amx_bf16 amx_tile", True),
    ],
)
def test_flags_of_the_cpu(tmp_path, vendor, flags, fast):
    path = tmp_path / "cpuinfo"
    path.write_text(CPUINFO.format(vendor, flags))
    assert bfloat16_is_fast(path) is fast


def test_a_system_that_tells_nothing_of_its_cpu(tmp_path):
    assert not bfloat16_is_fast(tmp_path / "none")
    (tmp_path / "empty").write_text("")
    assert not bfloat16_is_fast(tmp_path / "empty")


@pytest.mark.parametrize("fast, expected", [(True, "bfloat16"), (False, "float32")])
def test_auto(monkeypatch, fast, expected):
    monkeypatch.setattr("alf.networks.compute_dtype.bfloat16_is_fast", lambda: fast)
    with compute_in("auto"):
        assert current_dtype() == expected


def test_scope():
    with compute_in("bfloat16"):
        assert current_dtype() == tf.bfloat16
        with compute_in("float32"):
            assert current_dtype() == tf.float32
        with compute_in(None):
            assert current_dtype() == tf.bfloat16
    assert current_dtype() == tf.float32
    with pytest.raises(ZeroDivisionError), compute_in("bfloat16"):
        _ = 1 / 0
    assert current_dtype() == tf.float32


def test_it_is_of_the_thread():
    with compute_in("bfloat16"), concurrent.futures.ThreadPoolExecutor() as pool:
        assert pool.submit(current_dtype).result() == tf.float32


@pytest.mark.parametrize("value", ["float16", "mixed_bfloat16", "", 16, ["float32"], tf.bfloat16])
def test_other_values_are_an_error(value):
    with pytest.raises(
        ConfigError, match=r"compute_dtype is .*: it must be one of 'float32', 'bfloat16', 'auto'"
    ):
        PolicyNetwork(tf.TensorSpec((2,), tf.float32), 2, compute_dtype=value)
