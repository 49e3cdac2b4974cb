# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf play: what it records opens and moves, what is wrong, and how it ends. smoke_test.py has a screen."""

import os
import re
import signal
import sys
import time
import tracemalloc

import gin
import imageio_ffmpeg
import numpy as np
import PIL.Image
import PIL.ImageSequence
import pytest

import alf
from alf.bin import play
from alf.config.gin_files import AGENTS
from alf.environments import load
from alf.errors import ConfigError, EnvError, SaveError
from alf.evaluation.frames import VideoFile, Window, open_window, record
from alf.evaluation.video import opengl_errors_are_config_errors, render_frame
from alf.runs.packed_agent import pack_agent
from tests.bin.frameless_envs import NoFrames, RendersText

pytestmark = pytest.mark.programs


def read_video(path):
    """Returns the frames, uint8 [N, height, width, 3], and how many make a second."""
    path = str(path)
    if path.endswith(".gif"):
        with PIL.Image.open(path) as image:
            fps = 1000 / image.info["duration"]
            return np.stack([np.array(f.convert("RGB")) for f in PIL.ImageSequence.Iterator(image)]), fps
    reader = imageio_ffmpeg.read_frames(path)
    meta = next(reader)
    width, height = meta["size"]
    return np.stack([np.frombuffer(f, np.uint8).reshape(height, width, 3) for f in reader]), meta["fps"]


def play_video(command, path, root_dir, **values):
    """Records; returns what was printed of each episode, and the frames."""
    status, out, errors = command(play, what=root_dir, output=str(path), **values)
    assert (status, errors) == (0, [])
    checkpoint, *episodes, last = out.splitlines()
    frames, fps = read_video(path)
    assert checkpoint.endswith("ckpt-2") and last == f"{len(frames)} frames in {path}"
    assert os.listdir(path.parent) == [path.name]
    return episodes, frames, fps


@pytest.mark.parametrize("kind, ending, expected_fps", [("cartpole", ".gif", 50), ("atari", ".mp4", 15)])
def test_records_a_run(kind, ending, expected_fps, root_of, command, tmp_path):
    """For MuJoCo see stories_test.py."""
    episodes, frames, fps = play_video(command, tmp_path / f"a{ending}", root_of(kind), seed=1)
    (length,) = re.fullmatch(r"episode 1: return \S+, length (\d+)", *episodes).groups()
    assert len(frames) == int(length) + 1
    assert fps == pytest.approx(expected_fps, rel=0.12)  # a .gif counts hundredths of a second
    assert (frames[1:] != frames[:-1]).any(axis=(1, 2, 3)).mean() > 0.5


def test_a_game_of_several_agents(root_of, command, tmp_path):
    """Each game has a line of each agent, and a frame of each ply and of its beginning."""
    values = dict(seed=1, num_episodes=2, sample=True)
    lines, frames, fps = play_video(command, tmp_path / "a.gif", root_of("game"), **values)
    pattern = r"episode (\d), (\w+): return (\S+), length (\d+)"
    found = [re.fullmatch(pattern, line).groups() for line in lines]
    assert [x[:2] for x in found] == [(n, f"player_{i}") for n in "12" for i in range(2)]
    (one, other), (length, same) = zip(*[x[2:] for x in found[:2]], strict=True)
    assert length == same and float(one) == -float(other)
    assert len(frames) == sum(int(x[3]) + 1 for x in found[::2])
    assert fps == pytest.approx(2, rel=0.12)


def test_frames_are_those_of_the_environment(root_of, command, tmp_path):
    """The column that is lit moves by one each step; an odd width is padded for .mp4."""
    for ending, width in ((".gif", 65), (".mp4", 66)):
        folder = tmp_path / ending[1:]
        folder.mkdir()
        values = dict(num_episodes=3, seed=1)
        episodes, frames, _ = play_video(command, folder / f"a{ending}", root_of("own"), **values)
        lengths = [int(line.split()[-1]) for line in episodes]
        expected = np.concatenate([np.arange(n + 1) % 65 for n in lengths])
        assert frames.shape == (len(expected), 48, width, 3)
        found = frames.astype(int).sum(axis=(1, 3)).argmax(axis=1)
        np.testing.assert_array_equal(found, expected)


def test_a_seed_and_exploration(root_of, command, tmp_path):
    def play_once(**values):
        values = dict(overwrite=True, settings=["Uneven.longest = 20"], **values)
        return play_video(command, tmp_path / "a.gif", root_of("own"), **values)[0]

    assert play_once(seed=1) == play_once(seed=1)
    assert play_once(seed=1) != play_once(seed=2)
    assert play_once(seed=1) != play_once(seed=1, sample=True)


def test_alf_play_in_python(root_of, tmp_path, capsys):
    """It does what the command does, and leaves gin as it was."""
    gin.clear_config()
    video = tmp_path / "a.gif"
    given = dict(output=video, num_episodes=2, seed=1, max_episode_steps=4)
    episodes = alf.play(root_of("cartpole"), **given)
    assert (episodes.returns.tolist(), episodes.lengths.tolist()) == ([4, 4], [4, 4])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [f"episode {i}: return 4, length 4" for i in (1, 2)] + [f"10 frames in {video}"]
    assert len(read_video(video)[0]) == 10 and not gin.config._CONFIG
    counts = iter([False] * 7 + [True] * 9)
    given["overwrite"] = True
    assert alf.play(root_of("cartpole"), **given, should_stop=lambda: next(counts)).lengths.tolist() == [4]
    for wrong, message in (
        (dict(output=video, overwrite=False), "output is .*: this exists; overwrite=True replaces a file"),
        (dict(num_episodes=0), "play.num_episodes is 0"),
        (dict(num_episode=3), "num_episode: there is no such argument; did you mean num_episodes"),
    ):
        with pytest.raises(ConfigError, match=message):
            alf.play(root_of("cartpole"), **{**given, **wrong})


def test_a_setting_of_the_environment(root_of, command, tmp_path):
    params = ["alf.environments.load.max_episode_steps = 4"]
    values = dict(num_episodes=3, settings=params)
    episodes, frames, _ = play_video(command, tmp_path / "a.gif", root_of("cartpole"), **values)
    assert episodes == [f"episode {i}: return 4, length 4" for i in (1, 2, 3)] and len(frames) == 15


def test_a_file_that_cannot_be_written(root_of, command, tmp_path, subtests):
    (tmp_path / "there.gif").write_text("mine")
    (tmp_path / "folder.gif").mkdir()
    for video, message in {
        "a.avi": r"a\.avi: the file's name must end in \.mp4 or \.gif",
        "a": r"a: the file's name must end in",
        "no/a.mp4": r"no/a\.mp4: there is no folder .*no",
        "there.gif": r"there\.gif: this exists; --overwrite",
        "folder.gif": r"folder\.gif: this exists",
    }.items():
        with subtests.test(video):
            status, out, errors = command(play, what=root_of("cartpole"), output=str(tmp_path / video))
            assert (status, out) == (2, "") and len(errors) == 1
            assert re.search(f"error: -o is .*{message}", errors[0])
    assert (tmp_path / "there.gif").read_text() == "mine"


def test_overwrite(root_of, command, tmp_path):
    (tmp_path / "a.gif").write_text("old")
    values = dict(overwrite=True, settings=["Uneven.longest = 20"])
    _, frames, _ = play_video(command, tmp_path / "a.gif", root_of("own"), **values)
    assert len(frames) > 1


def test_the_agent_of_a_task(root_of, command, tmp_path, monkeypatch):
    """The argument alf:TASK, in place of a folder, names the agent that was packed."""
    pack_agent(root_of("cartpole"), tmp_path / "agents" / "CartPole-v1")
    monkeypatch.setenv(AGENTS, str(tmp_path / "agents"))
    values = dict(output=str(tmp_path / "a.gif"), seed=1)
    status, out, errors = command(play, "alf:CartPole-v1", **values)
    assert (status, errors) == (0, [])
    assert out.startswith(f"{tmp_path}/agents/CartPole-v1/checkpoints/ckpt-2\nepisode 1: return ")
    status, _, errors = command(play, "alf:CartPole-v1", what=root_of("cartpole"))
    assert (status, errors) == (2, [f"error: unexpected argument '{root_of('cartpole')}': name one"])
    status, _, errors = command(play, "alf:Acrobot-v1")
    assert status == 2 and "train one, `alf train alf:Acrobot-v1 -o runs/Acrobot-v1`" in errors[0]


def test_the_package_for_videos_is_missing(root_of, command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    status, _, errors = command(play, what=root_of("cartpole"), output=str(tmp_path / "a.gif"))
    assert status == 2 and 'pip install "alf-tf[video]"' in errors[0]


def test_ffmpeg_fails(root_of, command, tmp_path, monkeypatch):
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\nhead -c 9 > /dev/null\necho 'first'\necho 'No space left' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(program))
    status, _, errors = command(play, what=root_of("cartpole"), output=str(tmp_path / "a.gif"))
    assert status == 1
    assert errors == ["error: the video could not be written: ffmpeg: No space left"]
    assert os.listdir(tmp_path) == ["ffmpeg"]


def test_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(SaveError, match="File name too long"):
        with record(str(tmp_path / ("a" * 254 + ".gif")), 30):
            pass


def test_after_an_error_there_is_no_file(tmp_path):
    frame = np.zeros((16, 16, 3), np.uint8)
    with pytest.raises(EnvError, match=r"shape \(16, 16, 3\), and then of \(18, 16, 3\)"):
        with record(str(tmp_path / "a.mp4"), 30) as video:
            video.show(frame)
            video.show(np.zeros((18, 16, 3), np.uint8))
    assert not os.listdir(tmp_path)


def test_frames_are_not_kept_in_memory(tmp_path):
    frame = np.zeros((480, 640, 3), np.uint8)
    tracemalloc.start()
    try:
        with record(str(tmp_path / "a.mp4"), 30) as video:
            for _ in range(60):
                video.show(frame)
        assert tracemalloc.get_traced_memory()[1] < 10 * frame.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "env_class, message",
    [
        (NoFrames, "cannot be rendered: it has no render()"),
        (RendersText, "its render() returns 'text' instead of a frame"),
    ],
)
def test_an_environment_without_frames(env_class, message):
    env = load(env_class, 1, render_mode="rgb_array")
    env.reset()
    with pytest.raises(ConfigError, match=re.escape(message)):
        render_frame(env)


def test_nothing_to_draw_with():
    for text in (
        "No OpenGL backend could be imported",
        "an OpenGL platform library has not been loaded",
        "'NoneType' object has no attribute 'eglQueryString'",
        "'NoneType' object has no attribute 'glGetError'",
        "Cannot initialize a EGL device display",
        "invalid value for environment variable MUJOCO_GL: a",
    ):
        with pytest.raises(ConfigError, match=f"MuJoCo cannot render here: {text}; .* MUJOCO_GL"):
            with opengl_errors_are_config_errors():
                raise AttributeError(text)


def test_ones_own_mistakes_keep_their_traceback():
    with pytest.raises(ZeroDivisionError), opengl_errors_are_config_errors():
        1 / 0  # noqa: B018


def test_a_batch_of_one_frame():
    class Batch:
        def render(self):
            return np.ones((1, 4, 5, 3), np.uint8)

    assert render_frame(Batch()).shape == (4, 5, 3)


def test_an_environment_of_many(root_of, command, tmp_path):
    (tmp_path / "many_envs.py").write_text(
        "import gin\nfrom alf.environments import load\n"
        "@gin.configurable\ndef many(seed):\n    return load('CartPole-v1', 3, seed=seed)\n"
    )
    sys.path.insert(0, str(tmp_path))
    params = ["Experiment.env = @many_envs.many", "Experiment.num_envs = None"]
    values = dict(what=root_of("cartpole"), output=str(tmp_path / "a.gif"), settings=params)
    status, _, errors = command(play, **values)
    assert status == 2 and "env makes 3 environments" in errors[0] and "batch_size" in errors[0]


# The screen


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def test_frames_are_shown_at_their_speed_until_the_window_is_closed(screen):
    import pygame

    frame = np.zeros((20, 30, 3), np.uint8)
    frame[5, 7] = 10, 20, 30
    with open_window(20) as window:
        start = time.monotonic()
        for _ in range(6):
            window.show(frame)
        assert time.monotonic() - start > 0.2
        assert pygame.display.get_surface().get_at((7, 5))[:3] == (10, 20, 30)
        assert not window.is_closed
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        window.show(frame)
        assert window.is_closed


def test_the_window_is_closed(screen, root_of, command, monkeypatch):
    monkeypatch.setattr(Window, "is_closed", True, raising=False)
    monkeypatch.setattr(Window, "show", lambda self, frame: setattr(self, "is_closed", True))
    status, out, errors = command(play, what=root_of("cartpole"), num_episodes=5)
    assert (status, errors) == (0, []) and len(out.splitlines()) == 1


@pytest.mark.parametrize("driver", ["none", None], ids=["no such driver", "nothing is set"])
def test_there_is_no_screen(driver, root_of, command, monkeypatch):
    """As on a server, where SDL falls back to a driver that crashes."""
    for name in ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if driver is not None:
        monkeypatch.setenv("SDL_VIDEODRIVER", driver)
    status, _, errors = command(play, what=root_of("cartpole"))
    assert status == 2 and len(errors) == 1
    assert re.search(r"there is no screen \(.*\): record with -o FILE\.mp4", errors[0])


# The end


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_the_video(signum, root_of, command, tmp_path, monkeypatch):
    """It comes with the eighth frame of an episode that does not end."""
    show = VideoFile.show

    def show_and_send(self, frame):
        show(self, frame)
        if self.num_frames == 8:
            os.kill(os.getpid(), signum)

    def fail(*_):
        raise AssertionError(f"the command does not handle {signum.name}")

    monkeypatch.setattr(VideoFile, "show", show_and_send)
    video = tmp_path / "a.gif"
    values = dict(what=root_of("own"), output=str(video), settings=["Uneven.longest = 1e18"])
    before = signal.signal(signum, fail)
    try:
        status, out, errors = command(play, **values)
    finally:
        signal.signal(signum, before)
    assert (status, errors) == (128 + signum, [])
    frames, _ = read_video(video)
    assert len(frames) >= 8
    assert out.splitlines()[1:] == [f"{len(frames)} frames in {video}", f"stopped by {signum.name}"]
    assert os.listdir(tmp_path) == ["a.gif"]
