# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Exports a trained policy: `alf-export --root_dir=DIR --output=DIR [--tflite] [--onnx] [--tf_agents]`.

Writes a SavedModel that runs without ALF (`alf.evaluation.exporter`). No environment is made. The exit
status is 0, 1 after an error, 2 if a setting is wrong.
"""

import os

from absl import flags

from alf.bin.acting import load_run, take_run
from alf.bin.command import arguments_are_flags, make_main, start
from alf.bin.flags import share
from alf.config.parsing import check_dead_bindings
from alf.core.files import find_path
from alf.errors import ConfigError

GIN_PARAM, POLICY, SAMPLE, OVERWRITE = share("gin_param", "policy", "sample", "overwrite")
share("root_dir", "checkpoint")  # for `load_run`
_OUTPUT = flags.DEFINE_string("output", None, "Folder to write, a new one.")
_TFLITE = flags.DEFINE_bool("tflite", False, "Writes policy.tflite, too, for TensorFlow Lite.")
_ONNX = flags.DEFINE_bool("onnx", False, "Writes policy.onnx, too; needs tf2onnx.")
_TF_AGENTS = flags.DEFINE_bool(
    "tf_agents", False, "Lets TF-Agents' PolicySaver write the SavedModel; needs TF-Agents."
)


def run(arguments=()):
    """Exports as the flags say; returns the exit status."""
    take_run(arguments)
    if not _OUTPUT.value:
        raise ConfigError("--output is missing: name the folder to write")
    # `export` checks this, too. Here it costs no import of TensorFlow and no policy.
    if os.path.lexists(find_path(_OUTPUT.value)) and not OVERWRITE.value:
        raise ConfigError(f"--output={_OUTPUT.value}: this exists; --overwrite replaces an earlier export")
    policy, path, _ = load_run()
    from alf.evaluation.exporter import export
    from alf.games.players import select_policy

    try:
        policy = select_policy(policy, POLICY.value)
    except ConfigError as error:
        raise ConfigError(f"--policy: {error}") from None
    # A binding for another part has no effect, and is an error, whether its name is right or not.
    try:
        check_dead_bindings(GIN_PARAM.value)
    except ConfigError as error:
        raise ConfigError(f"{error}; alf-export makes only a policy, no environment or learner") from None
    options = dict(
        tflite=_TFLITE.value, onnx=_ONNX.value, tf_agents=_TF_AGENTS.value, overwrite=OVERWRITE.value
    )
    with arguments_are_flags("output", *options):
        select_ops = export(policy, _OUTPUT.value, not SAMPLE.value, **options)
    print(f"{path} is exported to {_OUTPUT.value}")
    if select_ops:
        print(f"policy.tflite needs TensorFlow's operations (Flex): {', '.join(select_ops)}")
    return 0


main = make_main(run, takes_arguments=True)


def console_main():
    start(main)


if __name__ == "__main__":
    console_main()
