# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Settings that no file can say are named in run.json; whoever lacks them gets one line with the remedy."""

import json

import pytest

import alf
from alf.callback import Callback
from alf.config.parsing import bind
from alf.config.registry import import_settings, own_config
from alf.errors import ConfigError, arguments_are_flags
from alf.evaluation.open_run import open_run
from alf.networks import ActorCriticNetwork
from alf.runs.experiment import Experiment
from alf.runs.untold import check_acting, check_training, list_untold

NAME = "alf.environments.load.name"
NETWORK = "alf.policies.ActorCriticPolicy.network"
CALLBACKS = "alf.training.Trainer.callbacks"

import_settings()


def make_network(*args, **kwargs):  # gin does not know it
    return ActorCriticNetwork(*args, fc_layer_params=(7,), **kwargs)


def make_env():
    return None


def test_what_no_file_can_say():
    with own_config():
        bind({"load.name": make_env, "eval/load.length": make_env, "Adam.epsilon": 0.1, "load.size": "x"})
        assert list_untold() == {NAME: make_env, "eval/alf.environments.load.length": make_env}


LACKING = {
    "environment": (
        [NAME],
        True,
        f"the run's {NAME} was made in a program, .*alf.evaluate.root_dir, env., or to alf.play the setting",
    ),
    "policy": (
        [NETWORK],
        False,
        f"the run's {NETWORK} was made in a program, .*load_agent.root_dir, policy=",
    ),
    "data transformers": (["alf.training.Experiment.data_transformers"], True, "policy="),
    "the user's own": (["own.Network.fn"], False, "policy="),
}


@pytest.mark.parametrize("what", LACKING)
def test_whoever_lacks_it_gets_one_line(what):
    names, makes_env, message = LACKING[what]
    with own_config(), pytest.raises(ConfigError, match=message):
        check_acting(names, makes_env)


def test_a_command_names_the_flag_and_takes_it():
    with own_config():
        with (
            arguments_are_flags("evaluate", ()),
            pytest.raises(ConfigError, match="--name=MODULE:CLASS"),
        ):
            check_acting([NAME], True)
        bind({"load.name": "CartPole-v1"})
        check_acting([NAME], True)


def test_what_does_not_act_is_not_missed():
    with own_config():
        check_acting(["alf.drivers.Monitoring.observers", "alf.training.Experiment.algorithm"], True)
        check_acting([NAME], False)


def test_a_run_goes_on_only_by_its_own_call():
    with own_config():
        with pytest.raises(ConfigError, match=f"the run's {NAME} .* by the call of alf.train that made it"):
            check_training([NAME])
        check_training(["alf.training.Trainer.evaluator"])  # a run may go on with another one


def test_a_run_that_goes_on_without_its_callbacks_says_so(caplog):
    with own_config():
        check_training([CALLBACKS])
    assert (
        f"the run's {CALLBACKS} was made in a program, and no file can say it: the run goes on" in caplog.text
    )
    caplog.clear()
    with own_config():
        bind({"Trainer.callbacks": (Callback(),)})
        check_training([CALLBACKS])
    assert not caplog.text


def test_collectors_are_not_asked_for_it():
    with own_config():
        bind({"load.name": make_env, "Experiment.num_collectors": 2})
        with pytest.raises(ConfigError, match=f"{NAME} is make_env: Experiment.num_collectors is 2, so name"):
            Experiment().make_parts()


@pytest.mark.parametrize("name", [NAME, NETWORK])
def test_another_process_is_not_asked_for_it(name):
    evaluator = alf.Evaluator(interval_steps=1, place="process")
    with own_config():
        bind({name: make_env})
        with pytest.raises(ConfigError, match=f"{name} is make_env: Evaluator.place is 'process'"):
            evaluator.open(None)


def test_a_trained_policy_of_another_network_is_not_taken_for_the_usual_one(tmp_path):
    """The variables of the usual network may have the same shapes."""
    run = tmp_path / "run"
    settings = {"ActorCriticPolicy.network": make_network, "num_envs": 2, "num_workers": 0}
    _, trained = alf.train("CartPole-v1", steps=64, root_dir=run, **settings)
    assert json.loads((run / "run.json").read_text())["untold"] == [NETWORK]
    with pytest.raises(ConfigError, match=f"{NETWORK} was made in a program"):
        alf.load_agent(run)
    with pytest.raises(ConfigError, match="policy="), open_run(run, 1, {}):
        pass
    assert alf.load_agent(run, policy=trained.learner.policy.copy()).observation_spec.shape == (4,)
    (run / "operative_config.gin").write_text("")  # as of a run that was built without gin
    with pytest.raises(ConfigError, match=r"was built in Python, .* alf.load_agent\(root_dir, policy=...\)"):
        alf.load_agent(run)
