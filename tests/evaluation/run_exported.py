# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A program: acts with exported policies where neither ALF nor TF-Agents nor Keras 2 can be imported.

`run_exported.py FOLDER KIND...`: for each folder in FOLDER it reads record.pickle, a list of steps, acts with
export/, and writes KIND.pickle, the actions: a list of lists of arrays [B, ...].
"""

import collections
import importlib.abc
import json
import pathlib
import pickle
import sys

import numpy as np

FORBIDDEN = ("alf", "gin", "tf_agents", "tf_keras", "tensorflow_probability")


class Forbid(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in FORBIDDEN:
            raise ImportError(f"{name} is not there")


def run_saved_model(folder, steps):
    """By the functions of PolicySaver, with TensorFlow alone."""
    import tensorflow as tf

    TimeStep = collections.namedtuple("TimeStep", "step_type reward discount observation")
    model = tf.saved_model.load(str(folder))
    state = model.get_initial_state(batch_size=tf.constant(len(steps[0]["step_type"])))
    actions = []
    for step in steps:
        time_step = TimeStep(*(step[name] for name in TimeStep._fields))
        action, state, _ = model.action(tf.nest.map_structure(tf.constant, time_step), state)
        actions.append([x.numpy() for x in tf.nest.flatten(action)])
    return actions


def run_signatures(folder, steps):
    """By the signatures of PolicySaver, from named tensors to named tensors."""
    import tensorflow as tf

    model = tf.saved_model.load(str(folder))
    inputs, outputs = read_names(folder)
    batch_size = len(steps[0]["step_type"])
    state = model.signatures["get_initial_state"](batch_size=tf.constant(batch_size))
    actions = []
    for step in steps:
        tensors = {name: step[name] for name in ("step_type", "reward", "discount")}
        tensors |= dict(zip((x for x in inputs if x.startswith("observation")), step["leaves"], strict=True))
        found = model.signatures["action"](**{k: tf.constant(v) for k, v in tensors.items()}, **state)
        state = {name: x for name, x in found.items() if name.startswith("state")}
        actions.append([found[name].numpy() for name in outputs if name.startswith("action")])
    return actions


def read_names(folder):
    """The names of the inputs and of the outputs in signature.json."""
    signature = json.loads((folder / "signature.json").read_text())
    return [[spec["name"] for spec in signature[key]] for key in ("inputs", "outputs")]


def run_serving_default(folder, steps):
    import tensorflow as tf

    model = tf.saved_model.load(str(folder))
    function = model.signatures["serving_default"]

    def call(inputs):
        outputs = function(**{name: tf.constant(x) for name, x in inputs.items()})
        return {name: x.numpy() for name, x in outputs.items()}

    return run_flat(folder, steps, call)


def run_tflite(folder, steps):
    """Each row of the batch by itself."""
    import tensorflow as tf

    rows = []
    for row in range(len(steps[0]["step_type"])):
        interpreter = tf.lite.Interpreter(str(folder / "policy.tflite"))
        runner = interpreter.get_signature_runner("serving_default")
        of_row = [
            {k: [x[row : row + 1] for x in v] if k == "leaves" else v[row : row + 1] for k, v in step.items()}
            for step in ({k: v for k, v in step.items() if k != "observation"} for step in steps)
        ]
        rows.append(run_flat(folder, of_row, lambda inputs, runner=runner: runner(**inputs)))
    return [[np.concatenate(leaves) for leaves in zip(*step)] for step in zip(*rows)]


def run_onnx(folder, steps):
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "policy.onnx", providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_outputs()]
    return run_flat(folder, steps, lambda inputs: dict(zip(names, session.run(names, inputs))))


def run_flat(folder, steps, call):
    """Acts with `call`, from a dict of arrays to a dict of arrays, as signature.json says."""
    signature = json.loads((folder / "signature.json").read_text())
    specs = {spec["name"]: spec for spec in signature["inputs"]}
    observations = [name for name in specs if name.startswith("observation")]
    batch_size = len(steps[0]["step_type"])
    state = {
        name: np.zeros([batch_size, *spec["shape"][1:]], spec["dtype"])
        for name, spec in specs.items()
        if name.startswith("state_")
    }
    actions = []
    for step in steps:
        inputs = {name: step[name] for name in ("step_type", "reward", "discount") if name in specs}
        inputs |= dict(zip(observations, step["leaves"], strict=True))
        outputs = call({**inputs, **state})
        assert outputs.keys() == {spec["name"] for spec in signature["outputs"]}
        state = {name: outputs[f"next_{name}"] for name in state}
        actions.append([outputs[s["name"]] for s in signature["outputs"] if s["name"].startswith("action")])
    return actions


def main(folder, *kinds):
    sys.meta_path.insert(0, Forbid())
    for case in sorted(pathlib.Path(folder).iterdir()):
        steps = pickle.loads((case / "record.pickle").read_bytes())
        for kind in kinds:
            actions = globals()[f"run_{kind}"](case / "export", steps)
            (case / f"{kind}.pickle").write_bytes(pickle.dumps(actions))
    assert not set(FORBIDDEN) & set(sys.modules)


def program():
    main(*sys.argv[1:])


if __name__ == "__main__":
    program()
