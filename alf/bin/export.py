# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Exports what was trained: `python -m alf.bin.export --root_dir=DIR --output=DIR [--tflite] [--onnx]`.

Writes a SavedModel that runs without ALF, see `alf.training.export`. No environment is made. The exit status
is 0, 1 after an error, 2 if a setting is wrong.
"""

from absl import flags

import alf  # noqa: F401  (before TensorFlow)
from alf.bin.command import make_main, start, wrong_calls_are_config_errors
from alf.errors import ConfigError
from alf.training.config import check_dead_bindings
from alf.training.export import export
from alf.training.saved_run import SavedRun

_ROOT_DIR = flags.DEFINE_string("root_dir", None, "Directory of the run.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder to write, a new one.")
_CHECKPOINT = flags.DEFINE_string("checkpoint", "newest", "newest, best, a train iteration, or a path.")
_GIN_PARAM = flags.DEFINE_multi_string("gin_param", [], "A gin binding, NAME=VALUE; may be repeated.")
_SAMPLE = flags.DEFINE_bool("sample", False, "Explores as in training, in place of acting as well as it can.")
_TFLITE = flags.DEFINE_bool("tflite", False, "Writes policy.tflite, too, for TensorFlow Lite.")
_ONNX = flags.DEFINE_bool("onnx", False, "Writes policy.onnx, too; needs tf2onnx.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replaces an earlier export.")


def run():
    """Exports as the flags say; returns the exit status."""
    if not _ROOT_DIR.value:
        raise ConfigError("--root_dir is missing: name the directory of a run")
    if not _OUTPUT.value:
        raise ConfigError("--output is missing: name the folder to write")
    saved = SavedRun(_ROOT_DIR.value)
    saved.read_config(_GIN_PARAM.value)
    with wrong_calls_are_config_errors():
        policy = saved.make_policy()
        path = saved.restore(policy, _CHECKPOINT.value)
    check_dead_bindings(_GIN_PARAM.value)
    options = dict(tflite=_TFLITE.value, onnx=_ONNX.value, overwrite=_OVERWRITE.value)
    select_ops = export(policy, _OUTPUT.value, not _SAMPLE.value, **options)
    print(f"{path} is exported to {_OUTPUT.value}")
    if select_ops:
        print(f"policy.tflite needs TensorFlow's operations (Flex): {', '.join(select_ops)}")
    return 0


main = make_main(run)


def console_main():
    start(main)


if __name__ == "__main__":
    console_main()
