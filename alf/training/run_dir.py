# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RunDir: a run's directory, with its configuration and the revision of its code."""

import os
import re
import subprocess
import tempfile

import gin

from alf.errors import ConfigError

_CONFIG_FILE = "operative_config.gin"
# A run may be continued with other limits, another log interval and so on; not with another experiment.
_MAY_CHANGE = ("StopCriteria.", "Trainer.summary_interval", "Trainer.checkpoint_interval")


class RunDir:
    """Where a run writes: the paths `path`, `summaries` (for TensorBoard) and `checkpoints`.

    The directory is made if it does not exist. If it cannot be written to, ConfigError is raised.
    """

    def __init__(self, path):
        self.path = os.path.abspath(os.path.expanduser(path))
        self.summaries = os.path.join(self.path, "train")
        self.checkpoints = os.path.join(self.path, "checkpoints")
        try:
            os.makedirs(self.path, exist_ok=True)
            tempfile.TemporaryFile(dir=self.path).close()
        except OSError as error:
            raise ConfigError(f"root_dir {path!r} cannot be written to: {error.strerror}") from None

    def check_config(self):
        """Raises ConfigError, which shows the differences, if there is a run of another configuration."""
        path = os.path.join(self.path, _CONFIG_FILE)
        if not os.path.exists(path):
            return
        with open(path) as file:
            theirs, ours = _parse_settings(file.read()), _parse_settings(gin.operative_config_str())
        names = [name for name in theirs.keys() | ours.keys() if not name.startswith(_MAY_CHANGE)]
        different = sorted(name for name in names if theirs.get(name) != ours.get(name))
        if different:
            shown = "; ".join(f"{k} is {ours.get(k)} here, {theirs.get(k)} there" for k in different[:5])
            raise ConfigError(
                f"root_dir {self.path!r} holds a run of another config ({shown}): choose another root_dir"
            )

    def write_config(self):
        """Writes the operative configuration and the revision of the code."""
        texts = {_CONFIG_FILE: gin.operative_config_str(), "git_revision.txt": git_revision() + "\n"}
        for name, text in texts.items():
            path = os.path.join(self.path, name)
            with open(path + ".tmp", "w") as file:
                file.write(text)
            os.replace(path + ".tmp", path)


def git_revision():
    """The commit of the code that runs, "-dirty" if it was changed since; "unknown" outside a repository."""
    try:
        command = ["git", "-C", os.path.dirname(__file__), "describe", "--always", "--dirty", "--abbrev=40"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def check_dead_bindings():
    """Raises ConfigError, once everything is built, that names the bindings that nothing has read."""
    bound = _parse_settings(gin.config_str())
    # A name without a dot is a macro's.
    dead = {name for name in bound if "." in name.rpartition("/")[2]}
    for name in _parse_settings(gin.operative_config_str()):
        # A call in the scope a/b reads the binding of a/b, else that of a, else the one without a scope.
        *scopes, parameter = name.split("/")
        candidates = ("/".join((*scopes[:i], parameter)) for i in range(len(scopes), -1, -1))
        dead.discard(next((candidate for candidate in candidates if candidate in bound), None))
    if dead:
        raise ConfigError(f"nothing reads the gin binding {', '.join(sorted(dead))}")


def _parse_settings(config):
    """The bindings of a config text as a dict, without comments."""
    # Gin indents the lines that continue a value.
    statements = re.sub(r"\\?\n +", " ", config).splitlines()
    pairs = [line.split("=", 1) for line in statements if "=" in line and not line.startswith("#")]
    return {name.strip(): " ".join(value.split()) for name, value in pairs}
