# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What is wrong in a configuration is one line, which holds the line to write."""

import functools
import importlib
import re
import threading

import gin
import pytest

import alf
from alf.config import registry
from alf.config.parsing import bind, parse_config, take_bindings, wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.environments import PythonEnvironment, load
from alf.errors import ConfigError

registry.import_settings()


@pytest.fixture(autouse=True)
def fresh_config():
    with own_config():
        yield


@gin.configurable(module="hints_test")
class Minimal:
    def __init__(self, seed=0, limit=1):
        self.limit = limit


@gin.configurable(module="hints_test")
class MakesMinimal:
    def __call__(self, seed=0):
        return Minimal(seed)


def error_of(*params, **kwargs):
    """The one line of the error of bindings; gin's configuration is empty before and after."""
    with own_config(), pytest.raises(ConfigError) as caught:
        parse_config([], list(params), **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


WRONG_NAMES = {
    "Trainr.batches_per_train_iter = 3  # mine": "Trainer.batches_per_train_iter = 3",
    "Trainr.batches_per_train_ite = 3": "Trainer.batches_per_train_ite = 3",
    "a/b/trainer.batches_per_train_iter = 3": "a/b/Trainer.batches_per_train_iter = 3",
    "Minimall.limit = 3": "Minimal.limit = 3",
    "SyncOffPolicyDriver.stall_timeout = 60.0": "Monitoring.stall_timeout = 60.0",
    "Trainer.batches_per_train_ite = 3": "Trainer.batches_per_train_iter = 3",
    "a/Trainer.batches_per_train_ite = 3": "a/Trainer.batches_per_train_iter = 3",
    "Experiment.env = @Minimall": "Experiment.env = @Minimal",
    "UnrollLearner.optimizer = @a/Adm()": "UnrollLearner.optimizer = @a/Adam()",
    "Adam.lr = 1e-3": "Adam.learning_rate = 1e-3",
    "b/Adam.lr = @LinearSchedule()": "b/Adam.learning_rate = @LinearSchedule()",
    "SGD.learning_rat = 1": "SGD.learning_rate = 1",
}


def test_a_misspelt_name_is_answered_by_the_line_to_write(subtests):
    for line, right in WRONG_NAMES.items():
        with subtests.test(line):  # other tests register names that may be near, too
            assert f"; did you mean {right} " in error_of(line)


def test_a_name_that_the_user_has_given_to_something_else_too():
    gin.configurable("StopCriteria", module="hints_test")(lambda limit=1: limit)
    try:
        for line, right in {
            "StopCriteria.num_iterations = 3": "alf.training.StopCriteria.num_iterations = 3",
            "a/StopCriteria.num_iterations = 3": "a/alf.training.StopCriteria.num_iterations = 3",
            "Trainer.stop_criteria = @StopCriteria": "Trainer.stop_criteria = @alf.training.StopCriteria",
        }.items():
            assert f"; did you mean {right} " in error_of(line)
    finally:
        gin.config._REGISTRY.pop("hints_test.StopCriteria")


def test_a_parameter_of_another_configurable():
    others = error_of("Experiment.entropy_weight = 0.1")
    for name in ("ImpalaAlgorithm", "PPOAlgorithm"):
        assert f"{name}.entropy_weight = 0.1" in others
    # The one that is configured is meant.
    one = error_of("PPOAlgorithm.discount = 0.9", "Experiment.entropy_weight = 0.1")
    assert one.endswith("; did you mean PPOAlgorithm.entropy_weight = 0.1 ?")


WHOLE = {
    ("SacAlgoritm.discont = 0.9",): "; did you mean SacAlgorithm.discont = 0.9( or .* = 0.9){2} [?]$",
    ("Experiment.num_groups = %num", "Experiment.seed = %seed", "seed = 3"): (
        "^Experiment.num_groups = %num: nothing defines %num: write num = VALUE$"
    ),
    ("UnrollLearner.strategy = 1",): "; did you mean Experiment.strategy = 1 [?]$",
    ("ActorCriticPolicy.observation_spec = 1",): "has denylisted kwarg 'observation_spec'",
}


@pytest.mark.parametrize("lines, message", WHOLE.items())
def test_what_is_wrong_is_answered(lines, message):
    assert re.search(message, error_of(*lines))


LIKE_NOTHING = {
    "Qqq.x = 1": "bindings: No configurable matching 'Qqq'",
    "Trainer.qqq = 1": "bindings: Configurable 'Trainer' doesn't have a parameter named 'qqq'",
    "Experiment.env = @qqq": "bindings: No configurable matching reference '@qqq'",
}


def test_a_name_that_is_like_nothing_is_answered_by_where_all_names_are(subtests):
    for line, beginning in LIKE_NOTHING.items():
        with subtests.test(line):
            error = error_of(line)
            assert error.startswith(beginning)
            assert error.endswith(f"{line}; `alf settings` lists them")


def test_the_line_of_a_gin_file(tmp_path, subtests):
    path = tmp_path / "mine.gin"
    for text, right in (
        ("Trainer:\n  batches_per_train_ite = 3\n", "batches_per_train_iter = 3"),
        ("Trainr:\n  batches_per_train_iter = 3\n", "Trainer:"),
        ("Experiment.exp_replayer = uniform  # a buffer\n", 'Experiment.exp_replayer = "uniform"'),
    ):
        path.write_text(f"Experiment.seed = 1\n{text}")
        with subtests.test(text), own_config():
            with pytest.raises(ConfigError) as caught:
                parse_config([str(path)], [])
            assert re.search(r"mine\.gin\"?, line [23]\b", str(caught.value))
            assert str(caught.value).removesuffix(" ?").endswith(right)


def test_a_name_in_place_of_a_reference(subtests):
    error = error_of("Experiment.algorithm = PPOAlgorithm", source="")
    assert error.endswith(": write Experiment.algorithm = @PPOAlgorithm")
    error = error_of("UnrollLearner.optimizer = Adam", source="")
    assert error.endswith(": write UnrollLearner.optimizer = @Adam()")
    for value in ("Adam", "Adam()"):
        with subtests.test(value):
            error = error_of(f"UnrollLearner.optimizer = {value}")
            assert error.endswith(": write UnrollLearner.optimizer = @Adam()")
    for name, value, right in (
        ("ActorCriticNetwork.rnn", "LSTM", "@LSTM"),
        ("Trainer.save_git_state", "false", "False"),
    ):
        with subtests.test(name), own_config(), pytest.raises(ConfigError) as caught:
            bind({name: value})
        assert str(caught.value).endswith(f": write {right}")


ALGORITHMS = "one of 'ppo', 'impala', 'sac', 'td3', 'dqn', 'qr_dqn', 'apex', 'r2d2'"
WRONG_VALUES = {
    "Experiment.num_groups = 1.5": "an integer, at least 1",
    "a/Experiment.num_groups = True": "an integer, at least 1",
    "LearnerSettings.max_grad_norm = 1e999": "a number above 0, or None",
    "Experiment.algorithm = 'PPOAlgorithm'": f"{ALGORITHMS}, a class",
    "Experiment.algorithm = None": f"{ALGORITHMS}, a class or function (@NAME)",
    "ActorCriticNetwork.fc_layer_params = (64)": "a tuple or list, each an integer, at least 1: write (64,)",
    "main/ActorCriticNetwork.rnn = 3": "a class or function (@NAME), or None",
    "Experiment.policies = 'a'": "a Policies (@NAME()), or None",
}


def test_a_value_of_another_kind(subtests):
    """Before anything is made of it, so also where nothing would read it."""
    for line, rule in WRONG_VALUES.items():
        with subtests.test(line):
            error = error_of(line)
            assert error.startswith(f"{line.partition(' = ')[0]} is ") and f": it must be {rule}" in error


def test_a_value_of_the_right_kind():
    parse_config([], ["ActorCriticNetwork.rnn = None", "Experiment.algorithm = @PPOAlgorithm"])
    parse_config([], ["alf.environments.load.name = 'CartPole-v1'"])  # a text or a callable
    parse_config([], ["Experiment.policy = {'a': @ActorCriticPolicy, 'b': @ActorCriticPolicy}"])
    parse_config([], ["ctor = @PPOAlgorithm", "Experiment.algorithm = %ctor"])


UNQUOTED = {
    "alf.environments.load.name = CartPole-v1": 'alf.environments.load.name = "CartPole-v1"',
    "alf.environments.load.name=ALE/Pong-v5": 'alf.environments.load.name = "ALE/Pong-v5"',
    "load_envpool.name = envpool:Pong-v5": 'load_envpool.name = "envpool:Pong-v5"',
    "EpisodeStatistics.keys = (is_success,)": '"is_success"',
    "LearnerSettings.jit_compile = true": "True",
    "Experiment.seed = none": "None",
}


def test_a_text_without_quotation_marks(subtests):
    for line, right in UNQUOTED.items():
        with subtests.test(line):
            assert error_of(line).endswith(f": write {right}")
            assert ("a text needs quotation marks" in error_of(line)) == ('"' in right)


PARENTHESES = {
    "UnrollLearner.optimizer = @Adam": "UnrollLearner.optimizer = @Adam()",
    "UnrollLearner.optimizer = {'a': @Adam(), 'b': @a/Adam}": (
        "UnrollLearner.optimizer = {'a': @Adam(), 'b': @a/Adam()}"
    ),
    "Adam.learning_rate = @LinearSchedule": "Adam.learning_rate = @LinearSchedule()",
    "Experiment.policies = @Policies": "Experiment.policies = @Policies()",
    "Trainer.callbacks = (@Minimal,)": "Trainer.callbacks = (@Minimal(),)",
    "Population.settings = {'x.y': @a/Uniform}": "Population.settings = {'x.y': @a/Uniform()}",
    "Experiment.algorithm = @PPOAlgorithm()": "Experiment.algorithm = @PPOAlgorithm",
    "Experiment.policy = {'a': @SacPolicy()}": "Experiment.policy = {'a': @SacPolicy}",
    "Experiment.data_transformers = (@FrameStacker, @RewardScaling())": (
        "Experiment.data_transformers = (@FrameStacker, @RewardScaling)"
    ),
}


def test_parentheses_that_are_missing_or_too_many(subtests):
    for line, right in PARENTHESES.items():
        words = "with parentheses" if "()" in right.replace("@Adam(),", "") else "without parentheses"
        with subtests.test(line):
            assert error_of(line) == f"{line} must be {words}: write {right}"
            with own_config():
                parse_config([], [right])


def test_a_line_that_may_be_meant_is_left_alone(subtests):
    for line in (
        "Experiment.env = @MakesMinimal()",
        "Experiment.strategy = @MultiWorkerMirroredStrategy",
        "Population.mutation = @Mutation",
        "Minimal.limit = @Adam",
        "Adam.beta_1 = 0.5",
        "Adam.epsilon = 1e-5",
    ):
        with subtests.test(line), own_config():
            parse_config([], [line])
            assert line.partition(" = ")[0] in gin.config_str().replace("alf.optimizers.", "")


def test_what_gin_cannot_read_is_named(subtests):
    for line, words in {
        "Experiment.num_groups": "Couldn't parse statement",
        "Experiment.seed = = 1": "line 1): Experiment.seed = = 1",
        "Experiment.seed = (1,": "bindings: a bracket or a quotation mark is not closed",
    }.items():
        with subtests.test(line):
            error = error_of(line)
            assert error.startswith("bindings: ") and words in error


def test_macros_may_use_each_other():
    parse_config([], ["Minimal.limit = (%a, %b)", "a = %b", "b = %c", "c = 1"])
    assert gin.get_configurable("Minimal")().limit == (1, 1)


def test_a_macro_that_nothing_uses():
    lines = ["ImpalaAlgorithm.discount = 0.9", "entropy_weight = 0.1"]
    right = "ImpalaAlgorithm.entropy_weight = 0.1"
    assert error_of(*lines) == f"entropy_weight = 0.1 is a macro, which nothing uses; did you mean {right} ?"
    assert error_of(lines[0], "entropy_weigt = 0.1").endswith(f"; did you mean {right} ?")
    end = "; the name of a setting has a dot: `alf settings` lists them"
    assert error_of("a/qqq = (1, 2)") == f"a/qqq = (1, 2) is a macro, which nothing uses{end}"


def test_macros_that_are_used(tmp_path):
    parse_config([], ["seed = 3", "a/seed = %seed", "Experiment.policies = {'x': (%a/seed, 1)}"])
    gin.clear_config()
    # What used it is replaced by a later source.
    path = tmp_path / "mine.gin"
    path.write_text("seed = 3\nExperiment.seed = %seed\n")
    parse_config([str(path)], ["Experiment.seed = 4"])
    assert gin.query_parameter("Experiment.seed") == 4


def test_a_macro_goes_with_the_bindings_that_used_it():
    parse_config([], ["n = 3", "m = 4", "Population.max_failures = %n", "Experiment.num_groups = %m"])
    with pytest.raises(ConfigError, match="nothing reads"):
        take_bindings("alf.population")
    gin.get_configurable("Population")(
        settings={"Adam.epsilon": gin.get_configurable("Uniform")(0, 1)}, interval=1
    )
    take_bindings("alf.population")
    text = gin.config_str()
    assert "m = 4\n" in text and "Experiment.num_groups = %m\n" in text
    assert "n = 3" not in text and "Population.max_failures =" not in text


def import_no_name():
    from alf.errors import no_such_name  # noqa: F401


@pytest.mark.parametrize(
    "call, error, message",
    [
        (import_no_name, ImportError, "no_such_name"),  # keeps its traceback
        (lambda: importlib.import_module("no_such_package"), ConfigError, "no_such_package"),
    ],
)
def test_errors_of_imports(call, error, message):
    with pytest.raises(error, match=message), wrong_calls_are_config_errors():
        call()


def test_the_traceback_of_a_worker_process_is_not_lost(tmp_path, monkeypatch, subtests):
    """Gin raises an error again without its cause, which holds that traceback."""
    (tmp_path / "hints_failing_envs.py").write_text(
        "def divide():\n    return 1 / 0\n\n\ndef need_name():\n    from alf.errors import no_such_name\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    hints_failing_envs = importlib.import_module("hints_failing_envs")
    for name, error in {"divide": ZeroDivisionError, "need_name": ImportError}.items():
        with subtests.test(name):
            with pytest.raises(error) as caught, wrong_calls_are_config_errors():
                PythonEnvironment([getattr(hints_failing_envs, name)], seed=0, num_workers=1)
            assert f", in {name}\n" in str(caught.value.__cause__)


# Patterns of messages, and the calls.
FIRST = {
    "train lacks .*, what: name an env.*, in place of env='A-v0'": lambda: alf.train(env="A-v0"),
    "train lacks .*, in place of env_name='A-v0'": lambda: alf.train(env_name="A-v0", steps=3),
    "train lacks its first argument, what: name an .* or a run$": lambda: alf.train(steps=3),
    "sweep lacks .*env_id='A-v0'": lambda: alf.sweep(env_id="A-v0", root_dir="x"),
    "play lacks its first argument, run: name a run$": lambda: alf.play(num_episodes=1),
}


@pytest.mark.parametrize("message", FIRST)
def test_a_call_says_that_its_first_argument_is_missing(message):
    with pytest.raises(ConfigError, match=message):
        FIRST[message]()


def test_a_value_that_cannot_be_copied_is_told_when_it_is_bound():
    lock = threading.Lock()
    with own_config():
        with pytest.raises(ConfigError, match="load.name is .*partial.*_thread.lock.*: pass a function"):
            bind({"load.name": functools.partial(print, lock)})
        bind({"load.name": lambda: lock})


def test_a_call_says_what_it_lacks():
    with pytest.raises(ConfigError) as caught, wrong_calls_are_config_errors():
        load()
    assert str(caught.value).endswith(': write alf.environments.load.name = "CartPole-v1"')
    parse_config([], ['alf.environments.load.name = "CartPole-v1"', "alf.environments.load.num_worker = 0"])
    with pytest.raises(ConfigError) as caught, wrong_calls_are_config_errors():
        load(max_episode_steps=2)
    assert str(caught.value).endswith("; did you mean alf.environments.load.num_workers = 0 ?")


def fail_in_helper():
    def helper():
        pass

    helper(learning_rate=3)


def test_a_wrong_call_in_the_code_of_a_user_is_no_setting():
    """Also if there is a setting of this name, bound or of another library, or the call lacks an argument."""
    calls = {
        "unexpected keyword argument 'lr'": lambda: (lambda: 0)(lr=3),
        "unexpected keyword argument 'gamma'": lambda: (lambda: 0)(gamma=0.9),
        "unexpected keyword argument 'learning_rate'": fail_in_helper,
        "missing 1 required positional argument: 'name'": lambda: (lambda name: 0)(),
    }
    parse_config([], ["Adam.learning_rate = 0.1"])
    for text, call in calls.items():
        for make in (call, lambda call=call: PythonEnvironment([call], seed=0, num_workers=0)):
            with pytest.raises(TypeError, match=text) as caught, wrong_calls_are_config_errors():
                make()
            assert "is called" not in str(caught.value) and "write" not in str(caught.value)


def test_the_line_for_an_argument_that_a_function_has_passed_on():
    name, wrong = "alf.environments.load.name = 'ALE/Pong-v5'", "alf.environments.load.screen_siz = 42"
    parse_config([], [name, "alf.environments.load.batch_size = 1", wrong])
    with pytest.raises(ConfigError) as caught, wrong_calls_are_config_errors():
        load()
    assert str(caught.value).endswith("; did you mean load_atari.screen_size = 42 ?")
