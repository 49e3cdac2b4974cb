# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Discrete(start=n), tuples and dicts with images, end to end: training, an agent, an export."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import alf
from alf.evaluation.exporter import export
from tests.example_runs import EXAMPLES, build

pytestmark = pytest.mark.programs


@pytest.fixture
def learn(tmp_path):
    """A function from the text of a gin file to an agent, trained until the file's target is reached."""

    def learn(text):
        (tmp_path / "own.gin").write_text(text)
        limit = "StopCriteria.num_env_steps = 60_000"
        finished, reason = build(tmp_path / "own.gin", tmp_path / "run", [limit]).train()
        assert finished and reason.startswith("target_return"), reason
        return alf.load_agent(str(tmp_path / "run"))

    return learn


def read(name):
    """An example, without its limit of wall time."""
    lines = (EXAMPLES / name).read_text().splitlines()
    return "\n".join(line for line in lines if "max_seconds" not in line)


def export_function(agent, folder):
    """What an export of the agent's policy does, and the model that keeps its variables."""
    export(agent.policy, str(folder))
    model = tf.saved_model.load(str(folder))
    return model.signatures["serving_default"], model


REPLAY = (
    "import alf.examples.spaces\nExperiment.num_groups = 1\nExperiment.seed = 0\n"
    "Experiment.unroll_length = 8\nalf.environments.load.name = 'Lift-v0'\nExperiment.num_envs = 8\n"
    "Experiment.exp_replayer = 'uniform'\nUniformReplayer.capacity = 10_000\n"
    "ReplayLearner.mini_batch_size = 64\nReplayLearner.initial_collect_steps = 500\n"
    "ReplayLearner.replay_ratio = 0.25\nAdam.learning_rate = 3e-3\n"
    "StopCriteria.target_return = 0.75\nStopCriteria.num_env_steps = 20_000\n"
)
# Of each algorithm, its gin file or what makes one.
LIFT = {
    "ppo": read("spaces_discrete.gin"),
    "impala": read("spaces_discrete.gin").replace("PPOAlgorithm", "ImpalaAlgorithm"),
    "dqn": REPLAY + "Experiment.policy = @alf.EpsilonGreedyPolicy\n"
    "Experiment.algorithm = @DqnAlgorithm\nDqnAlgorithm.discount = 0.9\nDqnAlgorithm.tau = 0.05\n"
    "DqnAlgorithm.target_update_period = 1\nalf.EpsilonGreedyPolicy.epsilon = 0.1\n"
    "QValueNetwork.fc_layer_params = (32,)\nReplayLearner.optimizer = @Adam()\n",
    "sac": REPLAY + "Experiment.policy = @SacPolicy\nExperiment.algorithm = @SacAlgorithm\n"
    "SacAlgorithm.discount = 0.9\nSacAlgorithm.target_entropy = 0.1\nSacAlgorithm.tau = 0.05\n"
    "PolicyNetwork.fc_layer_params = (32,)\nCriticsNetwork.fc_layer_params = (32,)\n"
    "ReplayLearner.optimizer = {'actor': @Adam(), 'critic': @Adam(), 'alpha': @Adam()}\n",
}


@pytest.mark.parametrize("name", LIFT)
def test_integers_may_count_from_anywhere(name, learn, tmp_path):
    agent = learn(LIFT[name])
    floors = np.arange(1, 6)
    spec = agent.action_spec
    assert (int(spec.minimum), int(spec.maximum)) == (-1, 1)
    action, _ = agent.predict(floors)
    assert action.dtype == np.int64
    np.testing.assert_array_equal(action, np.ones(5))
    if name == "ppo":
        exported, _model = export_function(agent, tmp_path / "exported")
        np.testing.assert_array_equal(exported(observation=tf.constant(floors))["action"], np.ones(5))


def test_tuples(learn, tmp_path):
    agent = learn(read("spaces_tuple.gin"))
    rng = np.random.default_rng(0)
    kinds, weights = np.array([0, 1, 2]), np.array([[0.2], [0.5], [0.8]], np.float32)
    sizes = rng.random((3, 2, 2), np.float32)
    (chutes, forces), _ = agent.predict((kinds, (weights, sizes)))
    np.testing.assert_array_equal(chutes, kinds + 1)
    assert forces[0] < forces[1] < forces[2]
    exported, _model = export_function(agent, tmp_path / "exported")
    inputs = dict(observation_0=kinds, observation_1_0=weights, observation_1_1=sizes)
    outputs = exported(**{k: tf.constant(x) for k, x in inputs.items()})
    np.testing.assert_array_equal(outputs["action_0"], chutes)
    np.testing.assert_allclose(outputs["action_1"], forces, rtol=1e-4, atol=1e-5)


def test_dicts_of_images_and_vectors(learn, tmp_path):
    agent = learn(read("spaces_dict.gin"))
    env = gymnasium.make("Lamp-v0")
    observation, _ = env.reset(seed=1)
    rows, answers = [], []
    for _ in range(60):
        rows.append(observation)
        answers.append(env.unwrapped._answer)
        observation, *_ = env.step(0)
    assert set(answers) == {0, 1, 2, 3}
    batch = {key: np.stack([row[key] for row in rows]) for key in observation}
    action, _ = agent.predict(batch)
    # Greedy, it answers all but a few; without the picture, or the sign, it would answer one half.
    assert np.sum(action == answers) >= 54
    exported, _model = export_function(agent, tmp_path / "exported")
    outputs = exported(**{f"observation_{key}": tf.constant(x) for key, x in batch.items()})
    np.testing.assert_array_equal(outputs["action"], action)
