# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A wrong setting is one error that names it; a right one passes."""

import builtins
import pickle
import sys
import types
from concurrent.futures import CancelledError
from functools import partial
from multiprocessing.pool import RemoteTraceback

import gin
import numpy as np
import pytest
import tensorflow as tf

import alf
from alf.algorithms import NStep, PPOAlgorithm
from alf.core.nest_utils import BoundedTensorSpec
from alf.distributed.cluster import connect
from alf.environments import load
from alf.errors import (
    SAY_ALL,
    ConfigError,
    EnvError,
    FolderError,
    argument,
    arguments_are_flags,
    check_type,
    contain,
    describe_error,
    make_part,
    rendered_shortly,
)
from alf.learner import LearnerSettings
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy
from alf.policies.data_transformers import Pipeline, RewardClipping
from alf.replay import find_files
from alf.training import Experiment


def test_an_object_of_another_class():
    assert check_type("x", 3, int) == 3
    with pytest.raises(ConfigError, match="^x is an object of str: it must be one of int$"):
        check_type("x", "3", int)


SPEC = tf.TensorSpec([], tf.float32)
WRONG = [
    (
        lambda: Experiment(intra_op_threads=100_000),
        "Experiment.intra_op_threads is 100000: .* at most 4096",
    ),
    (
        lambda: NStep("Owner", 0.9, 1, 2, False),
        "^Owner.burn_in is 2: it has no effect without a recurrent network",
    ),
    (
        lambda: Pipeline(SPEC, SPEC, RewardClipping),
        r"it must be a tuple or list; in gin \(@RewardClipping,\)",
    ),
    (lambda: LearnerSettings(jit_compile="yes"), "jit_compile is 'yes'"),
]


@pytest.mark.parametrize("call, message", WRONG)
def test_a_wrong_setting(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


INTEGER = BoundedTensorSpec((), tf.int64, 0, 1)
LARGE = BoundedTensorSpec((40, 40), tf.float32, np.full((40, 40), 1.0), np.full((40, 40), -1.0))


@gin.configurable(module="errors_test")
def make_own(make):
    return make()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: EpsilonGreedyPolicy(SPEC, LARGE), "action_spec is Bounded"),
        (lambda: SacPolicy(SPEC, LARGE), "SacPolicy needs one integer with bounds"),
        (
            lambda: ActorCriticPolicy(SPEC, INTEGER, partial(ActorCriticNetwork, activation="no")),
            "activation is 'no'",
        ),
        (lambda: PPOAlgorithm(None, clip_range=-1), "PPOAlgorithm.clip_range is -1: "),
        (lambda: load("CartPole-v1", 0), "batch_size is 0"),
        (lambda: alf.train("CartPole-v1", "ppo", num_groups=0), "num_groups is 0"),
    ],
)
def test_a_call_in_python_has_one_line_without_the_calls_of_gin(call, message):
    """Also if the call is within one of the user's own, which gin binds."""
    for one in (call, lambda: make_own(call)):
        with pytest.raises(ConfigError, match=message) as caught:
            one()
        text = str(caught.value)
        assert "\n" not in text and "In call to" not in text and text.strip() == text
        assert caught.value._render_traceback_()[0] == f"ConfigError: {text}"


@pytest.mark.parametrize("kind", SAY_ALL)
def test_errors_that_say_all_pass_through_gin_as_they_are(kind):
    error = kind("one line")
    error.__cause__ = cause = OSError("why")

    def fail():
        raise error

    with pytest.raises(kind) as caught:
        make_own(fail)
    assert caught.value is error and str(error) == "one line" and error.__cause__ is cause


def test_other_errors_keep_the_calls_of_gin():
    with pytest.raises(ZeroDivisionError, match="(?s)division by zero.*In call to configurable 'make_own'"):
        make_own(lambda: 1 / 0)


def test_a_message_is_one_line_also_of_a_value_that_has_several():
    assert str(ConfigError(f"x is {np.eye(2)}: no")) == "x is [[1. 0.] [0. 1.]]: no"
    assert str(ConfigError("two  spaces")) == "two  spaces"


MISSING = [
    ("ale_py.vector_env", "atari", lambda: load("ALE/Pong-v5", 1)),
    ("envpool", "envpool", lambda: load("envpool:CartPole-v1", 1)),
    ("minari", "minari", lambda: find_files("minari:D4RL/door/human-v2")),
    ("pettingzoo", "pettingzoo", lambda: load("pettingzoo:pettingzoo.classic.connect_four_v3:env", 1)),
    ("ray", "ray", connect),
]


@pytest.mark.parametrize("module, extra, call", MISSING, ids=[row[0] for row in MISSING])
def test_a_missing_package_is_said_with_its_extra(monkeypatch, module, extra, call):
    monkeypatch.setitem(sys.modules, module, None)
    message = rf'is not installed: pip install "alf-tf\[{extra}\]"'
    with pytest.raises(ConfigError, match=message):
        call()


def test_a_folder_is_root_dir_in_python_and_a_flag_of_a_command():
    error = pickle.loads(pickle.dumps(FolderError("runs/a", "holds a sweep: choose another root_dir")))
    assert str(error) == "root_dir 'runs/a' holds a sweep: choose another root_dir"
    with arguments_are_flags("sweep", ()):
        assert str(error) == "'runs/a' holds a sweep: choose another folder, -o DIR"


def test_an_argument_of_python_is_a_flag_of_a_command():
    def name_all():
        names = argument("seeds"), argument("seeds", "0,1"), argument("overwrite", True), argument("root_dir")
        return (
            *names,
            argument("output", "FILE"),
            argument("num_steps", owner="check"),
            argument("epsilon", owner="Adam"),
        )

    in_python = ("seeds", "seeds=0,1", "overwrite=True", "root_dir", "output=FILE", "check.num_steps")
    assert name_all() == (*in_python, "Adam.epsilon")
    with arguments_are_flags("check", ["num_steps"]):
        flags = "--seeds", "--seeds=0,1", "--overwrite", "-o", "-o FILE", "--num_steps", "Adam.epsilon"
        assert name_all() == flags
    assert name_all() == (*in_python, "Adam.epsilon")


def test_a_notebook_shows_the_message_and_then_the_users_own_call():
    with pytest.raises(ConfigError) as caught:
        check_type("x", "3", int)
    first, *rest = caught.value._render_traceback_()
    assert first == "ConfigError: x is an object of str: it must be one of int"
    assert rest == [
        f'  File "{__file__}", line {caught.traceback[0].lineno + 1}, in {caught.traceback[0].name}',
        '    check_type("x", "3", int)',
    ]


def raised_by(file):
    """An error that the function `step` in a file of the user's raises."""
    namespace = {}
    exec(compile("def step():\n    raise KeyError('gold')\n", file, "exec"), namespace)
    with pytest.raises(KeyError) as caught:
        namespace["step"]()
    return caught.value


CAUSES = {
    "the user's": (raised_by("/home/me/my_env.py"), ["caused by", "KeyError: 'gold'", "/home/me/my_env.py"]),
    "ALF's": (KeyError("x"), []),
    "a worker's": (RemoteTraceback("\nTraceback: a line\n"), ["in a worker process:", "Traceback: a line"]),
    "none": (None, []),
}


@pytest.mark.parametrize("case", CAUSES)
def test_a_notebook_shows_where_the_users_code_raised(case):
    cause, expected = CAUSES[case]
    error = EnvError("environment 0, step 4 raised")
    error.__cause__ = cause
    shown = error._render_traceback_()
    assert shown[0] == "EnvError: environment 0, step 4 raised"
    positions = ["\n".join(shown).find(text) for text in expected]
    assert -1 not in positions and positions == sorted(positions)
    assert expected or len(shown) == 1


@pytest.fixture(params=[False, True])
def in_notebook(request, monkeypatch):
    shell = types.SimpleNamespace(**({"kernel": object()} if request.param else {}))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    return request.param


def test_a_notebook_shows_other_errors_as_shortly(in_notebook):
    error = raised_by(alf.errors.__file__)
    with pytest.raises(KeyError), rendered_shortly():
        raise error
    assert hasattr(error, "_render_traceback_") == in_notebook
    if in_notebook:
        shown = error._render_traceback_()
        assert shown == ["KeyError: 'gold'", *shown[1:]] and not any("in step" in line for line in shown)


def fail():
    raise MemoryError("mine")


CALLS = {
    "train": lambda path: alf.train(fail, root_dir=path, num_workers=0),
    "evaluate": lambda path: alf.evaluate("alf:CartPole-v1", should_stop=fail),
    "play": lambda path: alf.play("alf:CartPole-v1", output=path / "x.gif", should_stop=fail),
    "benchmark": lambda path: alf.benchmark(fail, num_workers=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_of_a_program_show_all_errors_shortly_in_a_notebook(name, in_notebook, tmp_path):
    with pytest.raises(MemoryError) as caught:
        CALLS[name](tmp_path)
    assert hasattr(caught.value, "_render_traceback_") == in_notebook


def test_an_error_without_a_text_names_the_line_of_the_users_code():
    def fail():
        raise AssertionError

    class Failing:
        def __array__(self, *args, **kwargs):
            fail()

    line = fail.__code__.co_firstlineno + 1
    for call in (fail, lambda: np.asarray(Failing()), lambda: make_part("x", fail, int)):
        with pytest.raises(AssertionError) as caught:
            call()
        assert describe_error(caught.value) == f"AssertionError in {__file__}, line {line}"
    with pytest.raises(AssertionError) as caught:
        np.testing.assert_(False)  # the innermost line is NumPy's
    caught.value.args = (" ",)
    line = caught.tb.tb_lineno
    assert describe_error(caught.value) == f"AssertionError in {__file__}, line {line}"
    assert describe_error(ValueError()) == "ValueError"  # raised nowhere


def test_contain_replaces_what_means_something_to_other_code(subtests):
    for error in (
        SystemExit(0),
        StopIteration(),
        StopAsyncIteration(),
        KeyboardInterrupt(),
        CancelledError(),
    ):
        with subtests.test(error=repr(error)):
            contained = contain(error, "environment 3")
            assert isinstance(contained, EnvError)
            assert str(contained) == f"environment 3 raised {error!r}"
            assert contained.__cause__ is error


class TextlessError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no groups")
def test_contain_replaces_a_group():
    group = builtins.ExceptionGroup("two", [ValueError("x"), OSError("y")])
    assert str(contain(group, "environment 3")) == f"environment 3 raised {group!r}"


def test_contain_replaces_what_has_no_text():
    contained = contain(TextlessError(), "environment 3")
    assert str(contained) == "environment 3 raised TextlessError, whose text cannot be made"


def test_contain_keeps_every_other_exception():
    error = ValueError("x")
    assert contain(error, "environment 3") is error
