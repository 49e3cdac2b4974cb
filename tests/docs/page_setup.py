# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What blocks of the pages need that a reader knows or has: runs, names in Python, the rest of a gin file."""

from typing import NamedTuple

# What a gin block of a few lines is a part of: environments and a run. The block comes after them, so it may
# say otherwise.
CARTPOLE = """
alf.environments.load.name = "CartPole-v1"
Experiment.num_envs = 8
"""
RUN = """
Experiment.num_groups = 2
Experiment.unroll_length = 4
Experiment.seed = 0
UnrollLearner.optimizer = @Adam()
StopCriteria.num_iterations = 1
"""
DQN = """
Experiment.policy = @alf.EpsilonGreedyPolicy
Experiment.algorithm = @DqnAlgorithm
Experiment.exp_replayer = "uniform"
UniformReplayer.capacity = 1000
ReplayLearner.replay_ratio = 0.25
ReplayLearner.mini_batch_size = 4
"""
PICTURES = """
import page_envs
alf.environments.load.name = "Picture-v0"
Experiment.data_transformers = (@FrameStacker,)
ActorCriticNetwork.encoder = @NatureEncoder
"""
GAME = """
Experiment.algorithm = @PPOAlgorithm
alf.environments.load.name = "pettingzoo:pettingzoo.classic.connect_four_v3:env"
"""
MASK = 'ActorCriticPolicy.action_mask_key = "action_mask"\n'
RANGE = "LogUniform.low = 1e-4\nLogUniform.high = 1e-3\n"


class Rest(NamedTuple):
    """The rest of a gin file: what stands before a block, after `envs` and `RUN`, and what comes after it."""

    before: str = ""
    after: str = ""
    envs: str = CARTPOLE


# By page and first line of the block.
RESTS = {
    ("docs/data.md", "RewardWeighting.weights = (1.0, 0.5, -0.1)"): Rest(
        'import page_envs\nalf.environments.load.name = "ThreeRewards-v0"\n'
    ),
    ("docs/algorithms/own.md", "import laplace"): Rest('alf.environments.load.name = "Pendulum-v1"\n'),
    ("docs/replay.md", "import my_script"): Rest(DQN),
    ("docs/replay.md", "Experiment.behavior = @load_behavior"): Rest(DQN),
    ("docs/multi_agent.md", "Experiment.env = @load_pettingzoo"): Rest(
        "import page_envs\nExperiment.algorithm = @PPOAlgorithm\n", envs=""
    ),
    ("docs/multi_agent.md", 'ActorCriticPolicy.action_mask_key = "action_mask"'): Rest(GAME),
    (
        "docs/networks.md",
        'NatureEncoder.channels = "last"        # or "first"; of ImpalaResEncoder the same',
    ): Rest(PICTURES),
    ("docs/policies.md", "Experiment.policies = @Policies()"): Rest("Experiment.algorithm = @PPOAlgorithm\n"),
    ("docs/policies.md", "Experiment.policies = @League()"): Rest(GAME + MASK, "League.num_sequences = 4\n"),
    ("docs/population.md", "Experiment.policies = @PolicyPopulation()"): Rest(
        "Experiment.algorithm = @PPOAlgorithm\n" + RANGE
    ),
    ("docs/migration/alf_pytorch.md", "Experiment.algorithm = @PPOAlgorithm"): Rest(envs=""),
    ("docs/migration/sb3.md", 'Experiment.algorithm = "ppo"'): Rest(
        after="UnrollLearner.num_minibatches = 1\nUnrollLearner.recurrence = None\n", envs=""
    ),
    ("docs/sweep.md", "Sweep.settings = {"): Rest(
        "import alf.studies.settings\nExperiment.algorithm = @PPOAlgorithm\n"
    ),
    ("docs/environments.md", 'alf.environments.load.name = "ALE/Pong-v5"'): Rest(
        after="ActorCriticNetwork.fc_layer_params = (8,)\n"
    ),
}

# By page: what Python blocks use that the text around them names.
_ENVS = """
import alf
from alf.learner import optimizers
from alf.algorithms import ImpalaAlgorithm
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs
from alf.environments import load
from alf.learner import UnrollLearner
from alf.policies import ActorCriticPolicy
import tensorflow as tf

envs = [load("CartPole-v1", batch_size=2)]
specs = EnvSpecs(envs)
policy = ActorCriticPolicy(specs.observation, specs.action)
learner = UnrollLearner(ImpalaAlgorithm(policy), optimizers.Adam())
"""
PYTHON = {
    "docs/tensorboard.md": _ENVS,
    "docs/multi_agent.md": "from mpe2.simple_spread_v3 import parallel_env as MyGame",
    "docs/use.md": "import numpy as np\nobservation, state = np.zeros(4, np.float32), None",
}

# By page: the runs of CartPole that it talks of.
RUNS = {
    "docs/algorithms/own.md": ["runs/cartpole"],
    "docs/evaluation.md": ["runs/cartpole"],
    "docs/reproducibility.md": ["runs/cartpole"],
    "docs/use.md": ["runs/cartpole"],
    "docs/export.md": ["runs/cartpole"],
    "docs/plots.md": ["runs/cartpole", "runs/ppo", "runs/vtrace"],
    "docs/replay.md": ["runs/expert"],
    "docs/security.md": ["runs/theirs"],
}

# What is added to commands, and the steps of `alf.train`, so that they end soon.
NUM_STEPS = 2_000
_SHORT_RUN = ["--StopCriteria.num_iterations=1", "--StopCriteria.target_return=None"]
SHORTER = {
    "train": _SHORT_RUN,
    "benchmark": ["--measure_seconds=0.2"],
    "evaluate": ["--num_episodes=2"],
    "play": ["--num_episodes=1"],
}
