# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Starts TensorFlow: sooner, and without its notices, which are about CPU features and missing GPUs."""

import contextlib
import gc
import importlib.util
import os
import sys
import types

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
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # 0: all, 1: no information, 2: no warnings
_SECONDS = 1.0  # that the filter may take to show what it has

# What TensorFlow imports where it is installed, and ALF does not use.
_UNUSED = ("h5py", "requests", "scipy")
# 10, see `alf.core.tf_private`: nothing public keeps TensorFlow from importing Keras, which takes as long as
# all the rest. TensorFlow imports these of Keras 3, or 2, for the sake of files that nobody has read yet.
# Without them it goes on, and imports Keras when somebody reads `tf.keras`.
_KERAS = ("keras.src.optimizers", "tf_keras.src.optimizers")

_is_quiet = False  # whether `import_tensorflow` has imported it


def import_tensorflow():
    """Imports TensorFlow without notices and in half of the time, unless something has imported it before.

    For programs that are ALF's, and for functions that do the whole work of a program: whoever imports
    TensorFlow, or a module of ALF, gets TensorFlow as it is. `quietly` hides notices that come later.
    """
    global _is_quiet
    if "tensorflow" in sys.modules:
        return
    with hide_notices(), _errors_only(), _import_later(), _without_collections():
        import tensorflow

        # Here it looks for GPUs, once in a process, and says if there are none.
        tensorflow.config.list_physical_devices()
    _is_quiet = True


def quietly():
    """Returns `hide_notices()` if TensorFlow was imported without notices, else a context of nothing."""
    return hide_notices() if _is_quiet else contextlib.nullcontext()


@contextlib.contextmanager
def _errors_only():
    """Context in which TensorFlow, which reads this once, decides to log no more than errors.

    A level of the user's stays.
    """
    level = os.environ.get(_LEVEL)
    os.environ.setdefault(_LEVEL, "2")
    try:
        yield
    finally:
        if level is None:
            del os.environ[_LEVEL]


class _Later(types.ModuleType):
    """A module that is imported when somebody reads an attribute of it."""

    __path__: list[str] = []  # `from scipy.sparse import issparse` asks for it

    def __getattr__(self, name):
        return getattr(importlib.import_module(self.__name__), name)


@contextlib.contextmanager
def _import_later():
    """Context in which `_UNUSED` is imported as a `_Later`, and `_KERAS` is missing, unless it is there."""
    # TensorFlow does without a package that is missing, so nothing may stand for it.
    later = {x: _Later(x) for x in _UNUSED if x not in sys.modules and importlib.util.find_spec(x)}
    if "scipy" in later:
        later["scipy"].__dict__["sparse"] = later["scipy.sparse"] = sparse = _Later("scipy.sparse")
        # TensorFlow imports the function itself.
        sparse.__dict__["issparse"] = lambda x: importlib.import_module("scipy.sparse").issparse(x)
    # None makes an import raise ModuleNotFoundError, also if the package around it is not imported.
    sys.modules.update(later := later | {x: None for x in _KERAS if x not in sys.modules})
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
    import shutil  # here, because `import alf` needs neither
    import subprocess

    stderr, awk = None, shutil.which("awk")
    if awk is not None and os.environ.get(_LEVEL) != "0":
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
