# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""export: writes a policy as a SavedModel and for TensorFlow Lite and ONNX. None of the files needs ALF.

The folder is a SavedModel with the functions of `make_saved_policy`, or one of TF-Agents' `PolicySaver`, with
its file policy_specs.pbtxt. There are also

    the signature "serving_default" of the SavedModel: a `FlatPolicy` for any batch size,
    policy.tflite: the same for TensorFlow Lite, for batch size 1,
    policy.onnx: the same for ONNX, for any batch size, the dimension "batch",
    signature.json: names, dtypes and shapes of the inputs and outputs of these three, and their origin.
"""

import contextlib
import functools
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys

import tensorflow as tf
from absl import logging

from alf import adapters
from alf.core.annotations import FilePath
from alf.core.files import find_path, has_pattern, replace_own_folder, without_pattern
from alf.core.xla import without_xla
from alf.errors import ConfigError, argument
from alf.policies.flat_policy import FlatPolicy
from alf.policies.policy import Policy
from alf.policies.saved_policy import make_saved_policy
from alf.runs.checkpoint_files import tell
from alf.runs.saved_run import load_agent
from alf.version import __version__

SIGNATURE_FILE, TFLITE_FILE, ONNX_FILE = "signature.json", "policy.tflite", "policy.onnx"
# Of an export, with those of SavedModels and `PolicySaver`.
_NAMES = {SIGNATURE_FILE, TFLITE_FILE, ONNX_FILE, "policy_specs.pbtxt", "fingerprint.pb", "saved_model.pb"}
_NAMES |= {"assets", "assets.extra", "variables"}
_FUNCTION = "serving_default"
_OPSET = 17
_ONNX_SECONDS = 600.0


def export(
    policy: Policy | FilePath,
    output: FilePath,
    deterministic: bool = True,
    tflite: bool = False,
    onnx: bool = False,
    tf_agents: bool = False,
    overwrite: bool = False,
) -> list[str]:
    """Writes a policy into a new folder, completely or not at all.

    Args:
        policy: `Policy`; or the path of a run, or "alf:TASK", whose newest checkpoint is exported.
        output: path of the folder.
        deterministic: bool, whether the exported policy acts as well as it can, or explores like in training.
        tflite, onnx: bools, whether to write these files, too.
        tf_agents: bool, whether TF-Agents' `PolicySaver` writes the SavedModel: with policy_specs.pbtxt, of
            which `SavedModelPyTFEagerPolicy` reads the specs.
        overwrite: bool, whether to replace an earlier export. Other files are never replaced.

    Returns:
        list of the TensorFlow operations that policy.tflite needs in addition to TensorFlow Lite's.

    Raises:
        ConfigError: if the policy cannot be converted, the folder cannot be written, or a package is missing.
    """
    if isinstance(policy, (str, os.PathLike)):
        policy = load_agent(policy).policy
    if onnx and importlib.util.find_spec("tf2onnx") is None:
        command = shlex.join(onnx_command("DIR"))
        raise ConfigError(
            f"{argument('onnx')} needs tf2onnx: pip install 'alf-tf[onnx]', or convert an export, DIR, "
            f"elsewhere: {command}"
        )
    if tf_agents:
        adapters.import_adapter("make_saver", argument("tf_agents"))
    name = argument("output")
    if os.path.lexists(find_path(output)) and not overwrite:
        raise ConfigError(f"{name} {output!r} exists: choose another one, or overwrite it")
    if has_pattern(find_path(output)):
        logging.warning(
            "TensorFlow cannot load from a path with any of *?[\\: move %s before its use", output
        )
    with replace_own_folder(name, output, _NAMES) as folder, _quiet(), without_xla():
        flat, select_ops = FlatPolicy(policy, deterministic), []
        if onnx:
            _check_no_bfloat16(flat)
        _save_model(policy, flat, deterministic, tf_agents, folder)
        if tflite:
            select_ops = _write_tflite(policy, flat, os.path.join(folder, TFLITE_FILE))
        if onnx:
            _write_onnx(folder)
        signature = {
            "inputs": [_describe(*item) for item in flat.inputs.items()],
            "outputs": [_describe(*item) for item in flat.outputs.items()],
            "deterministic": deterministic,
            "updates": int(policy.progress.updates),
            "alf": __version__,
            **({"tflite_select_ops": select_ops} if tflite else {}),
        }
        with open(os.path.join(folder, SIGNATURE_FILE), "w", encoding="utf-8") as file:
            file.write(json.dumps(signature, indent=1) + "\n")
    return select_ops


def _save_model(policy, flat, deterministic, tf_agents, folder):
    if tf_agents:
        saver = adapters.make_saver(policy, deterministic)
        save, signatures = saver.save, saver.signatures
    else:
        module, signatures = make_saved_policy(policy, deterministic)
        save = functools.partial(tf.saved_model.save, module, signatures=signatures)
    # Beside "action", which takes also what no action depends on.
    signatures[_FUNCTION] = flat.trace()
    try:
        save(folder)
    except tf.errors.OpError as error:  # TensorFlow's errors are not OSErrors; the text begins with the file
        raise OSError(tell(error).partition("\n")[0].rpartition("; ")[2]) from error


def _write_tflite(policy, flat, path):
    """Writes policy.tflite. Returns the names of the operations that TensorFlow Lite does not have."""
    holder = tf.Module()  # holds only the variables: with `policy` the converter would save Keras layers, too
    holder.weights = list(policy.variables)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([flat.trace(batch_size=1)], holder)
    # With SELECT_TF_OPS an operation that TensorFlow Lite lacks becomes one of TensorFlow's in the file,
    # which then needs the Flex delegate at run time. So the caller is told their names.
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    try:
        content = converter.convert()
    except Exception as error:  # the converter raises several kinds
        name = argument("tflite")
        unknown = sorted(set(re.findall(r"'tf\.(\w+)' op is neither", str(error))))
        if unknown:
            raise ConfigError(f"{name}: it does not know the operations {', '.join(unknown)}") from error
        raise ConfigError(f"{name}: the policy cannot be converted: {str(error).splitlines()[0]}") from error
    with open(path, "wb") as file:
        file.write(content)
    # The operations that need the "Flex" delegate; the file names them in its table of custom operations.
    return sorted({name.decode() for name in re.findall(rb"\0Flex(\w+)\0", content)})


def onnx_command(folder, python="python"):
    """Returns the command that converts an exported folder with tf2onnx, a list of texts."""
    options = {"saved-model": folder, "signature_def": _FUNCTION, "opset": _OPSET}
    options["output"] = os.path.join(folder, ONNX_FILE)
    return [python, "-m", "tf2onnx.convert", *(x for k, v in options.items() for x in (f"--{k}", str(v)))]


def _check_no_bfloat16(flat):
    operations = flat.trace().graph.get_operations()
    if any(x.dtype == tf.bfloat16 for operation in operations for x in operation.outputs):
        raise ConfigError(
            f"{argument('onnx')}: the policy computes in bfloat16, which tf2onnx does not know: bind "
            "compute_dtype of its networks to 'float32', as its weights are"
        )


def _write_onnx(folder):
    # It reads the SavedModel, so it comes after `_save_model`.
    # In another process, so that a conversion that does not end can be stopped.
    options = dict(capture_output=True, text=True, timeout=_ONNX_SECONDS, check=False)
    try:
        with without_pattern(folder) as link:
            done = subprocess.run(onnx_command(link, sys.executable), **options)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{argument('onnx')}: tf2onnx has not ended after {_ONNX_SECONDS:g} s") from None
    # If tf2onnx does not know an operation, it still writes a file, which does not run.
    unknown = sorted(set(re.findall(r"Tensorflow op \[.*: (\w+)\] is not supported", done.stderr)))
    if unknown:
        raise ConfigError(f"{argument('onnx')}: tf2onnx does not know the operations {', '.join(unknown)}")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it shows no error"]
        raise ConfigError(f"{argument('onnx')}: tf2onnx cannot convert the policy: {lines[-1]}")
    _name_batches(os.path.join(folder, ONNX_FILE))


def _name_batches(path):
    """Gives the first dimension of all inputs and outputs of an ONNX file the name "batch"."""
    import onnx  # tf2onnx needs it, so it is here

    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path)


def _describe(name, spec):
    return {"name": name, "dtype": spec.dtype.name, "shape": [None, *spec.shape.as_list()]}


@contextlib.contextmanager
def _quiet():
    """Context manager that silences messages about each file and about the missing `distribution`."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
