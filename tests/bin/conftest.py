# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Short runs of many kinds, and the commands, in this process and in forks."""

import contextlib
import functools
import sys
from pathlib import Path

import gin
import pytest
from absl import flags

from alf.bin.main import COMMANDS
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.runs.run_dir import RunDir
from alf.training import Experiment
from tests.bin.calls import call
from tests.bin.forks import Forks
from tests.builders import build_trainer, driver_of
from tests.programs import ROOT, environment

OWN_MODULE = """
import gin, gymnasium, numpy as np
from gymnasium import spaces

@gin.configurable
class Uneven(gymnasium.Env):
    '''Episodes of 1 to 300 steps; a reward is the action, plus the share of the episode that is over.'''

    observation_space = spaces.Dict({"time": spaces.Box(0, 1, (1,)), "turn": spaces.Box(0, 1, (2,))})
    action_space = spaces.Box(-1, 1, (1,))
    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}
    made = 0

    def __init__(self, render_mode=None, longest=300):
        Uneven.made += 1
        self.render_mode, self.longest = render_mode, longest

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = 1 + int(self.longest * self.np_random.random() ** 4)
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        self.count += 1
        reward = float(action[0]) + self.count / self.length
        return self.observe(), reward, self.count == self.length, False, {}

    def observe(self):
        turn = np.eye(2, dtype=np.float32)[self.count % 2]
        return {"time": np.array([self.count / self.length], np.float32), "turn": turn}

    def render(self):
        frame = np.zeros((48, 65, 3), np.uint8)
        frame[:, self.count % 65] = 255
        return frame


gymnasium.register("Uneven-v0", Uneven)
"""
COMMON = """
Experiment.num_groups = 1
Experiment.seed = 0
Experiment.unroll_length = 4
StopCriteria.num_iterations = 2
Experiment.num_envs = 2
UnrollLearner.optimizer = @Adam()
Adam.learning_rate = 0.01
ActorCriticNetwork.fc_layer_params = (8,)
"""
IN_PROCESS = "alf.environments.load.num_workers = 0\n"
CARTPOLE = 'alf.environments.load.name = "CartPole-v1"\n' + IN_PROCESS
REPLAY = """
Experiment.exp_replayer = "uniform"
UniformReplayer.capacity = 1000
ReplayLearner.mini_batch_size = 4
ReplayLearner.mini_batch_length = 1
ReplayLearner.initial_collect_steps = 1
ReplayLearner.replay_ratio = 0.25
"""
KINDS = {
    "cartpole": COMMON + CARTPOLE,
    "policies": COMMON
    + CARTPOLE
    + """
        Experiment.policies = @Policies()
        Policies.names = ("a", "b", "c")
        Policies.frozen = ("c",)
        Policies.num_sequences = 1
      """,
    "lstm": COMMON + CARTPOLE + "ActorCriticNetwork.rnn = @LSTM\nLSTM.units = 4\n",
    "own": "import uneven_env\n" + COMMON + "alf.environments.load.name = @Uneven\n" + IN_PROCESS,
    "dict": COMMON + 'alf.environments.load.name = "uneven_env:Uneven-v0"\n' + IN_PROCESS,
    "mujoco": COMMON
    + """
        Experiment.algorithm = @PPOAlgorithm
        alf.environments.load.name = "HalfCheetah-v5"
        alf.environments.load.max_episode_steps = 20
        alf.environments.load.num_workers = 0
        Experiment.data_transformers = (@ObservationNormalizer,)
      """,
    "atari": COMMON
    + """
        alf.environments.load.name = "ALE/Pong-v5"
        load_atari.screen_size = 42
        load_atari.max_episode_frames = 200
      """,
    "game": COMMON
    + """
        Experiment.algorithm = @PPOAlgorithm
        alf.environments.load.name = "pettingzoo:pettingzoo.classic.connect_four_v3:env"
        ActorCriticPolicy.action_mask_key = "action_mask"
      """
    + IN_PROCESS,
    "dqn": COMMON
    + CARTPOLE
    + REPLAY
    + """
        Experiment.policy = @alf.EpsilonGreedyPolicy
        Experiment.algorithm = @DqnAlgorithm
        QValueNetwork.fc_layer_params = (8,)
        ReplayLearner.optimizer = @Adam()
      """,
    "sac": COMMON
    + REPLAY
    + """
        Experiment.policy = @SacPolicy
        Experiment.algorithm = @SacAlgorithm
        alf.environments.load.name = "Pendulum-v1"
        alf.environments.load.max_episode_steps = 20
        alf.environments.load.num_workers = 0
        ReplayLearner.optimizer = {"actor": @Adam(), "critic": @Adam(), "alpha": @Adam()}
        PolicyNetwork.fc_layer_params = (8,)
        CriticsNetwork.fc_layer_params = (8,)
      """,
}
for _kind in ("dqn", "sac"):  # nothing reads it
    for _line in ("ActorCriticNetwork.fc_layer_params = (8,)\n", "UnrollLearner.optimizer = @Adam()\n"):
        KINDS[_kind] = KINDS[_kind].replace(_line, "")


def write_config(folder, kind):
    """Writes the gin file of a kind and the module beside it into a folder; returns the file's `Path`."""
    path = Path(folder) / "run.gin"
    path.parent.mkdir(exist_ok=True)
    path.with_name("uneven_env.py").write_text(OWN_MODULE)
    path.write_text("\n".join(line.strip() for line in KINDS[kind].splitlines()))
    return path


STUDY = """
Population.settings = {
    "Adam.learning_rate": @rate/LogUniform(),
    "ImpalaAlgorithm.entropy_weight": @entropy/Uniform(),
}
rate/LogUniform.low = 1e-4
rate/LogUniform.high = 1e-2
entropy/Uniform.low = 0.0
entropy/Uniform.high = 0.1
Population.seed = 0
Population.interval = 200
Experiment.intra_op_threads = 1
StopCriteria.num_iterations = None
"""


def write_study(folder, settings=STUDY):
    """Writes the gin file of a population on CartPole, with some settings in place of its own."""
    path = write_config(folder, "cartpole")
    replaced = {line.partition(" = ")[0] for line in settings.splitlines()} - {""}
    kept = [line for line in path.read_text().splitlines() if line.partition(" = ")[0] not in replaced]
    path.write_text("\n".join(kept) + settings)
    return path


@pytest.fixture(scope="session")
def root_of(tmp_path_factory):
    """A function from a kind, a key of KINDS, to the root_dir of a run, which is trained once."""

    @functools.cache
    def train(kind):
        folder, path = tmp_path_factory.mktemp(kind), list(sys.path)
        gin_file = write_config(folder, kind)
        try:
            with own_config():
                parse_config([str(gin_file)], [])
                build_trainer(str(folder / "run"), driver_of(Experiment())).train()
        finally:
            sys.path[:] = path
        return str(folder / "run")

    return train


@pytest.fixture(scope="session")
def forks(tmp_path_factory):
    """Runs a command, or another function, in a fork of a process that has imported them all."""
    modules = ["tests.quiet_start", "alf.training", *(f"alf.bin.{name}" for name in COMMANDS)]
    modules += [
        "alf.tools.env_check",
        "alf.tools.throughput",
        "alf.evaluation.exporter",
        "alf.plots.picture",
        "tests.bin.fork_jobs",
    ]
    folder = tmp_path_factory.mktemp("forks")
    # SDL, which draws CartPole, misses the variable in a container, and writes a line.
    env = {"XDG_RUNTIME_DIR": str(folder), **environment(PYTHONPATH=str(ROOT))}
    forks = Forks(folder, env, *modules)
    yield forks
    forks.close()


@pytest.fixture
def command(capsys, monkeypatch):
    """A function that runs the subcommand of a module (`call`); returns status, stdout and error lines."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    monkeypatch.setattr(sys, "path", list(sys.path))  # parse_config adds to it

    def run(module, *arguments, **values):
        gin.clear_config()
        status = call(module, *arguments, **values)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, [line for line in err.splitlines() if line.startswith("error: ")]

    return run


@pytest.fixture
def run_in_used_folder(command):
    """A function (module, output, **flags): as `command`, while another process seems to write there."""

    def run(module, output, **given):
        with contextlib.closing(RunDir(str(output))) as other:
            other.lock()
            return command(module, output=str(output), **given)

    return run
