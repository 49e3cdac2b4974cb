# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A program: trains on a machine that has a GPU as far as TensorFlow knows.

`train_program.py NAME [ARGUMENT...]` calls a function below and prints its result as JSON.
"""

import functools
import json
import os
import sys
import tempfile

import alf  # before TensorFlow
from tests.builders import build_learner
from tests.gpu import pretend

pretend.load()  # before anything looks for devices

import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel  # noqa: E402

from alf.environments import load  # noqa: E402
from alf.training import Evaluator  # noqa: E402
from tests.example_runs import EXAMPLES, build  # noqa: E402

# XLA has no compiler for a device that is none.
ON_GPU = {"learner_device": "GPU:0", "jit_compile": False}


def preset(env, algorithm, steps, root_dir, *settings):
    """Trains with `alf.train`, with settings NAME=VALUE; returns where what was."""
    values = {name: eval(value) for name, _, value in (x.partition("=") for x in settings)}
    agent, run = alf.train(env, algorithm, int(steps), root_dir, **values)
    assert agent.predict(zeros(agent.observation_spec))[0] is not None
    return describe(run)


def agents(folder):
    """Where evaluations and loaded agents act and batches are prefetched, and what crosses for an action."""
    batches, evaluators = [], []

    def make_evaluator():
        make_env = functools.partial(load, "CartPole-v1", 1)
        evaluators.append(Evaluator(interval_steps=100, num_episodes=1, env=make_env))
        return evaluators[0]

    settings = {**ON_GPU, "evaluator": make_evaluator, "prefetch": True}

    class Notes(alf.Callback):
        """Notes where batches are when the learner gets them."""

        def on_begin(self, trainer):
            observe = trainer.learner.observe
            trainer.learner.observe = lambda x: (batches.append(x.reward.backing_device[-5:]), observe(x))

    run = alf.train("CartPole-v1", "impala", 1000, f"{folder}/run", callbacks=[Notes()], **settings).run
    agent, loaded = alf.policies.Agent(run.learner.policy), alf.load_agent(f"{folder}/run")
    agent.predict([0.0] * 4)
    before = pretend.read_traffic()
    agent.predict([0.0] * 4)
    crossed = pretend.read_traffic()["bytes to host"] - before["bytes to host"]
    return {
        "learner": run.learner.device,
        "evaluation": devices_of(evaluators[0]._policy.trainable_variables),
        "loaded": devices_of(loaded.policy.trainable_variables),
        "bytes to host of an action": crossed,
        "batches": sorted(set(batches)),
    }


def export(folder):
    """Exports a policy that is on the GPU; returns its device, and the devices that the models name."""
    from alf.evaluation import exporter

    agent, run = alf.train("CartPole-v1", "impala", 500, f"{folder}/run", **ON_GPU)
    named = set()
    for tf_agents in (False, True):
        exporter.export(agent.policy, f"{folder}/model_{tf_agents}", tf_agents=tf_agents)
        with open(f"{folder}/model_{tf_agents}/saved_model.pb", "rb") as file:
            model = SavedModel.FromString(file.read()).meta_graphs[0]
        functions = [function.node_def for function in model.graph_def.library.function]
        nodes = [node for part in (model.graph_def.node, *functions) for node in part]
        variables = [node.variable for node in model.object_graph_def.nodes if node.HasField("variable")]
        named |= {x.device[-5:] for x in [*nodes, *variables]}
    return [run.learner.device, sorted(named)]


def example(name, root_dir, *changes):
    """Trains an example for 2 iterations."""
    changes = ["StopCriteria.num_iterations = 2", *changes]
    run = build(EXAMPLES / name, root_dir, changes)
    run.train()
    return describe(run)


def describe(run):
    learner, policy = run.learner, getattr(run.driver, "_acting", run.driver.policy)
    with open(os.path.join(run.root_dir, "run.json")) as file:
        recorded = json.load(file)["devices"]
    buffers = [getattr(x.replayer, "rows", ()) for x in learner.learners.values()]
    kept = [v for x in learner.learners.values() for v in x._update._last_values._kept.values()]
    return {
        "updates": int(learner.progress.updates),
        "learner": learner.device,
        "actors": run.driver.actor_device,
        "recorded": recorded,
        "weights": devices_of(learner.policy.trainable_variables),
        "acting weights": devices_of(policy.trainable_variables),
        "counters": devices_of(learner.counters),
        "buffers": devices_of(tf.nest.flatten(buffers)),
        "for histograms": devices_of(kept),
        "devices": [x.name for x in tf.config.list_logical_devices()],
    }


def devices_of(variables):
    return sorted({v.device[-5:] for v in variables})


def zeros(spec):
    return tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype).numpy(), spec)


def traffic(algorithm, env, *settings):
    """Counts what crosses in a train iteration of a workload: when it collects, observes and updates."""
    values = {name: eval(value) for name, _, value in (x.partition("=") for x in settings)}
    counts = {}

    class Counts(alf.Callback):
        """Counts in the 4th iteration, when all graphs are traced."""

        def on_train_iter(self, trainer, summary):
            if trainer.counters["iterations"] == 3:
                counted(trainer.driver, "collect", counts)
                counted(trainer.learner, "observe", counts)
                counted(trainer.learner, "train", counts)
            elif trainer.counters["iterations"] == 4:
                trainer.stop("counted")

    with tempfile.TemporaryDirectory() as folder:
        alf.train(env, algorithm, 10**6, f"{folder}/run", callbacks=[Counts()], seed=0, **ON_GPU, **values)
    return counts


def counted(owner, name, counts):
    """Makes a method note what crosses during a call."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def call(*args):
        before = pretend.read_traffic()
        result = method(*args)
        after = pretend.read_traffic()
        counts[name] = {key: after[key] - before[key] for key in after}
        return result

    setattr(owner, name, call)


def offline(folder):
    """Trains from environments and from the replay buffer of another run."""
    settings = {**ON_GPU, "initial_collect_steps": 200}
    alf.train("CartPole-v1", "dqn", 600, f"{folder}/first", **settings, **{"Checkpoints.replay_buffer": True})
    settings["offline_buffer"] = f"{folder}/first/checkpoints/replay_buffer.npz"
    return describe(alf.train("CartPole-v1", "dqn", 600, f"{folder}/second", **settings).run)


def graph_environments():
    """Trains in environments whose steps are operations of TensorFlow, by all drivers."""
    from alf.algorithms import ImpalaAlgorithm
    from alf.drivers import AsyncOffPolicyDriver, DriverSettings, EnvSpecs, SyncOffPolicyDriver
    from alf.learner.optimizers import Adam
    from alf.policies import ActorCriticPolicy
    from alf.tools.throughput import TrainIteration
    from tests.adapters.graph_environments import CountingTFEnvironment

    results = []
    for driver_class, actor_device in (
        (AsyncOffPolicyDriver, "auto"),
        (AsyncOffPolicyDriver, "GPU:0"),
        (SyncOffPolicyDriver, "auto"),
        (SyncOffPolicyDriver, "GPU:0"),
    ):
        envs = [CountingTFEnvironment(2, 4, i) for i in range(2)]
        specs = EnvSpecs(envs)
        learner = build_learner(
            ImpalaAlgorithm(ActorCriticPolicy(specs.observation, specs.action)), Adam(1e-3)
        )
        driver = driver_class(envs, learner.policy, 8, DriverSettings(actor_device=actor_device))
        driver.start()
        train_iteration = TrainIteration(driver, learner)
        for _ in range(3):
            train_iteration()
        driver.stop()
        results.append([learner.device, driver.actor_device, int(learner.progress.updates)])
    return results


def optimizers():
    """Where the optimizer's state is if the weights are on the CPU, and on the GPU."""
    from alf.algorithms import ImpalaAlgorithm
    from alf.drivers import EnvSpecs
    from alf.learner.optimizers import Adam
    from alf.policies import ActorCriticPolicy

    specs, places = EnvSpecs([load("CartPole-v1", 1, num_workers=0)]), []
    for device in ("CPU:0", "GPU:0"):
        with tf.device(device):
            algorithm = ImpalaAlgorithm(ActorCriticPolicy(specs.observation, specs.action))
        optimizer = Adam(1e-3)
        build_learner(algorithm, optimizer)
        places.append(devices_of(tf.nest.flatten(optimizer._slots)))
    return places


def by_hand():
    """Trains without `Experiment`, as a script does: TensorFlow puts the weights on the GPU."""
    from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm
    from alf.drivers import AsyncOffPolicyDriver, DriverSettings, EnvSpecs, SyncOffPolicyDriver
    from alf.learner import ReplayLearner
    from alf.learner.optimizers import Adam
    from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy
    from alf.replay import PrioritizedReplayer, UniformReplayer
    from alf.tools.throughput import TrainIteration

    def make(replayer_class, policy_class, algorithm_class):
        envs = [load("CartPole-v1", 4, seed=i, num_workers=0) for i in range(2)]
        specs = EnvSpecs(envs)
        policy = policy_class(specs.observation, specs.action)
        training = None
        if replayer_class is not None:
            replayer = replayer_class(specs.unroll_spec(policy, 8), 2, capacity=1000)
            training = functools.partial(ReplayLearner, replayer=replayer, mini_batch_size=8)
        return envs, build_learner(algorithm_class(policy), Adam(1e-3), training)

    results = []
    for kinds in (
        (None, ActorCriticPolicy, ImpalaAlgorithm),
        (UniformReplayer, EpsilonGreedyPolicy, DqnAlgorithm),
        (PrioritizedReplayer, EpsilonGreedyPolicy, DqnAlgorithm),
    ):
        for driver_class in (AsyncOffPolicyDriver, SyncOffPolicyDriver):
            envs, learner = make(*kinds)
            driver = driver_class(envs, learner.policy, unroll_length=8, settings=DriverSettings())
            driver.start()
            train_iteration = TrainIteration(driver, learner)
            for _ in range(3):
                train_iteration()
            driver.stop()
            held = [learner.replayer, getattr(learner.replayer, "_tree", None)]
            held = tf.nest.flatten([list(vars(x).values()) for x in held if x is not None])
            buffer = devices_of(x for x in held if isinstance(x, tf.Variable))
            results.append([learner.device, int(learner.progress.updates), buffer])
    return results


def main():
    assert tf.config.list_physical_devices("GPU")
    name, *arguments = sys.argv[1:]
    print(json.dumps(globals()[name](*arguments)))


if __name__ == "__main__":
    main()
