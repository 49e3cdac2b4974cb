"""Packaging of ALF: `pip install .` brings all that training, acting and exporting need.

TF-Agents is not among it, and no extra can bring it: see alf/tf_agents.txt.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent


def read_version():
    text = (ROOT / "alf" / "version.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE).group(1)


def read_description():
    # On the page of the package the links to files of the repository would lead nowhere.
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"!?\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)


INSTALL_REQUIRES = [
    # The oldest that the tests pass with. alf/core/tf_private.py lists the private names that ALF uses, and a
    # test of each fails where a new version changes it.
    "tensorflow>=2.18",
    # The 1.x API: vector environments that reset on the next step.
    "gymnasium>=1.0,<2",
    # 1.26 is the last NumPy 1.
    "numpy>=1.26",
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
    # Scales images.
    "pillow",
]

EXTRAS = {
    # Their C++ environments step outside the GIL. ale-py takes a seed for each game from 0.12 on.
    "atari": ["ale-py>=0.12"],
    # Large for the sake of its MuJoCo environments, see docs/packaging.md. 1.0 has no wheel for Python 3.10.
    "envpool": ["envpool>=1.0; python_version >= '3.11'"],
    # NVIDIA's libraries, for GPUs.
    "cuda": ["tensorflow[and-cuda]"],
    # Gymnasium's extra knows which MuJoCo its environments fit.
    "mujoco": ["gymnasium[mujoco]"],
    # The suite with Gymnasium's interface. No dm_control fits MuJoCo 4 yet.
    "dm_control": ["shimmy>=2", "dm_control>=1.0.10", "mujoco<4"],
    # LunarLander and the walkers.
    "box2d": ["gymnasium[box2d]"],
    # Tasks. MinAtar brings Matplotlib and Seaborn, which draw its games.
    "minatar": ["MinAtar>=1.0.15"],
    "minigrid": ["minigrid>=3"],
    # pygame-ce draws classic control and the window of alf play; ffmpeg writes videos frame by frame.
    "video": ["gymnasium[classic-control]", "imageio-ffmpeg>=0.5"],
    # Collectors on other machines. Its actor API alone.
    "ray": ["ray>=2.40"],
    # alf sweep: Optuna keeps the trials, chooses settings and prunes.
    "sweep": ["matplotlib", "optuna>=4"],
    # alf plot, and the picture of alf pbt.
    "plot": ["matplotlib"],
    # From 1.26 on the particle environments are a package of their own, mpe2. It brings pygame-ce, which
    # PettingZoo's board games import.
    "pettingzoo": ["pettingzoo>=1.26", "mpe2"],
    # Summaries.track = "wandb". From 0.28 on its end has a time-out.
    "wandb": ["wandb>=0.28"],
    # Summaries.track = "mlflow". The part of MLflow that sends figures, which MLflow itself brings along, and
    # what it needs for a database in a file, its default.
    "mlflow": ["mlflow-skinny>=3", "alembic", "sqlalchemy"],
    # Experiment.offline_buffer = "minari:ID". 0.5.4 writes images without loss, and is not for Python 3.10.
    "minari": ["minari[hdf5]>=0.5.4; python_version >= '3.11'"],
    # alf export --onnx.
    "onnx": ["tf2onnx>=1.17", "onnx", "onnxruntime"],
    # make docs. It reads the sources: these alone, without ALF and TensorFlow, are enough for it.
    "docs": [
        "mkdocs>=1.6,<2",
        "mkdocs-material>=9.5,<10",
        "mkdocstrings[python]>=0.27",
        # The last mkdocstrings for Python 3.10 does not know newer ones.
        "pymdown-extensions<12; python_version < '3.11'",
    ],
}


def join_extras(*names):
    return [package for name in names for package in EXTRAS[name]]


# What the README's commands, `make test` and `make lint` need.
DEV_REQUIRES = [
    *join_extras("atari", "mujoco", "pettingzoo", "plot", "sweep", "video"),
    # 9 brings subtests; the next major version may end what this one deprecates.
    "pytest>=9,<10",
    # Ends a test that hangs.
    "pytest-timeout",
    # Several tests at a time: most of them leave a core idle.
    "pytest-xdist",
    "hypothesis",
    # One minor version: another one may format the same code differently.
    "ruff>=0.17,<0.18",
    # Checks the types; one major version, for the same reason.
    "mypy>=2,<3",
]

# What `make test-all` needs besides.
ALL_REQUIRES = [
    *join_extras(*(name for name in EXTRAS if name != "cuda")),
    # Speaks with the browser of the tests of pages.
    "websockets",
    # The kernel and the client of the test of a notebook.
    "ipykernel",
    "nbclient",
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
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    # So that an editable installation is a folder in `sys.path`. setuptools' other way, a finder of modules,
    # comes after `sys.path`: a folder named alf beside a script, such as a clone, would hide the package.
    package_dir={"": "."},
    packages=find_packages(include=["alf", "alf.*"]),
    # Agents are those that `make agents` has trained in this tree; one is in the repository.
    package_data={
        "alf": [
            "__init__.pyi",
            "py.typed",
            "tf_agents.txt",
            "config/translations.json",
            "examples/*.gin",
            "examples/cluster/*",
            "examples/tasks/*.gin",
            "presets/*.gin",
            "agents/*/*",
            "agents/*/checkpoints/*/*",
        ]
    },
    install_requires=INSTALL_REQUIRES,
    extras_require={**EXTRAS, "dev": DEV_REQUIRES, "all": ALL_REQUIRES},
    entry_points={"console_scripts": ["alf = alf.bin.main:console_main"]},
)
