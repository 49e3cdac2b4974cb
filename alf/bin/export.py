# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Exports a trained policy: `alf export RUN -o DIR [--tflite] [--onnx] [--tf_agents]`.

Writes a SavedModel that runs without ALF (`alf.evaluation.exporter`). No environment is made. The exit
status is 0, 1 after an error, 2 if a setting is wrong.
"""

import os

from absl import flags

from alf.bin.acting import start_acting
from alf.bin.arguments import list_settings
from alf.bin.flags import make_flags
from alf.config.parsing import bind, check_dead_bindings, wrong_calls_are_config_errors
from alf.core.files import find_path
from alf.errors import ConfigError

FLAGS = make_flags("checkpoint", "policy", "sample", "overwrite", output="Folder to write, a new one.")
flags.DEFINE_bool("tflite", False, "Writes policy.tflite, too, for TensorFlow Lite.", flag_values=FLAGS)
flags.DEFINE_bool("onnx", False, "Writes policy.onnx, too; needs tf2onnx.", flag_values=FLAGS)
flags.DEFINE_bool(
    "tf_agents",
    False,
    "Lets TF-Agents' PolicySaver write the SavedModel; needs TF-Agents.",
    flag_values=FLAGS,
)


def run(arguments):
    """Exports as the flags say; returns the exit status."""
    output = FLAGS.output
    if not output:
        raise ConfigError("-o is missing: name the folder to write")
    # `export` checks this, too. Here it costs no import of TensorFlow and no policy.
    if os.path.lexists(find_path(output)) and not FLAGS.overwrite:
        raise ConfigError(f"-o {output}: this exists; --overwrite replaces an earlier export")
    run = start_acting(arguments)
    from alf.evaluation.exporter import export
    from alf.games.players import select_policy
    from alf.runs.presets import find_bindings
    from alf.runs.saved_run import SavedRun

    saved = SavedRun(run)
    saved.read_config()
    bindings = find_bindings(None, None, None, list_settings(arguments))
    bind(bindings)
    with wrong_calls_are_config_errors():
        policy = saved.make_policy()
    path = saved.restore(policy, FLAGS.checkpoint)
    try:
        policy = select_policy(policy, FLAGS.policy)
    except ConfigError as error:
        raise ConfigError(f"--policy: {error}") from None
    # A binding for another part has no effect, and is an error, whether its name is right or not.
    try:
        check_dead_bindings(bindings)
    except ConfigError as error:
        raise ConfigError(f"{error}; alf export makes only a policy, no environment or learner") from None
    options = {name: FLAGS[name].value for name in ("tflite", "onnx", "tf_agents", "overwrite")}
    select_ops = export(policy, output, not FLAGS.sample, **options)
    print(f"{path} is exported to {output}")
    if select_ops:
        print(f"policy.tflite needs TensorFlow's operations (Flex): {', '.join(select_ops)}")
    return 0
