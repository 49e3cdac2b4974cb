# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Fixtures of several tests of replayers."""

import pytest

from tests.replay import streams


@pytest.fixture(scope="module")
def without_graphs():
    with streams.without_graphs():
        yield


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "buffer.npz")
