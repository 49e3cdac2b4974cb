# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Starts TensorFlow: sooner, and without its notices, which are about CPU features and missing GPUs."""

import contextlib
import functools
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
import types
from importlib.machinery import PathFinder

# A program of awk. It keeps lines until MARK comes, and then shows those that are no NOTICE. If its input
# ends before that, it shows all: the process has failed. After MARK it passes lines on, for processes that
# were started meanwhile.
_MARK = "\1end of what is hidden"
_FILTER = r"""
is_over { print; fflush(); next }
at = index($0, MARK) {
  if (at > 1) lines[n++] = substr($0, 1, at - 1)
  is_over = 1
  show()
  next
}
{ lines[n++] = $0 }
END { if (!is_over) show() }
function show(i) {
  for (i = 0; i < n; i++) if (!is_over || lines[i] !~ NOTICE) print lines[i]
  fflush()
}
"""
# A line of TensorFlow's log, before and after it is set up. Without {4}, which some kinds of awk do not know.
_NOTICE = (
    "^(WARNING: All log messages before absl::Init|[IWE][0-9][0-9][0-9][0-9] [0-9.:]+ +[0-9]+ "
    "|[0-9-]+ [0-9.:]+: [IWE] )"
)
_SECONDS = 1.0  # that the filter may take to show what it has

# What TensorFlow and Keras import where it is installed, and ALF does not use.
_UNUSED = ("h5py", "requests", "scipy")


class QuietTensorFlow:
    """A finder for `sys.meta_path`: TensorFlow starts without notices, whoever imports it.

    These moments are quiet: its import, the search for GPUs, and the first operation.
    """

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "tensorflow":
            return None
        spec = PathFinder.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(_start, spec.loader.exec_module)
        return spec


def make_tensorflow_quiet():
    """Puts `QuietTensorFlow` before the other finders of this process."""
    sys.meta_path.insert(0, QuietTensorFlow)


def _start(exec_module, tensorflow):
    with hide_notices(), _import_later(), _without_collections():
        exec_module(tensorflow)
    # Not in TensorFlow's public API; TensorFlow is pinned in setup.py.
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context

    # Only when somebody needs the devices: until then, a program may set CUDA_VISIBLE_DEVICES.
    pywrap_tfe.TF_ListPhysicalDevices = hide_notices()(pywrap_tfe.TF_ListPhysicalDevices)
    initialize = context.Context.ensure_initialized

    def initialize_quietly(self):
        context.Context.ensure_initialized = initialize  # every operation calls it
        initialize(self)  # not hidden: with several learner processes it waits for the others, and may fail
        # The first transposition of integers makes oneDNN log, once in a process, that it leaves them to
        # TensorFlow. So it comes here. `eager_mode`, because the caller may be building a graph.
        with hide_notices(), context.eager_mode(), tensorflow.device("CPU:0"):
            tensorflow.transpose(tensorflow.zeros([1, 1], tensorflow.int64))

    context.Context.ensure_initialized = initialize_quietly


class _Later(types.ModuleType):
    """A module that is imported when somebody reads an attribute of it."""

    __path__: list[str] = []  # `from scipy import linalg` asks for it

    def __getattr__(self, name):
        return getattr(importlib.import_module(self.__name__), name)


@contextlib.contextmanager
def _import_later():
    """Context in which an import of `_UNUSED` makes a `_Later`, unless it was imported before."""
    # Keras does without a package that is missing, so nothing may stand for it.
    later = {x: _Later(x) for x in _UNUSED if x not in sys.modules and importlib.util.find_spec(x)}
    if "scipy" in later:
        parts = later["scipy"].__dict__
        for part in ("linalg", "ndimage", "sparse"):
            parts[part] = later[f"scipy.{part}"] = _Later(f"scipy.{part}")
        # Keras imports the function itself.
        parts["sparse"].issparse = lambda x: importlib.import_module("scipy.sparse").issparse(x)
    sys.modules.update(later)
    try:
        yield
    finally:
        for name in later:
            del sys.modules[name]


@contextlib.contextmanager
def _without_collections():
    """Context without garbage collection, which then never looks at what was made here.

    TensorFlow's modules are half a million objects, all of them in use until the process ends. A collection
    that looked at them would hold all Python threads for 0.1 s or more.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def hide_notices():
    """Context without TensorFlow's lines on the standard error stream. Other lines are shown at its end.

    All lines are shown if the context raises an exception or the process dies, and with
    TF_CPP_MIN_LOG_LEVEL=0 in the environment.
    """
    stderr, awk = None, shutil.which("awk")
    if awk is not None and os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "0":
        with contextlib.suppress(OSError):  # the process has no such stream
            stderr = os.dup(2)
    if stderr is None:
        yield
        return
    # A process of its own, which shows the lines also after an abort of this one. The file descriptor is
    # replaced, not `sys.stderr`, because C++ knows only the descriptor. It is the whole process's, so other
    # threads write here, too. In a session of its own, because Ctrl-C must not end it before it has shown
    # what there is.
    command = [awk, "-v", f"MARK={_MARK}", "-v", f"NOTICE={_NOTICE}", _FILTER]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stderr, start_new_session=True)
    os.dup2(process.stdin.fileno(), 2)
    try:
        yield
        os.write(2, f"{_MARK}\n".encode())
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        process.stdin.close()
        # What comes next on the stream comes after what was held back. A process that was started meanwhile
        # has the stream, too: then the filter goes on, and shows some of its lines late.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS)
