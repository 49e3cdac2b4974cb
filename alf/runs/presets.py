# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Presets: settings with which an algorithm learns on most environments of a kind.

`Experiment.algorithm = "ppo"` chooses the preset "ppo": the gin files alf/presets/ppo.gin and, by the spaces
of the environment, ppo_floats.gin or ppo_integers.gin (observations), ppo_continuous.gin (actions),
ppo_images.gin; for small images small_images.gin, of all algorithms, and dqn_small_images.gin. A later file
replaces bindings of an earlier one, and the user's own bindings replace all of them. `choose_num_groups`
chooses a number of groups that the files leave open.
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from absl import logging

import alf
from alf.callback import check_hooks
from alf.config import registry
from alf.config.parsing import add_defaults, bind, parse_config
from alf.config.short_names import find_full_names
from alf.core.files import relative_to_here
from alf.core.nest_utils import describe_specs
from alf.drivers import EnvSpecs
from alf.drivers.driver import Driver
from alf.drivers.env_making import StartWatch, close_all
from alf.environments.names import list_arguments
from alf.learner.learner import Learner
from alf.networks.encoders import NatureEncoder, choose_image_encoder
from alf.networks.images import is_image
from alf.replay import find_files, read_row_spec
from alf.runs.experiment import Experiment
from alf.runs.groups import check_has_source, choose_num_groups
from alf.runs.run_description import read_description
from alf.runs.saved_run import make_env
from alf.runs.untold import check_training
from alf.runs.what import What

_PRESET = "ppo"  # where only an environment is named
_FOLDER = Path(alf.__file__).with_name("presets")
_EXPERIMENT, _DRIVER_SETTINGS = ("", "alf.training.Experiment"), ("", "alf.drivers.DriverSettings")
_LOAD = "alf.environments.load.name"
_SMALL = "small_images.gin"  # for images that are too small for `NatureEncoder` with its usual layers


@relative_to_here()
def make_parts() -> tuple[Driver, Learner]:
    """Makes the driver and the learner of gin's bindings, with the preset if they choose one."""
    for callback in registry.list_bound("alf.training.Trainer", "callbacks"):
        check_hooks(callback)  # here, because environments may take long to make
    add_preset()
    return Experiment().make_parts()


def add_preset() -> None:
    """Adds the preset that `Experiment.algorithm` names to gin's configuration, and logs its files.

    It makes one environment to read its spaces. It does nothing if `Experiment.algorithm` is not a text.
    """
    bound = registry.list_bindings().get(_EXPERIMENT, {})
    name = bound.get("algorithm")
    if not isinstance(name, str):
        return
    given = set(registry.list_bindings().get(_DRIVER_SETTINGS, {}))
    with registry.unrecorded():
        observation, action, would_compute_in_python = _read_env(bound)
    paths = _list_files(name.lower(), observation, action)
    add_defaults("\n".join(path.read_text(encoding="utf-8") for path in paths))
    if not bound.get("num_collectors"):  # whose groups are as large as those of this process
        groups = choose_num_groups(bound.get("num_envs"), given, would_compute_in_python)
        add_defaults(f"Experiment.num_groups = {groups}")
    files = " and ".join(f"alf/presets/{path.name}" for path in paths)
    spaces = f"observations {describe_specs(observation)}, actions {describe_specs(action)}"
    logging.info("%s, %s: settings of %s", name.lower(), spaces, files)


def read_what(
    what: What,
    algorithm: str | Callable[..., Any] | None,
    steps: int | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Reads what to train, and settings, into gin's configuration: first the gin files, then the rest.

    An environment without a gin file is trained by "ppo", unless `algorithm` says something else.

    Args:
        what: `What`.
        algorithm, steps, settings: as for `find_bindings`.

    Returns:
        a dict from names of bindings to values: all that the gin files do not say.

    Raises:
        ConfigError: if a gin file, a name or a value is wrong.
    """
    parse_config(what.gin_files)
    if algorithm is None and what.env is not None and not what.gin_files:
        algorithm = _PRESET
    bindings = find_bindings(what.env, algorithm, steps, settings)
    bind(bindings)
    if what.run is not None:
        check_training(read_description(what.run).untold)
    return bindings


def find_bindings(
    env: Any,
    algorithm: str | Callable[..., Any] | None,
    steps: int | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Finds the gin bindings that short names mean. Call it after gin files were read.

    Args:
        env: text or callable, `load.name`; None leaves gin's value.
        algorithm: text or class, `Experiment.algorithm`; None leaves gin's value.
        steps: int, `StopCriteria.num_env_steps`; None leaves gin's value.
        settings: dict from names, such as "learning_rate", to values (`find_full_names`).

    Returns:
        a dict from names of bindings to values.

    Raises:
        ConfigError: if names are unknown.
    """
    given = {_LOAD: env, "Experiment.algorithm": algorithm, "StopCriteria.num_env_steps": steps}
    bindings = {name: value for name, value in given.items() if value is not None}
    name = registry.list_bindings().get(("", "alf.environments.load"), {}).get("name") if env is None else env
    arguments = functools.partial(list_arguments, name)
    return bindings | find_full_names(settings, list_used(algorithm), arguments)


def list_used(algorithm: str | Callable[..., Any] | None = None) -> set[str]:
    """Returns the full names of what gin's configuration and the preset of an algorithm, or its own, bind."""
    preset = algorithm or registry.list_bindings().get(_EXPERIMENT, {}).get("algorithm")
    return registry.list_names() | (list_preset(preset) if isinstance(preset, str) else set())


def list_preset(name: str) -> set[str]:
    """Returns the full names of all settings in the files of a preset; none if there is no such preset."""
    paths = list(_FOLDER.glob(f"{name.lower()}*.gin"))
    texts = [path.read_text(encoding="utf-8") for path in paths + [_FOLDER / _SMALL] * bool(paths)]
    return set().union(*map(registry.read_names, texts))


def _read_env(bound):
    """Returns the specs of an environment's observations and actions, and its `would_compute_in_python`.

    The specs are nests of unbatched tensor specs. Without environments the `offline_buffer` has them.
    """
    if bound.get("num_envs") == 0 and not bound.get("num_collectors"):
        check_has_source(bound.get("offline_buffer"))
        rows = read_row_spec(find_files(bound.get("offline_buffer"))[0])
        return rows.observation, rows.action, lambda _: False
    make = registry.find_argument(Experiment, "env")  # without the checks of a number of groups
    with StartWatch([], 1):
        env = make_env(None, batch_size=1, env=make, maps_policies=False)
    try:
        specs = EnvSpecs([env])
    finally:
        close_all([env])
    return specs.observation, specs.action, getattr(env, "would_compute_in_python", lambda _: False)


def _list_files(name, observation, action):
    observed, chosen = tf.nest.flatten(observation), tf.nest.flatten(action)
    kinds = {
        "": True,
        "_floats": any(spec.dtype.is_floating for spec in observed),
        "_integers": all(spec.dtype.is_integer and not is_image(spec) for spec in observed),
        "_continuous": any(spec.dtype.is_floating for spec in chosen),
        "_images": any(map(is_image, observed)),
    }
    paths = [_FOLDER / f"{name}{kind}.gin" for kind, applies in kinds.items() if applies]
    if any(is_image(spec) and choose_image_encoder(spec) is not NatureEncoder for spec in observed):
        paths += [_FOLDER / _SMALL, _FOLDER / f"{name}_{_SMALL}"]
    return list(filter(Path.is_file, paths))
