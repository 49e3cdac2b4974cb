# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RunDir: a run's directory, with its configuration, the revision of its code, and how it ended."""

import contextlib
import fcntl
import itertools
import json
import os
import re
import tempfile
import weakref
from collections.abc import Iterator

from absl import logging

import alf
from alf.config.comparison import check_same, parse_settings
from alf.config.gin_files import CONFIG_FILE
from alf.config.imports import RUN_FILE, list_own_paths
from alf.core.annotations import FilePath
from alf.core.files import find_path, open_regular, relative_to_here, replace_file
from alf.errors import ConfigError, FolderError, argument, is_installed
from alf.runs.git_state import read_git_state
from alf.runs.progress_file import PROGRESS_FILE, read_rows

DONE_FILE, DIFF_FILE = "done.json", "git_diff.patch"
SWEEP_FILE, POPULATION_FILE = "sweep.json", "population.json"
_KINDS = {CONFIG_FILE: "a run", SWEEP_FILE: "a sweep", POPULATION_FILE: "a population"}
_MOST_REASON = 1000  # characters
_unused: set[str] = set()  # absolute paths of directories that this process has made
_locked: set[int] = set()  # file descriptors of the directories that this process has locked


def _close_lock(directory):
    _locked.discard(directory)
    os.close(directory)


# A lock belongs to the open file, which a forked process shares: a process that an environment forks would
# keep the directory locked after this process has ended.
os.register_at_fork(after_in_child=lambda: [_close_lock(directory) for directory in list(_locked)])


class RunDir:
    """The directory of a run, with the paths `path`, `summaries` (for TensorBoard) and `checkpoints`.

    The directory is made if it does not exist. ConfigError is raised if it cannot be written to, or holds a
    sweep or a population. Sweeps and populations have a `RunDir` too, with their file as `own_file`.
    """

    def __init__(self, path, own_file=CONFIG_FILE):
        self.path = find_path(path)
        # Before the directory is made: a path that is refused leaves nothing behind.
        check_kind(self.path, own_file)
        self.summaries = os.path.join(self.path, "train")
        self.checkpoints = checkpoints_of(self.path)
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            self._is_made = _make(self.path)
            if self._is_made:
                _unused.add(self.path)
            # Permissions do not tell it all (read-only mounts, quotas): only a try does.
            tempfile.TemporaryFile(dir=self.path).close()
        except OSError as error:
            raise FolderError(
                self.path, f"cannot be written to: {error.strerror}: choose another root_dir"
            ) from None
        self._unlock = None

    def lock(self):
        """Locks the directory until `close`; raises ConfigError if another run has locked it.

        The kernel frees the lock when this process ends for any reason.
        """
        # The directory itself: a file in it would stay behind, or could be removed while it is locked.
        directory = os.open(self.path, os.O_RDONLY)
        _locked.add(directory)
        # Without `close`, too, once nobody refers to this object any more; and at most once, however often it
        # is called: the number of a closed descriptor may soon belong to another file.
        self._unlock = weakref.finalize(self, _close_lock, directory)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._unlock()
            raise FolderError(self.path, "is in use: another run writes there now") from None
        except OSError as error:  # Some network file systems have no locks.
            logging.warning("%s cannot be locked against a second run: %s", self.path, error)

    def close(self):
        """Removes the directory if this object has made it and it is empty; frees the lock.

        It may be called again.
        """
        # Before another process may lock it.
        if self._is_made:
            _remove_empty(self.path)
            _unused.discard(self.path)
            self._is_made = False
        if self._unlock is not None:
            self._unlock()

    def check_config(self, config, repeats=False):
        """Raises ConfigError, which shows the differences, if a run of another configuration is here.

        Also if a run is here that has trained, and left no checkpoint: this one would replace its files.

        Args:
            config: the text of this run's configuration.
            repeats: whether this run makes the same steps again as one before it: it may take its place.
        """
        path = os.path.join(self.path, CONFIG_FILE)
        if not has_checkpoints(self.path):
            if has_trained(self.path) and not repeats:
                raise FolderError(
                    self.path,
                    "holds a run that has trained, but has no checkpoint to go on from: remove it, or choose "
                    "another root_dir",
                )
            return
        if not self.has_config:
            logging.warning("%s is missing: the run goes on, whatever its settings were", path)
            return
        try:
            with open_regular(path, encoding="utf-8") as file:
                theirs = parse_settings(file.read())
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
        ours = parse_settings(config)
        # Weights do not depend on most settings, such as the number of environments.
        remedy = f"; there {argument('initial_checkpoint', repr(self.path))} takes its weights, if they fit"
        check_same(self.path, "holds a run", ours, theirs, lambda role: not role.may_change, remedy)

    @property
    def has_config(self):
        """Whether the operative configuration is here; `alf pbt` removes it before it builds a member."""
        return os.path.exists(os.path.join(self.path, CONFIG_FILE))

    def write_config(self, config, policy, save_git_state=True, devices=None):
        """Writes the text of the operative configuration, a `RunDescription` and the revision of ALF's code.

        The run's policy is made from them later. With `save_git_state` this also writes the changes of the
        user's own code since its commit, if there are any. `devices` is an entry of the description.
        ConfigError is raised if a file cannot be written.
        """
        from alf.runs.run_description import describe_run  # here: commands list runs without TensorFlow

        # Everything is read and made before the first file is written: an error here changes no file.
        git_state = read_git_state(_list_own_folders()) if save_git_state else None
        contents = {
            CONFIG_FILE: config.encode(),
            RUN_FILE: describe_run(policy, git_state, devices).to_json().encode(),
            "git_revision.txt": f"{git_revision()}\n".encode(),
            DIFF_FILE: git_state.diff if git_state else b"",
        }
        try:
            for name, content in contents.items():
                if content:
                    with replace_file(os.path.join(self.path, name)) as file:
                        file.write(content)
            if not contents[DIFF_FILE]:  # An earlier start of this run may have left one.
                self._remove(DIFF_FILE)
        except OSError as error:
            raise FolderError(self.path, f"cannot be written to: {error.strerror}") from None

    def write_done(self, status, reason, counters):
        """Writes `done.json`, which says how the run ended. A run removes it when it starts.

        Args:
            status: "SUCCESS", "FAILURE" or "INTERRUPTED".
            reason: text; its lines become one line, of which the file has 1000 characters at most.
            counters: dict of ints by name, further entries of the file.
        """
        reason = " ".join(reason.split())
        if len(reason) > _MOST_REASON:  # an error may name a whole array
            reason = f"{reason[:_MOST_REASON]}..."
        content = {"status": status, "reason": reason, **counters}
        try:
            with replace_file(os.path.join(self.path, DONE_FILE)) as file:
                file.write((json.dumps(content, indent=1) + "\n").encode())
        except OSError as error:
            # The run has ended already, perhaps with an error of its own, which this one must not hide.
            logging.error("%s could not be written: %s", DONE_FILE, error)

    def remove_done(self):
        """Removes `done.json`, if it is there."""
        try:
            self._remove(DONE_FILE)
        except OSError as error:
            logging.error("%s could not be removed: %s", DONE_FILE, error)

    def _remove(self, name):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(self.path, name))


def check_kind(path, own_file):
    """Raises ConfigError if a directory holds another kind of work than the one whose file is `own_file`."""
    for name, kind in _KINDS.items():
        if name != own_file and os.path.exists(os.path.join(path, name)):
            raise FolderError(path, f"holds {kind}: choose another root_dir")


@contextlib.contextmanager
def choose_root_dir(root_dir: FilePath | None, *names: str) -> Iterator[FilePath]:
    """Context that gives the absolute path of `root_dir`, or of a new directory in runs/ for what is trained.

    A new one, such as "runs/ppo_CartPole-v1" for the names "ppo" and "CartPole-v1", has been made, so that no
    other process takes it. If the block raises an error, it is removed, unless it holds something. In the
    block, `find_path` takes relative paths from the directory where it begins.

    Raises:
        ConfigError: if it cannot be made.
    """
    if root_dir:
        with relative_to_here():
            yield find_path(root_dir)
        return
    path = find_path(os.path.join("runs", re.sub(r"[^\w.-]+", "-", "_".join(names) or "run")))
    others = (f"{path}_{number}" for number in itertools.count(2))
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        made = next(filter(_make, itertools.chain([path], others)))
    except OSError as error:
        raise FolderError(path, f"cannot be made: {error.strerror}: choose another root_dir") from None
    _unused.add(made)
    try:
        with relative_to_here():
            yield made
    except BaseException:
        _remove_empty(made)
        raise
    finally:
        _unused.discard(made)


def remove_unused():
    """Removes the directories that this process has made for runs, and in which it has written nothing yet.

    It is for a process that ends at once, while it builds a run.
    """
    for path in list(_unused):  # a copy, because another thread may build a run
        _remove_empty(path)


def _remove_empty(path):
    """Removes a directory, unless it holds something."""
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _make(path):
    """Makes a directory; returns whether there was none."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return False
    return True


def checkpoints_of(path):
    """Returns the directory of the checkpoints of the run in `path`."""
    return os.path.join(path, "checkpoints")


def has_checkpoints(path):
    """Whether the run in `path` has saved a checkpoint.

    Any other file beside the checkpoints counts, too, but not the rest of a save that was cut off.
    """
    folder = checkpoints_of(path)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return any(not name.startswith(".") and not name.endswith(".tmp") for name in names)


def has_trained(path):
    """Whether the run in `path` has learned from environment steps, as its `progress.csv` says."""
    try:
        return any(int(row[0]) > 0 for row in read_rows(os.path.join(path, PROGRESS_FILE))[1])
    except (OSError, ValueError):
        return False


def has_succeeded(path):
    """Whether `done.json` says that the run in `path` has ended at a stop criterion."""
    try:
        with open_regular(os.path.join(path, DONE_FILE), encoding="utf-8") as file:
            return json.load(file)["status"] == "SUCCESS"
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _list_own_folders():
    """Lists where the user's own code is: the folders of gin files and modules."""
    package = os.path.dirname(os.path.realpath(alf.__file__))
    # ALF's own code is not the user's: `git_revision.txt` has its commit.
    return [path for path in list_own_paths() if path != os.path.dirname(package)]


def git_revision():
    """Returns the commit of ALF's code, with "-dirty" if it was changed; "unknown" outside a repository."""
    if is_installed(os.path.dirname(alf.__file__)):
        return "unknown"  # a repository around it is the user's
    state = read_git_state([os.path.dirname(__file__)])
    return "unknown" if state is None else state.commit + ("-dirty" if state.diff else "")
