# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Writes frames, uint8 [height, width, 3], to a video file, or shows them in a window on the screen."""

import contextlib
import os
import subprocess
import tempfile

from alf.core.files import replace_file
from alf.errors import ConfigError, EnvError, SaveError, argument, import_extra

# The arguments of ffmpeg for each kind of file. It writes frames as they come. Gymnasium's RecordVideo needs
# moviepy, keeps all frames in memory, names its files itself and knows no .gif; Pillow keeps them, too.
_FORMATS = {
    # Most players want even sizes, and one colour for four pixels.
    ".mp4": ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-f", "mp4"],
    # Each frame has its own 256 colours: common ones would be known after the last frame.
    ".gif": ["-vf", "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1", "-f", "gif"],
}
_MAX_GIF_FPS = 50  # browsers show faster ones with 10 frames a second
_FINISH_SECONDS = 60.0  # for the frames that ffmpeg still holds, about 50


def check_path(path, overwrite):
    """Raises ConfigError if it is known before the start that no video can be written to `path`."""
    folder, name = os.path.dirname(os.path.abspath(path)), argument("output")
    if os.path.splitext(path)[1] not in _FORMATS:
        raise ConfigError(f"{name} is {path}: the file's name must end in {' or '.join(_FORMATS)}")
    if not os.path.isdir(folder):
        raise ConfigError(f"{name} is {path}: there is no folder {folder}")
    if os.path.isdir(path) or (os.path.exists(path) and not overwrite):
        raise ConfigError(f"{name} is {path}: this exists; {argument('overwrite', True)} replaces a file")
    import_extra("imageio_ffmpeg", "video")


@contextlib.contextmanager
def record(path, fps):
    """Context that gives a `VideoFile`. The file appears when the block ends without an error.

    Args:
        path: text that ends in .mp4 or .gif.
        fps: frames that are shown in a second.

    Raises:
        SaveError: if the file cannot be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            # ffmpeg opens this file once more, by its name. The stack ends in the other order: first ffmpeg,
            # if it still runs, then the file gets its place, or is removed after an error.
            unfinished = stack.enter_context(replace_file(path)).name
        except OSError as error:
            raise SaveError(f"{path} cannot be written: {error}") from None
        messages = stack.enter_context(tempfile.TemporaryFile())
        video = VideoFile(unfinished, os.path.splitext(path)[1], fps, messages)
        stack.callback(video.kill)
        yield video
        video.finish()


class VideoFile:
    """Writes frames to a file, as they come.

    Args:
        path: path of the file.
        ending: ".mp4" or ".gif".
        fps: frames that are shown in a second.
        messages: binary file, for the messages of ffmpeg. It is not a pipe, which nobody would read: ffmpeg
            could block.

    Attributes:
        num_frames: number of frames so far.
        is_closed: False, because a file takes any number of frames.
    """

    is_closed = False

    def __init__(self, path, ending, fps, messages):
        self.num_frames = 0
        self._path, self._format = path, _FORMATS[ending]
        self._fps = min(fps, _MAX_GIF_FPS) if ending == ".gif" else fps
        self._messages = messages
        self._process = self._shape = None

    def show(self, frame):
        """Adds a frame. Raises EnvError if it is not as large as the first one, SaveError if ffmpeg fails."""
        if self._process is None:
            # Only now: ffmpeg must know the size, which the first frame shows.
            self._start(*frame.shape[:2])
            self._shape = frame.shape
        # The stream of bytes has no frames: after one of another size, ffmpeg would cut all later ones
        # wrongly.
        if frame.shape != self._shape:
            raise EnvError(f"render() returned frames of shape {self._shape}, and then of {frame.shape}")
        try:
            self._process.stdin.write(frame.tobytes())
        except OSError:
            # ffmpeg has ended: its exit status and its last line say why.
            self.finish()
        self.num_frames += 1

    def finish(self):
        """Waits until the file is whole; raises SaveError if ffmpeg fails."""
        with contextlib.suppress(OSError):  # The exit status says more.
            self._process.stdin.close()
        try:
            if self._process.wait(_FINISH_SECONDS) == 0:
                return
        except subprocess.TimeoutExpired:
            raise SaveError(f"the video could not be written: ffmpeg takes {_FINISH_SECONDS} s") from None
        self._messages.seek(0)
        lines = self._messages.read().decode(errors="replace").splitlines()
        reason = lines[-1] if lines else f"exit status {self._process.returncode}"
        raise SaveError(f"the video could not be written: ffmpeg: {reason}")

    def kill(self):
        """Ends ffmpeg if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self, height, width):
        ffmpeg = import_extra("imageio_ffmpeg", "video").get_ffmpeg_exe()
        source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(self._fps)]
        self._process = subprocess.Popen(
            # With -y, because `replace_file` has made the file already.
            [ffmpeg, "-loglevel", "error", "-y", *source, "-i", "-", *self._format, self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            start_new_session=True,  # Ctrl-C on a terminal must not end ffmpeg before the video is whole.
        )


@contextlib.contextmanager
def open_window(fps):
    """Context that gives a `Window` for `fps` frames in a second; ConfigError if there is no screen."""
    pygame = import_extra("pygame", "video")
    try:
        pygame.display.init()
        # What SDL falls back to without a screen, in whose windows it may crash. Who names a driver gets it.
        if pygame.display.get_driver() == "offscreen" and not os.environ.get("SDL_VIDEODRIVER"):
            pygame.display.quit()
            raise pygame.error("SDL has found none")
    except pygame.error as error:
        recorded = argument("output", "FILE.mp4")
        raise ConfigError(f"there is no screen ({error}): record with {recorded}") from None
    try:
        yield Window(pygame, fps)
    finally:
        pygame.display.quit()


class Window:
    """Shows frames on the screen, at their speed.

    Args:
        pygame: the module.
        fps: frames that are shown in a second.

    Attributes:
        is_closed: whether the user has closed the window.
    """

    def __init__(self, pygame, fps):
        self._pygame, self._fps, self._window = pygame, fps, None
        self._clock = pygame.time.Clock()
        self.is_closed = False

    def show(self, frame):
        """Shows a frame, as soon as the last one was visible for its time."""
        pygame = self._pygame
        size = frame.shape[1], frame.shape[0]
        if self._window is None:
            self._window = pygame.display.set_mode(size, pygame.SCALED)
            pygame.display.set_caption("alf play")
        self._window.blit(pygame.image.frombuffer(frame.tobytes(), size, "RGB"), (0, 0))
        # The wait comes first: the frame before stays on the screen for its time.
        self._clock.tick(self._fps)
        pygame.display.flip()
        # This also tells the desktop that the program lives: it would else offer to end it.
        self.is_closed |= any(event.type == pygame.QUIT for event in pygame.event.get())
