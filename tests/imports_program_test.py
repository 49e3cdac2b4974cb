# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The import of ALF's modules leaves the process as it is. Each case is a process."""

import json
import subprocess
import sys

import pytest

from tests.programs import ROOT, environment

pytestmark = pytest.mark.programs

# What other packages do to a process when they are imported is not compared: they come first.
STATE = """
import contextlib, decimal, faulthandler, gc, json, locale, logging, multiprocessing, os, pkgutil, random
import signal, sys, threading, warnings
import absl.flags, absl.logging, gin, numpy as np
import tensorflow as tf
with contextlib.suppress(ImportError):
    import tf_agents.environments.wrappers, tf_agents.metrics.tf_metrics, tf_agents.policies.policy_saver
from tensorflow.python.util import numpy_compat

def describe():
    threads = tf.config.threading
    return {
        "os.environ": dict(os.environ),
        "sys.path": list(sys.path),
        "sys.meta_path": list(map(repr, sys.meta_path)),
        "sys.path_hooks": list(map(repr, sys.path_hooks)),
        "stand-ins": sorted(x for x, module in sys.modules.items() if module is None),
        "hooks": list(map(repr, (sys.excepthook, threading.excepthook, sys.unraisablehook, sys.displayhook))),
        "streams": list(map(repr, (sys.stdin, sys.stdout, sys.stderr))),
        "interpreter": [sys.getrecursionlimit(), sys.getswitchinterval(), faulthandler.is_enabled()],
        "threads of TensorFlow": [threads.get_inter_op_parallelism_threads(),
                                  threads.get_intra_op_parallelism_threads()],
        "devices": [tf.config.get_soft_device_placement(), tf.config.functions_run_eagerly()],
        "numpy_compat": repr([numpy_compat.np_asarray, numpy_compat.np_array]),
        "garbage": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks],
        "signals": [repr(signal.getsignal(x)) for x in signal.valid_signals()],
        "warnings": list(map(repr, warnings.filters)),
        "logging": [absl.logging.get_verbosity(), logging.root.level, list(map(repr, logging.root.handlers)),
                    logging.root.filters, tf.get_logger().level, logging.getLogger("absl").filters,
                    logging.getLoggerClass().__name__, logging.root.manager.disable],
        "random numbers": [repr(random.getstate()), repr(np.random.get_state()),
                           tf.compat.v1.get_seed(1)],
        "NumPy": [repr(np.geterr()), repr(np.get_printoptions())],
        "decimals": repr(decimal.getcontext()), "locale": locale.setlocale(locale.LC_ALL),
        "running threads": sorted(x.name for x in threading.enumerate()),
        "processes": [multiprocessing.get_start_method(allow_none=True), os.getcwd(),
                      list(map(repr, multiprocessing.active_children()))],
        "files": sorted(os.listdir("/proc/self/fd")),
        "gin": [gin.config_str(), gin.operative_config_str(), gin.config_is_locked(),
                list(map(repr, gin.config._FINALIZE_HOOKS)), list(map(repr, gin.config._FILE_READERS)),
                list(map(str, gin.config._IMPORTS)), gin.config._INTERACTIVE_MODE,
                sorted(dict(gin.config._CONSTANTS.items())), gin.config._LOCATION_PREFIXES],
    }
"""
IMPORTS = """
import alf
modules = [x.name for x in pkgutil.walk_packages(alf.__path__, "alf.") if x.name != "alf.__main__"]
missing = []
for name in modules:
    try:
        __import__(name)
    except ImportError:  # of an extra that is not installed
        missing.append(name)
"""
COMPARISON = """
before = describe()
{imports}
after = describe()
tf.config.threading.set_inter_op_parallelism_threads(7)  # raises an error if TensorFlow has started
changes = {{x: [before[x], after[x]] for x in before if before[x] != after[x]}}
print(json.dumps([changes, len(modules), missing]))
"""


def run(code):
    command = [sys.executable, "-c", code]
    env = environment(PYTHONPATH=str(ROOT))
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_the_modules_of_alf_change_nothing():
    changes, num_modules, missing = run(STATE + COMPARISON.format(imports=IMPORTS))
    assert changes == {}
    assert num_modules > 200 and missing == []


ORDER = """
import json
{before}
import alf
import alf.training, alf.adapters, alf.testing
{after}
import tensorflow as tf
print(json.dumps([int(tf.reduce_sum(tf.ones(3))), gin.config_is_locked(), mine()]))
"""
OWN_GIN = """
import gin
@gin.configurable
def mine(x=1): return x
gin.parse_config_files_and_bindings([], ["mine.x = 7"], finalize_config={})
"""


def test_any_order_works():
    others = "import keras\nimport tensorflow as tf\ntf.zeros(()).numpy()\n"
    for is_locked in (True, False):
        own = OWN_GIN.format(is_locked)
        assert run(ORDER.format(before=others + own, after="")) == [3, is_locked, 7]
        assert run(ORDER.format(before="", after=own + others)) == [3, is_locked, 7]


RUNS = """
import json, sys
{own}
def describe():
    state = [gin.config_str(), gin.operative_config_str(), gin.config_is_locked(), mine()]
    state += [gin.current_scope_str(), gin.config._FILE_READERS[:], gin.config._FINALIZE_HOOKS[:]]
    return state + [id(gin.config.singleton_value("program's", object))]

@gin.config.register_finalize_hook
def check(config):
    raise ValueError("called with another configuration")
scope = gin.config_scope("program")
scope.__enter__()
mine()
before, seen = describe(), []
import alf
for settings in (dict(), dict(learning_rate="much")):
    try:
        alf.train("CartPole-v1", steps=500, num_envs=2, root_dir={root!r}, **settings)
    except alf.ConfigError:
        seen.append("refused")
    seen.append(describe() == before)
alf.load_agent({root!r}).predict([0.0] * 4)
seen.append(describe() == before)
text = open({root!r} + "/operative_config.gin").read()
print(json.dumps([seen, "mine" in text or "program" in text]))
"""


def test_the_configuration_of_a_program_is_its_own_again(tmp_path):
    """After a run, after one that is refused, and after an agent is loaded."""
    for is_locked in (True, False):
        code = RUNS.format(own=OWN_GIN.format(is_locked), root=str(tmp_path / str(is_locked)))
        assert run(code) == [[True, "refused", True, True], False]
