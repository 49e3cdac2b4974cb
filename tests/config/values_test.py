# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Values on a command line: those of gin files, and words."""

import sys

import pytest

from alf.config import registry
from alf.config.values import read_value, split_list
from alf.errors import ConfigError

VALUES = {
    "3": 3,
    "1e-3": 1e-3,
    "-1_000": -1000,
    "None": None,
    "(8, 8)": (8, 8),
    "'relu'": "relu",
    "relu": "relu",
    "my_env:Corridor": "my_env:Corridor",
    "me@here": "me@here",
    "100%": "100%",
    "true": "true",
    "": "",
    " 3 ": 3,
    "[a, b]": ["a", "b"],
    "(a, 3,)": ("a", 3),
    "(a)": "(a)",
    "[a, [b, 'c, d'], (1, 2)]": ["a", ["b", "c, d"], (1, 2)],
    "[]": [],
    "[a,,b]": ["a", "", "b"],
    "[a]]": "[a]]",
    "[don't, do]": "[don't, do]",
    "{a}": "{a}",
    '{"a": 1}': {"a": 1},
}
REFERENCES = ("@SyncOffPolicyDriver", "@Adam()", "%rate", "@x/Adam()")
NESTS = {
    "[@ObservationNormalizer]": "[@ObservationNormalizer]",
    "(@Adam(), relu)": "(@Adam(), 'relu')",
    '{"a": %b}': "{'a': %b}",
    '{"a": (@x/Adam(), 3), "b": "c"}': "{'a': (@x/Adam(), 3), 'b': 'c'}",
}
WRONG = {
    "@Nothing": "No configurable matching reference '@Nothing'",
    "[@Nothing]": "No configurable matching reference '@Nothing'",
    "@Adam() 3": "@Adam[(][)] 3",
    "@": "@",
    '{"a": @Adam(}': "Adam",
}


def test_a_text_becomes_a_value(subtests):
    for text, value in VALUES.items():
        with subtests.test(text):
            assert repr(read_value(text)) == repr(value)


def test_a_reference_of_gin(subtests):
    registry.import_settings()
    for text, shown in {**{x: x for x in REFERENCES}, **NESTS}.items():
        with subtests.test(text):
            assert repr(read_value(text)) == shown


def test_what_gin_cannot_read_is_one_line(subtests):
    registry.import_settings()
    for text, message in WRONG.items():
        with subtests.test(text):
            with pytest.raises(ConfigError, match=message) as caught:
                read_value(text)
            assert "\n" not in str(caught.value)


def test_what_is_no_list_has_no_items():
    assert [split_list(x) for x in ("", "a", "[a", "(a]", "{a}")] == [None] * 5


def test_a_reference_to_a_module_imports_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [x for x in sys.path if x != str(tmp_path)])
    (tmp_path / "of_values_test.py").write_text("import gin\n@gin.configurable\ndef made(): return 3\n")
    assert repr(read_value("[@of_values_test.made, @x/of_values_test.made()]")) == (
        "[@of_values_test.made, @x/of_values_test.made()]"
    )
    assert "of_values_test" in sys.modules and sys.path[-1] == str(tmp_path)
    for name in ("of_values_test.nothing", "no_such.package.made", "no_such_module.made"):
        with pytest.raises(ConfigError, match=f"No configurable matching reference '@{name}"):
            read_value(f"@{name}")
    monkeypatch.delitem(sys.modules, "of_values_test")
