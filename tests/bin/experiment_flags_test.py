# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The part of a command line that says what to train: how values of --NAME=VALUE become those of gin."""

import pytest

from alf.bin.experiment_flags import _to_gin

VALUES = ("3", "1e-3", "None", "(8, 8)", "'relu'", "@SyncOffPolicyDriver", "@Adam()", "%rate")
NESTS = ("[@ObservationNormalizer]", "(@Mine(),)", '{"a": %b}', '{"a": (@x/Adam(), 3), "b": "c"}')
WORDS = ("relu", "my_env:Corridor", "me@here", "100%", "[a, b]", "{a}")


@pytest.mark.parametrize("text", (*VALUES, *NESTS))
def test_a_value_of_gin_stays_as_it_is(text):
    assert _to_gin(text) == text


@pytest.mark.parametrize("text", WORDS)
def test_a_word_becomes_a_text(text):
    assert _to_gin(text) == repr(text)
