# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Names for annotations. Docstrings add dtypes and shapes.

TensorFlow has no types, so a type checker treats all of these as `Any`. Where only a NumPy
array is allowed, the annotation is `np.ndarray`. This module imports nothing, because almost all others
import it, also in worker processes, which run without TensorFlow.
"""

from os import PathLike
from typing import Any

Array = Any  # a tensor, a variable or a NumPy array; often also a number
Nest = Any  # nested tuples, lists and dicts with `Array`s as leaves, or a single `Array`
NestedSpec = Any  # a nest of tensor or array specs
FilePath = str | PathLike[str]  # the path of a file or a folder
Environment = Any  # a `BatchedEnvironment`, or a batched `PyEnvironment` of TF-Agents
