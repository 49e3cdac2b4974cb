# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Training on a machine with a GPU, shown without one: where everything is, and what crosses.

TensorFlow itself places the operations, for a device that has the kernels of a GPU (pretend_gpu.cc). An
operation without a kernel there, or a queue whose users need two devices, is an error as on a real machine.
"""

import json
import os
from pathlib import Path

import pytest
import tensorflow as tf

from tests.gpu import pretend
from tests.programs import ROOT, ForkServer, environment

GOLDEN = Path(__file__).with_name("traffic.json")
NEEDS_COMPILER = pytest.mark.skipif(pretend.COMPILER is None, reason="there is no C++ compiler (g++ or $CXX)")
pytestmark = [pytest.mark.programs, NEEDS_COMPILER]

ON_GPU = ["learner_device='GPU:0'", "jit_compile=False"]
LOCKSTEP = ["mode='lockstep'", "num_groups=2", "num_envs=16", "unroll_length=16"]
# Updates of an iteration, whatever the episodes are.
EIGHT = ["initial_collect_steps=256", "replay_ratio=None", "num_updates_per_train_iter=8"]
WORKLOADS = {
    "impala, CartPole, actors on the CPU": ["impala", "CartPole-v1", *LOCKSTEP],
    "impala, CartPole, actors on the GPU": ["impala", "CartPole-v1", *LOCKSTEP, "actor_device='GPU:0'"],
    "ppo, CartPole": ["ppo", "CartPole-v1", *LOCKSTEP],
    "dqn, CartPole": ["dqn", "CartPole-v1", *LOCKSTEP, *EIGHT],
    "sac, Pendulum": ["sac", "Pendulum-v1", *LOCKSTEP, *EIGHT],
    "impala, Pong": ["impala", "ALE/Pong-v5", *LOCKSTEP],
    "ppo, Pong": ["ppo", "ALE/Pong-v5", *LOCKSTEP, "num_epochs=1"],
    "dqn, Pong": ["dqn", "ALE/Pong-v5", *LOCKSTEP, *EIGHT],
}
EXAMPLE_ON_GPU = ["Experiment.learner_device = 'GPU:0'", "LearnerSettings.jit_compile = False"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A function that calls one of train_program.py in a fork and returns its result."""
    folder = tmp_path_factory.mktemp("forks")
    pretend.build()
    variables = environment(PYTHONPATH=str(ROOT), TF_CPP_MIN_LOG_LEVEL="3")
    server = ForkServer(folder, variables, "tests.gpu.train_program", "alf.training")

    def run(*args):
        done = server.run("tests.gpu.train_program:main", *args, cwd=ROOT)
        assert done.status == 0, done.err[-3000:]
        return json.loads(done.out.splitlines()[-1])

    yield run
    server.close()


@pytest.mark.parametrize(
    "algorithm, env", [("ppo", "CartPole-v1"), ("dqn", "CartPole-v1"), ("sac", "Pendulum-v1")]
)
def test_a_run_of_small_networks_hides_the_gpu(run, tmp_path, algorithm, env):
    result = run("preset", env, algorithm, 2000, tmp_path / "run")
    assert result["devices"] == ["/device:CPU:0"]
    assert result["learner"] == result["actors"] == "CPU:0"
    assert result["recorded"] == {"learner": "CPU:0", "actors": "CPU:0"}
    assert result["updates"] > 0


def test_updates_of_large_networks_are_made_on_the_gpu(run, tmp_path):
    settings = ["num_envs=8", "unroll_length=16", "jit_compile=False"]
    result = run("preset", "ALE/Pong-v5", "impala", 500, tmp_path / "run", *settings)
    assert result["recorded"] == {"learner": "GPU:0", "actors": "CPU:0"}
    assert result["weights"] == ["GPU:0"] and result["acting weights"] == ["CPU:0"]


@pytest.mark.parametrize(
    "algorithm, env, settings",
    [
        ("impala", "CartPole-v1", ["actor_device='GPU:0'"]),
        ("impala", "CartPole-v1", ["mode='overlap'"]),
        ("dqn", "CartPole-v1", ["mode='poll'"]),
        ("impala", "CartPole-v1", ["prefetch=True"]),
        ("ppo", "CartPole-v1", ["mode='lockstep'"]),
        ("ppo", "CartPole-v1", ["mode='async'", "num_actor_queues=1", "actor_device='GPU:0'"]),
        ("dqn", "CartPole-v1", ["actor_device='GPU:0'"]),
        ("sac", "Pendulum-v1", []),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else x,
)
def test_a_learner_on_the_gpu(run, tmp_path, algorithm, env, settings):
    result = run("preset", env, algorithm, 3000, tmp_path / "run", *ON_GPU, *settings)
    actors = "GPU:0" if "actor_device='GPU:0'" in settings else "CPU:0"
    assert result["learner"] == "GPU:0" and result["weights"] == ["GPU:0"]
    assert result["actors"] == actors and result["acting weights"] == [actors]
    assert result["counters"] == ["CPU:0"]
    assert result["buffers"] == (["CPU:0"] if algorithm in ("dqn", "sac") else [])
    assert result["updates"] > 0


@pytest.mark.parametrize(
    "name, changes",
    [
        ("appo_memory.gin", []),  # a GRU
        ("selfplay_connect_four.gin", []),  # several policies and a league
        ("simple_spread.gin", []),
        ("mixed_pendulum.gin", ["ReplayLearner.initial_collect_steps = 100"]),
        ("spaces_dict.gin", []),
        ("appo_halfcheetah.gin", []),  # an observation normalizer
    ],
)
def test_examples_with_their_learner_on_the_gpu(run, tmp_path, name, changes):
    result = run("example", name, tmp_path / "run", *EXAMPLE_ON_GPU, *changes)
    assert result["learner"] == "GPU:0" and result["weights"] == ["GPU:0"]
    assert result["counters"] == ["CPU:0"]


def test_what_histograms_show_is_kept_on_the_host(run, tmp_path):
    settings = ["debug_summaries=True", "summarize_grads_and_vars=True"]
    result = run("preset", "CartPole-v1", "impala", 1000, tmp_path / "run", *ON_GPU, *settings)
    assert result["learner"] == "GPU:0" and result["for histograms"] == ["CPU:0"]


def test_drivers_and_learners_made_by_hand(run):
    results = run("by_hand")
    assert [device for device, _, _ in results] == ["GPU:0"] * 6
    assert all(updates > 0 for _, updates, _ in results)
    assert [buffer for _, _, buffer in results] == [[]] * 2 + [["CPU:0"]] * 4


def test_an_optimizer_is_beside_its_weights(run):
    assert run("optimizers") == [["CPU:0"], ["GPU:0"]]


def test_environments_in_the_graph(run):
    assert run("graph_environments") == [["GPU:0", actors, 3] for actors in ("CPU:0", "GPU:0") * 2]


def test_a_part_of_the_buffer_from_a_file(run, tmp_path):
    result = run("offline", tmp_path)
    assert result["learner"] == "GPU:0" and result["updates"] > 0


def test_a_run_goes_on_from_the_gpu_to_the_cpu_and_back(run, tmp_path):
    places = []
    for i, settings in enumerate([ON_GPU, ["learner_device='CPU:0'"], ON_GPU], start=1):
        result = run("preset", "CartPole-v1", "impala", 2000 * i, tmp_path / "run", *settings)
        places.append((result["learner"], result["updates"]))
    assert [place for place, _ in places] == ["GPU:0", "CPU:0", "GPU:0"]
    assert 0 < places[0][1] < places[1][1] < places[2][1]


def test_evaluations_and_agents(run, tmp_path):
    result = run("agents", tmp_path)
    assert result["learner"] == "GPU:0" and result["batches"] == ["GPU:0"]
    assert result["evaluation"] == result["loaded"] == ["CPU:0"]
    assert result["bytes to host of an action"] < 100  # and not the weights


def test_an_exported_model_does_not_depend_on_the_gpu(run, tmp_path):
    device, named = run("export", tmp_path)
    assert device == "GPU:0" and not any("GPU" in name for name in named)


def test_what_crosses_between_host_and_gpu(run):
    """The numbers of copies, and of bytes, of a collection, of its way to the learner and of an update.

    With ALF_WRITE_GOLDEN=1 in the environment it writes them anew.
    """
    counts = {name: run("traffic", *args) for name, args in WORKLOADS.items()}
    for name in ("impala, Pong", "ppo, Pong", "dqn, Pong"):  # no image comes back
        assert counts[name]["train"]["bytes to host"] < 20_000
    counts["tensorflow"] = tf.__version__
    if os.environ.get("ALF_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(counts, indent=1) + "\n")
    expected = json.loads(GOLDEN.read_text())
    if tf.__version__ != expected["tensorflow"]:
        pytest.skip(f"these are the numbers of TensorFlow {expected['tensorflow']}")
    assert counts == expected
