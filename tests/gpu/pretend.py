# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Gives TensorFlow of this process a GPU that is none: see pretend_gpu.cc. It takes a C++ compiler.

`python -m pytest -p tests.gpu.pretend tests/drivers` runs tests as on a machine with a GPU. They may import
TensorFlow before, but not start it.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import tensorflow as tf

SOURCE = Path(__file__).with_suffix("").with_name("pretend_gpu.cc")
COMPILER = shutil.which(os.environ.get("CXX", "g++"))
SECONDS = 300.0  # the most for compiling, which takes 10


def build():
    """Compiles the device for this TensorFlow, if that was not done before; returns its path."""
    folder = tf.sysconfig.get_lib()
    flags = ["-w", "-O1", "-fPIC", "-shared", *tf.sysconfig.get_compile_flags(), f"-L{folder}"]
    flags += [f"-Wl,-rpath,{folder}", "-l:libtensorflow_cc.so.2", *tf.sysconfig.get_link_flags()]
    content = "\n".join([SOURCE.read_text(), tf.__version__, *flags])
    name = f"alf-pretend-gpu-{os.getuid()}-{hashlib.sha256(content.encode()).hexdigest()[:16]}.so"
    path = Path(tempfile.gettempdir(), name)
    if not path.exists():
        with tempfile.TemporaryDirectory() as scratch:
            new = Path(scratch, "new.so")
            command = [COMPILER, str(SOURCE), "-o", str(new), *flags]
            subprocess.run(command, check=True, timeout=SECONDS)
            # Beside it first: other processes may do the same, and a rename is whole.
            beside = path.with_name(f"{name}.{os.getpid()}")
            shutil.copy(new, beside)
            beside.rename(path)
    return path


@functools.cache
def load():
    """Adds the device to TensorFlow, which must not have started; returns the library."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    return ctypes.CDLL(str(build()))


def read_traffic():
    """Reads the copies between host and device since the start.

    Returns a dict: how many there were "to device" and "to host", and the bytes of each.
    """
    numbers = (ctypes.c_int64 * 4)()
    load().alf_read_traffic(numbers)
    names = "to device", "bytes to device", "to host", "bytes to host"
    return dict(zip(names, numbers, strict=True))


def pytest_configure():
    load()
