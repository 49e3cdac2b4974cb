# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Names for annotations. They say what a value is; its docstring says which dtype and shape it has.

TensorFlow comes without types, so a type checker takes each of these for anything. A NumPy array
that must be one is a plain `np.ndarray`. Nothing is imported here: worker processes run without TensorFlow.
"""

from os import PathLike
from typing import Any

Array = Any  # a tensor, a variable or a NumPy array; often a number will do
Nest = Any  # tuples, lists and dicts, one in another, with `Array`s as leaves; or one leaf alone
NestedSpec = Any  # a nest of tensor or array specs
FilePath = str | PathLike[str]  # of a file or a folder
Environment = Any  # a `BatchedEnvironment`, or a batched `PyEnvironment` of TF-Agents
