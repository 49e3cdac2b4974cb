# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The list of settings, and the page that is made of it."""

import argparse
import re

import gin
import pytest

import alf
from alf.config import registry
from alf.config.listing import (
    Configurable,
    Parameter,
    format_page,
    format_settings,
    list_settings,
    parse_args,
)
from alf.config.registry import find_own
from alf.config.settings import settings_of

registry.import_settings()

SHARE, FACTOR = "float, at least 0 and at most 1", "float, at least 1"
DOCSTRING = """Sums.

    Args:
        a, b: two numbers:
            each an int.

            A second paragraph.
        **kwargs: more.

    Returns:
        c: the sum.
    """


gin.external_configurable(argparse.Namespace, "Registered", module="listing_test")


def list_own():
    """The settings of ALF; other tests register some of theirs."""
    return [x for x in list_settings() if re.match(r"alf\.(?!examples\.)", f"{x.module}.")]


def find(name):
    (configurable,) = [x for x in list_settings(name) if x.name == name]
    return configurable


def test_docstrings_are_parsed():
    two = "two numbers: each an int. A second paragraph."
    assert parse_args(DOCSTRING) == {"a": two, "b": two, "kwargs": "more."}
    assert parse_args("Sums.") == {}
    assert parse_args("Sums.\n\nKeyword Args:\n  a: one\n    number.\n  b: another") == {
        "a": "one number.",
        "b": "another",
    }


def test_each_kind_of_default():
    parameters = {x.name: x for x in find("Experiment").parameters}
    assert parameters["unroll_length"].default == "8"
    assert parameters["exp_replayer"].default == "'one_time'"
    assert parameters["seed"].default == "None"
    assert parameters["algorithm"].default == "@ImpalaAlgorithm"
    load = {x.name: x for x in find("alf.environments.load").parameters}
    assert load["name"].default == "no default" and load["batch_size"].default == "1"
    assert load["**kwargs"].default == ""
    assert load["batch_size"].text.startswith(
        "number of sub-environments, B, or of games with several agents."
    )


def test_fields_of_a_dataclass():
    assert find("Mutation").parameters == (
        Parameter("rate", SHARE, "0.5", "probability that a setting is moved.", True),
        Parameter("min_factor", FACTOR, "1.1", "the smallest factor of a move.", True),
        Parameter("max_factor", FACTOR, "1.5", "the largest factor of a move.", True),
        Parameter("resample_rate", SHARE, "0.05", "probability that a setting is drawn anew instead.", True),
    )


def test_a_name_selects_in_either_case():
    assert [x.name for x in list_settings("sAcAlgo")] == ["SacAlgorithm"]
    assert list_settings("no such name") == []


def test_parameters_are_found_by_their_names():
    """Without the other parameters of the same configurable."""
    (found,) = list_settings("Experiment.num_ENVS")
    assert found.name == "Experiment" and [x.name for x in found.parameters] == ["num_envs"]
    found = {x.name: [p.name for p in x.parameters] for x in list_settings("entropy_weight")}
    assert found["PPOAlgorithm"] == found["ImpalaAlgorithm"] == ["entropy_weight"]
    assert all("entropy_weight" in names for names in found.values())


def test_nothing_of_alf_is_left_out():
    own = [name for name in find_own() if re.match(r"alf\.(?!examples\.)", name)]
    listed = list_own()
    assert len(listed) == len(own) > 70
    assert sum(len(x.parameters) for x in listed) == sum(len(settings_of(name)) for name in own)


def test_the_text_and_the_page():
    parameters = (
        Parameter("x", "int", "1", "a | b", True),
        Parameter("y", "", "no default", "", False),
        Parameter("z", "str", "no default", "", False),
        Parameter("**k", "", "", "more", False),
    )
    configurable = Configurable("F", "alf.m", "", "Sums.", parameters)
    others = [configurable._replace(owner="Keras"), configurable._replace(parameters=())]
    assert format_settings([configurable]).splitlines() == [
        "F",
        "    Sums.",
        "  F.x: int = 1",
        "      a | b",
        "  F.y  (no default)",
        "  F.z: str  (no default)",
        "  F.**k",
        "      more",
    ]
    assert format_settings(others).startswith("F  (of Keras)\n    Sums.\n  F.x: int = 1\n")
    assert format_settings(others).endswith("\n\nF\n    Sums.")
    page = format_page([configurable, *others])
    assert page.count("## alf.m\n") == 1 and page.count("### F\n\nSums.\n\n| parameter | type |") == 1
    assert "### F\n\nSums. (from Keras)\n\n| parameter |" in page
    assert (
        "| `x` † | int | `1` | a \\| b |\n| `y` |  | no default |  |\n| `z` | str | no default |  |\n" in page
    )
    assert "| `**k` |  |  | more |\n" in page


def test_a_text_that_refers_to_another_class_is_that_of_the_other():
    names = ("ActorCriticNetwork", "CriticsNetwork", "make_action_distribution")
    actor, critics, actions = ({x.name: x.text for x in find(name).parameters} for name in names)
    assert (
        actor["activation"] == 'text, the activation of the hidden layers, such as "relu", "tanh" or "silu".'
    )
    assert critics["activation"] == actor["activation"] + " Each critic has these hidden layers."
    assert actions["scale_to_bounds"].startswith("bool; True maps [-1, 1] to the bounds")
    assert actions["scale_to_bounds"].endswith('them (only for "gaussian": the others always scale).')
    driver = {x.name: x.text for x in find("AsyncOffPolicyDriver").parameters}
    assert re.match("number, T, transitions .* With 2.5 they take", driver["unroll_length"])


def test_each_parameter_of_alf_has_a_type_and_a_text():
    every = {f"{x.name}.{y.name}": (x, y) for x in list_own() for y in x.parameters}
    assert len(every) > 440
    assert [name for name, (_, y) in every.items() if not y.text] == []
    own = {name: y for name, (x, y) in every.items() if not x.owner and not y.name.startswith("**")}
    assert [name for name, y in own.items() if not y.type] == []
    assert [x.name for x in list_own() if not x.summary] == []


def test_what_is_of_others_says_so():
    assert [x.name for x in list_own() if x.owner] == []
    (found,) = [x for x in list_settings("listing_test") if x.name == "Registered"]
    assert found.owner == "argparse"


def test_alf_settings_takes_what_the_command_takes(tmp_path):
    """A wrong gin file keeps nothing back; gin is as it was."""
    gin.clear_config()
    found = alf.settings("StopCriteria")
    assert [x.name for x in found.configurables] == ["StopCriteria"] and found.problem is None
    assert str(found) == format_settings(list_settings("StopCriteria"))
    path = tmp_path / "wrong.gin"
    path.write_text("StopCriteria.num_iterations = 3\nNothing.x = 1\n")
    found = alf.settings("StopCriteria", path)
    assert len(found.configurables) == 1 and "Nothing" in str(found.problem)
    assert not gin.config._CONFIG
    for names, message in (
        (("nope",), "there is no setting 'nope'"),
        (("Adam", "oops"), "unexpected argument 'oops': name one"),
        (("nope", path), "Nothing"),
    ):
        with pytest.raises(alf.ConfigError, match=message):
            alf.settings(*names)
