"""Packaging of ALF. Resolve everything in one pip call: pip install -e ".[dev]"."""

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def read_version():
    text = (ROOT / "alf" / "version.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE).group(1)


def read_description():
    # On the page of the package the links to files of the repository would lead nowhere.
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"!?\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)


class BuildWithExamples(build_py):
    """Puts the examples into the wheel, as alf/examples: "--gin_file=alf:NAME.gin" finds them there.

    An editable installation has them beside alf.
    """

    def run(self):
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "alf", "examples")
            self.mkpath(str(target))
            for path in [*(ROOT / "examples").glob("*.gin"), *(ROOT / "examples").glob("*.py")]:
                self.copy_file(str(path), str(target / path.name))


INSTALL_REQUIRES = [
    # The line that ALF is measured on; tf_keras follows TensorFlow's minor version.
    "tensorflow>=2.21,<2.22",
    # Keras 2, which TF-Agents needs; must match TensorFlow's minor version.
    "tf_keras>=2.21,<2.22",
    # The last release; its own pins (pygame, typing-extensions) decide the Python versions.
    "tf-agents==0.19.0",
    # The series that TF-Agents 0.19 is built against.
    "tensorflow-probability==0.23.*",
    # TF-Agents 0.19 uses names that NumPy 2 removed.
    "numpy<2",
    # The 1.x API: vector environments that reset on the next step. Without its
    # classic-control extra, which brings pygame-ce over TF-Agents' pygame.
    "gymnasium>=1.0,<2",
    # Carries environments to worker processes; Gymnasium needs it, too.
    "cloudpickle",
    # Configuration; ALF keeps two configurations apart, which uses names that are not public.
    "gin-config==0.5.*",
    # Command line and logging; TensorFlow bounds it.
    "absl-py",
    # Metrics; not every build of TensorFlow brings it along.
    "tensorboard",
    # Progress bars; any version does.
    "tqdm",
    # Memory and CPU time of a run and of its worker processes.
    "psutil",
]

EXTRAS = {
    # Their C++ environments step outside the GIL. ale-py takes a seed for each game from 0.12 on.
    "atari": ["ale-py>=0.12"],
    # Large for the sake of its MuJoCo environments, see docs/packaging.md.
    "envpool": ["envpool>=1.0"],
    # NVIDIA's libraries, for GPUs.
    "cuda": ["tensorflow[and-cuda]"],
    # Gymnasium's extra knows which MuJoCo its environments fit.
    "mujoco": ["gymnasium[mujoco]"],
    # Brings ffmpeg, which writes the videos of alf-play frame by frame.
    "video": ["imageio-ffmpeg>=0.5"],
    # Collectors on other machines. Its actor API alone.
    "ray": ["ray>=2.40"],
    # What Ray's extra of that name has, without pydantic, which needs a typing-extensions that TF-Agents 0.19
    # does not allow; pyarrow 26 needs NumPy 2. Matplotlib draws the picture of a population.
    "tune": ["ray>=2.40", "pandas", "pyarrow>=17,<26", "fsspec", "tensorboardX", "requests", "matplotlib"],
    # alf-sweep: Optuna is for Sweep.search = "optuna" alone.
    "sweep": ["matplotlib", "optuna>=4"],
    # alf-plot.
    "plot": ["matplotlib"],
    # 1.26 moved its particle environments to mpe2, which brings pygame-ce over TF-Agents' pygame.
    "pettingzoo": ["pettingzoo>=1.25,<1.26"],
    # alf-export --onnx. Newer versions of onnx need a typing-extensions that TF-Agents 0.19 does not allow.
    "onnx": ["tf2onnx>=1.17", "onnx<1.18", "onnxruntime"],
    # make docs. It reads the sources: these alone, without ALF and TensorFlow, are enough for it.
    "docs": [
        "mkdocs>=1.6,<2",
        "mkdocs-material>=9.5,<10",
        "mkdocstrings[python]>=0.27",
        # The last mkdocstrings for Python 3.10 does not know newer ones.
        "pymdown-extensions<12; python_version < '3.11'",
    ],
}

DEV_REQUIRES = [
    # The tests and examples use them. `make install-envpool` adds EnvPool; its tests are skipped without it.
    *[
        package
        for name, packages in EXTRAS.items()
        if name not in ("cuda", "envpool")
        for package in packages
    ],
    "pytest>=8",
    # Ends a test that hangs.
    "pytest-timeout",
    # Two tests at a time: most of them leave a core idle.
    "pytest-xdist",
    "hypothesis",
    # Speaks with the browser of the tests of pages.
    "websockets",
    # One minor version: another one may format the same code differently.
    "ruff>=0.17,<0.18",
    # Checks the types. Newer ones need a typing-extensions that TF-Agents 0.19 does not allow.
    "mypy==1.10.*",
]

setup(
    name="alf-tf",
    version=read_version(),
    description="Agent Learning Framework: asynchronous off-policy RL on TensorFlow",
    long_description=read_description(),
    long_description_content_type="text/markdown",
    author="The ALF Authors",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords="reinforcement learning, IMPALA, PPO, SAC, DQN, TensorFlow",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    # No 3.12: TF-Agents 0.19 pins pygame 2.1.3, which has no wheel for it.
    python_requires=">=3.10,<3.12",
    packages=find_packages(include=["alf", "alf.*"]),
    package_data={"alf": ["py.typed"]},
    cmdclass={"build_py": BuildWithExamples},
    install_requires=INSTALL_REQUIRES,
    extras_require={**EXTRAS, "dev": DEV_REQUIRES},
    entry_points={
        "console_scripts": [
            f"alf-{name.replace('_', '-')} = alf.bin.{name}:console_main"
            for name in (
                "train",
                "pbt",
                "sweep",
                "play",
                "evaluate",
                "export",
                "benchmark",
                "plot",
                "check_env",
            )
        ]
    },
)
