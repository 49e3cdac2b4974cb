# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A cluster of two nodes: evaluation on the other one, its faults, and what the learner's node keeps free."""

import functools
import json
import os
import signal
import threading
import time
import types

import gin
import pytest
import tensorflow as tf

from alf.config.registry import own_config
from alf.distributed import reservation
from alf.distributed.ray_collectors import RayCollectors
from alf.distributed.ray_evaluator import RayEvaluator
from alf.distributed.ray_process import actor_options
from alf.distributed.reservation import Reservation, check_room
from alf.drivers import EnvSpecs
from alf.errors import ConfigError, EnvError
from alf.evaluation.session import finish
from alf.testing.fakes import FrozenPolicy
from alf.testing.toy_environments import CountingEnvironment
from alf.training import Evaluator, Experiment
from tests.builders import build_collectors, build_trainer, driver_of
from tests.distributed.stand_ins import make_obedient, make_teller

pytestmark = pytest.mark.programs

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

SECONDS = 300  # for what takes a few
CPUS, FAR_CPUS = 2, 2  # of the learner's node and of the other one


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """The learner's node, and one that alone has GPUs (as Ray believes) and the resource "far"."""
    head = dict(num_cpus=CPUS, num_gpus=0, include_dashboard=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # Ray would believe that.
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(num_cpus=FAR_CPUS, num_gpus=1, resources={"far": 1})
    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def own_node():
    return ray.get_runtime_context().get_node_id()


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_free():
    """Waits until nothing is occupied in the cluster."""
    names = ("CPU", "GPU", "far")
    wait_until(lambda: all(ray.available_resources().get(n) == ray.cluster_resources()[n] for n in names))


@pytest.fixture
def start():
    """A function that starts a `RayEvaluator` of stand-ins; kwargs are its settings."""
    started = []

    def start(**kwargs):
        started.append(RayEvaluator(**{"num_cpus": 0, **kwargs}))
        started[-1].start(make_obedient)
        return started[-1]

    yield start
    for evaluator in started:
        evaluator.stop()
    wait_until_free()


def ask(evaluator, *order, max_restarts=3):
    evaluator.begin(order)
    return finish(evaluator, order, max_restarts, None)


def test_the_evaluator_has_what_it_asks_for(start):
    evaluator = start(num_cpus=2, num_gpus=1, resources={"far": 0.5})
    answer = ask(evaluator, "answer", None)
    assert answer["node"] != own_node() and answer["gpus"] == "0" and answer["threads"] == "1"
    wait_until(lambda: ray.available_resources()["CPU"] == CPUS + FAR_CPUS - 2)
    assert ray.available_resources()["far"] == 0.5


def test_an_error_ends_it_and_a_death_does_not(start, tmp_path):
    evaluator = start()
    first = ask(evaluator, "answer", None)
    assert first["gpus"] == ""
    with pytest.raises(KeyError, match="my own bug"):
        ask(evaluator, "raise", None)
    with pytest.raises(EnvError, match=r"an environment of the evaluation raised SystemExit\(3\)"):
        ask(evaluator, "exit", None)
    assert ask(evaluator, "answer", None) == first
    # Each evaluation may begin again once.
    second = ask(evaluator, "die", str(tmp_path / "first"), max_restarts=1)
    third = ask(evaluator, "die", str(tmp_path / "second"), max_restarts=1)
    assert len({answer["pid"] for answer in (first, second, third)}) == 3
    # One that dies between two evaluations is found by the next one.
    os.kill(third["pid"], signal.SIGKILL)
    assert ask(evaluator, "answer", None)["pid"] != third["pid"]


def test_deaths_that_do_not_end_are_one_error(start):
    with pytest.raises(EnvError, match="the process of the evaluation has died: .*max_restarts=0 is reached"):
        ask(start(), "die", None, max_restarts=0)


def test_an_evaluation_that_does_not_answer_begins_again(start, tmp_path, caplog):
    path = tmp_path / "hangs"
    answer = ask(start(timeout=2.0), "hang", str(path), max_restarts=10)
    assert answer["pid"] != int(path.read_text())
    assert "the process of the evaluation has not answered for 2 s: restart 1 of 10" in caplog.text


def test_an_evaluator_that_ray_cannot_start_is_one_error(start):
    occupant = start(resources={"far": 1})
    ask(occupant, "answer", None)
    evaluator = start(resources={"far": 1}, start_timeout=0.5)
    message = "the process of the evaluation has not answered for 0.5 s; Evaluator.max_restarts=1 is"
    with pytest.raises(EnvError, match=message):
        ask(evaluator, "answer", None, max_restarts=1)


def test_an_evaluation_survives_its_node(start, cluster, tmp_path):
    node = cluster.add_node(num_cpus=0, resources={"frail": 1})
    evaluator = start(resources={"frail": 1})
    answers, path = [], tmp_path / "hangs"
    thread = threading.Thread(target=lambda: answers.append(ask(evaluator, "hang", str(path))))
    thread.start()
    wait_until(path.exists)
    cluster.remove_node(node, allow_graceful=False)
    other = cluster.add_node(num_cpus=0, resources={"frail": 1})
    thread.join(SECONDS)
    assert answers[0]["pid"] != int(path.read_text())
    evaluator.stop()
    cluster.remove_node(other)


@pytest.mark.parametrize("resources", [None, {"far": 1}])
def test_stop_ends_an_evaluation_that_does_not_answer(start, tmp_path, resources):
    ask(start(resources=resources), "answer", None)  # with `resources` it occupies all that the other needs
    evaluator, path, errors = start(resources=resources), tmp_path / "hangs", []

    def evaluate():
        try:
            ask(evaluator, "hang", str(path))
        except EnvError as error:
            errors.append(str(error))

    thread = threading.Thread(target=evaluate)
    thread.start()
    if resources is None:
        wait_until(path.exists)
    evaluator.stop()
    thread.join(SECONDS)  # far less than `timeout` and `start_timeout`
    assert errors == ["the evaluation was stopped"]


CONFIG = """
Experiment.num_groups = 1
Experiment.seed = 0
Experiment.unroll_length = 4
Experiment.driver = @SyncOffPolicyDriver
Experiment.data_transformers = (@ObservationNormalizer,)
alf.environments.load.name = "Pendulum-v1"
Experiment.num_envs = 2
alf.environments.load.num_workers = 0
eval/alf.environments.load.max_episode_steps = 30
ActorCriticNetwork.fc_layer_params = (8,)
UnrollLearner.optimizer = @Adam()
Adam.learning_rate = 0.01
Evaluator.interval_steps = 20
Evaluator.num_episodes = 7
Evaluator.batch_size = 3
Evaluator.seed = 5
Evaluator.place = "cluster"
RayEvaluator.num_cpus = 2
RayEvaluator.resources = {"far": 1}
Trainer.evaluator = @Evaluator
StopCriteria.target_eval_return = -1e9
StopCriteria.max_seconds = 300
"""


def train_slowly(learner, before=lambda: None):
    """Lets a learner take its time: a run that waits for an evaluation would occupy the cores meanwhile.

    It calls `before` each time.
    """
    train = learner.train

    def wait_and_train():
        time.sleep(0.05)
        before()
        return train()

    learner.train = wait_and_train


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_run_is_evaluated_in_the_cluster_as_it_is_here(tmp_path, num_workers):
    """The figures of the run's best checkpoint are equal to those of a thread, and the processes end."""
    with own_config():
        gin.parse_config(CONFIG)
        gin.parse_config(f"Evaluator.num_workers = {num_workers}")
        gin.parse_config(f"RayEvaluator.num_cpus = {2 // num_workers}")
        gin.parse_config(f"RayEvaluator.resources = {{'far': {1 / num_workers}}}")
        driver = driver_of(Experiment())
        trainer = build_trainer(str(tmp_path), driver)
        train_slowly(driver.learner)
        finished, reason = trainer.train()
        assert finished and reason.startswith("target_eval_return=-1000000000.0 reached")
        wait_until_free()
        (file,) = (tmp_path / "checkpoints" / "best").glob("ckpt-*/evaluation.json")
        best = json.loads(file.read_text())
        policy = driver.learner.policy
        for variable in policy.variables:  # What was evaluated came from the checkpoint.
            variable.assign(tf.zeros_like(variable))
        evaluator = Evaluator(interval_steps=1, num_episodes=7, batch_size=3, seed=5)
        evaluator.open(policy)
        evaluator.run(str(tmp_path), 0)
        evaluator.start(best["path"], 0)
        figures = evaluator.poll(SECONDS).figures
        evaluator.close()
    # A batch of another size may round otherwise, and rewards of this environment are real numbers.
    for name, values in figures.items():
        assert values == pytest.approx(best["figures"][name], rel=0.0 if num_workers == 1 else 1e-4)
    assert figures["length"]["mean"] == 30 and figures["return"]["std"] > 0


def test_a_run_ends_while_an_evaluation_in_the_cluster_hangs(tmp_path, caplog):
    path = tmp_path / "hangs"

    class Hanging(RayEvaluator):
        def start(self, make_evaluate):
            super().start(make_obedient)

        def begin(self, weights):
            super().begin(("hang", str(path)))

    with own_config():
        gin.parse_config(CONFIG.replace("Trainer.evaluator = @Evaluator", ""))
        gin.parse_config("StopCriteria.target_eval_return = 1000.0")
        ctor = functools.partial(Evaluator, cluster=Hanging)
        trainer = build_trainer(str(tmp_path / "run"), driver_of(Experiment()), evaluator=ctor)
        interrupted = []

        def interrupt():
            if path.exists() and not interrupted:
                interrupted.append(time.monotonic())
                trainer.interrupt("enough")

        train_slowly(trainer.learner, before=interrupt)
        assert trainer.train() == (False, "enough")
    assert time.monotonic() - interrupted[0] < 30  # 5 for the evaluation, 5 for the driver, times three
    assert "did not close" not in caplog.text
    wait_until_free()


def make_collectors(**kwargs):
    specs = EnvSpecs([CountingEnvironment(1)])
    settings = {"num_collectors": 2, "num_groups": 1, "num_cpus": 1, **kwargs}
    return build_collectors(make_teller, specs, **settings)


def find_nodes(collectors):
    """Starts two collectors, and finds the nodes where they are."""
    collectors.publish([])
    collectors.start(1)
    for index in range(2):
        collectors.request(index)
    answers = []
    wait_until(lambda: answers.append(collectors.receive(1.0)) or sum(map(bool, answers)) == 2)
    return {answer[1][0] for answer in answers if answer}


def test_collectors_stay_away_from_what_is_reserved_for_the_learner():
    collectors = make_collectors(learner_num_cpus=CPUS)
    try:
        wait_until(lambda: ray.available_resources().get("CPU") == FAR_CPUS)
        assert own_node() not in find_nodes(collectors)
    finally:
        collectors.close()
    wait_until_free()


def test_all_collectors_start_or_none(monkeypatch):
    """They wait for room for all of them, and take none of it before."""
    started = []
    monkeypatch.setattr(RayCollectors, "_start_actor", lambda *args: started.append(args))
    occupant = Reservation(CPUS, 0)
    settings = dict(all_or_nothing=True, num_cpus=1.5, start_timeout=2.0)
    message = r"all_or_nothing: there is no room for 2 collectors of CPU: 1.5 after 2 s: others occupy it"
    with pytest.raises(ConfigError, match=message):
        make_collectors(**settings)
    assert not started and ray.available_resources()["CPU"] == FAR_CPUS
    timer = threading.Timer(2.0, occupant.close)
    timer.start()
    collectors = make_collectors(**{**settings, "start_timeout": SECONDS})
    monkeypatch.undo()
    # Reserved for both, though none has started.
    assert ray.available_resources()["CPU"] == CPUS + FAR_CPUS - 3 and occupant._actor is None
    assert len(find_nodes(collectors)) == 2
    collectors.close()
    wait_until_free()


@pytest.mark.parametrize("fails", [False, True])
def test_a_group_of_actors_that_ask_for_nothing_is_free_and_a_failure_frees_all(monkeypatch, fails):
    if fails:
        monkeypatch.setattr("alf.distributed.ray_collectors.Group", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            make_collectors(all_or_nothing=True, learner_num_cpus=CPUS)
    else:
        collectors = make_collectors(all_or_nothing=True, num_cpus=0)
        assert find_nodes(collectors)
        collectors.close()
    wait_until_free()


def test_what_the_cluster_lacks_is_refused_at_once_by_name(monkeypatch):
    before = time.monotonic()
    has = r"but a node of the cluster has at most CPU: 2, GPU: 1, far: 1, memory: \S+, object_store_memory: "
    with pytest.raises(ConfigError, match=rf"^CollectorSettings asks for TPU: 1, {has}.*ask for less, or"):
        make_collectors(resources={"TPU": 1, "far": 1})
    with pytest.raises(ConfigError, match=rf"^RayEvaluator asks for CPU: 3, {has}"):
        RayEvaluator(num_cpus=CPUS + 1)
    with pytest.raises(ConfigError, match="RayEvaluator asks for TPU: 1, but"):
        Evaluator(interval_steps=1, place="cluster", cluster=lambda: RayEvaluator(resources={"TPU": 1})).open(
            FrozenPolicy(CountingEnvironment(1))
        )
    monkeypatch.setattr(reservation, "is_closed", lambda ray: True)  # as if ALF had started Ray
    message = "all_or_nothing: there is no room for 2 collectors of CPU: 1, far: 1 in this cluster: lower"
    with pytest.raises(ConfigError, match=message):
        make_collectors(resources={"far": 1}, all_or_nothing=True)
    assert time.monotonic() - before < 30  # far less than `start_timeout`


def test_the_first_node_alone_waits_for_others(monkeypatch, caplog):
    nodes = [{"Alive": True, "Resources": {"memory": 1.0}, "NodeManagerAddress": "10.0.0.1"}]
    stand_in = types.SimpleNamespace(nodes=lambda: nodes)
    check_room(stand_in, "CollectorSettings", actor_options(1, 0, None, "SPREAD"))
    assert "CollectorSettings asks for CPU: 1, but a node of the cluster has at most memory: 1" in caplog.text
    nodes.append(nodes[0])
    with pytest.raises(ConfigError, match="CollectorSettings asks for CPU: 1"):
        check_room(stand_in, "CollectorSettings", actor_options(1, 0, None, "SPREAD"))


WRONG = [
    (make_collectors, {"learner_num_cpus": -1}, "CollectorSettings.learner_num_cpus is -1"),
    (make_collectors, {"learner_num_gpus": "1"}, "CollectorSettings.learner_num_gpus is '1'"),
    (
        make_collectors,
        {"learner_num_cpus": CPUS + 1},
        "CollectorSettings.learner_num_cpus is 3, learner_num_gpus 0: Ray knows of fewer on this node",
    ),
    (make_collectors, {"learner_num_gpus": 1}, "learner_num_gpus 1: Ray knows of fewer on this node"),
    (RayEvaluator, {"num_cpus": -1}, "RayEvaluator.num_cpus is -1"),
    (RayEvaluator, {"num_gpus": None}, "RayEvaluator.num_gpus is None"),
    (RayEvaluator, {"resources": "far"}, "RayEvaluator.resources is 'far'"),
    (RayEvaluator, {"placement": "PACK"}, "RayEvaluator.placement is 'PACK'"),
    (RayEvaluator, {"timeout": 0}, "RayEvaluator.timeout is 0"),
    (RayEvaluator, {"start_timeout": 0}, "RayEvaluator.start_timeout is 0"),
]


def test_wrong_settings(subtests):
    for make, kwargs, message in WRONG:
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            make(**kwargs)


def test_what_others_occupy_cannot_be_reserved(monkeypatch):
    first = Reservation(CPUS, 0)
    monkeypatch.setattr(reservation, "_SECONDS", 1.0)
    with pytest.raises(ConfigError, match="so many did not become free on this node within 1 s"):
        Reservation(1, 0)
    first.close()
    wait_until_free()


def test_the_options_of_an_actor():
    options = actor_options(0.5, 1, {"far": 1}, "DEFAULT")
    expected = {"num_cpus": 0.5, "num_gpus": 1, "resources": {"far": 1}, "scheduling_strategy": "DEFAULT"}
    assert options == {**expected, "max_restarts": 0}
    assert RayEvaluator(0.5, 1, {"far": 1}, "DEFAULT")._options == options
