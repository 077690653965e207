"""What needs torch or safetensors says how to get them, in one line; the rest does without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOW = 'Install with: pip install "stageguard[torch]"'


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter on this source tree."""
    place = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments], capture_output=True, text=True, env=os.environ | place
    )


def test_importing_the_package_does_not_import_torch():
    run = python("-c", "import sys, stageguard.nn; dir(stageguard.nn); print('torch' in sys.modules)")
    assert run.stdout.strip() == "False", run.stderr


def test_without_torch_one_line_says_how_to_get_it():
    code = """
import sys
sys.modules["torch"] = None
import stageguard.nn
for name in ("StageGuardLoss", "TransitionPenalty", "Guarded"):
    try:
        getattr(stageguard.nn, name)
    except ImportError as error:
        print(type(error).__name__, error)
"""
    run = python("-c", code)
    assert run.stdout.splitlines() == [f"MissingExtraError stageguard.nn needs 'torch'. {HOW}"] * 3, (
        run.stderr
    )


WITHOUT = """
import sys
sys.modules[{library!r}] = None
for module in {modules!r}:
    try:
        __import__(module)
    except ImportError as error:
        print(type(error).__name__, error)
from stageguard.nn import load_onnx
from stageguard.nn.backbones import backbones
from stageguard.nn.data import read_features
from stageguard.nn.options import TrainingOptions
print(len(backbones()), TrainingOptions("usleep", "human-psg-3").steps)
try:
    from stageguard.nn import load_model
    load_model(".")
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "modules"),
    [
        ("torch", ["training", "wrapper", "losses", "backbones.usleep"]),
        ("safetensors", []),
    ],
)
def test_every_module_says_how_to_get_what_it_needs(library, modules):
    names = [f"stageguard.nn.{name}" for name in modules]
    run = python("-c", WITHOUT.format(library=library, modules=names))
    expected = f"MissingExtraError stageguard.nn needs '{library}'. {HOW}"
    # tables and options need neither
    assert run.stdout.splitlines() == [*[expected] * len(modules), "6 300", expected], run.stderr


@pytest.mark.parametrize(
    "command", [["train", "c.toml"], ["stage", "--stager", "./model", "night.csv", "-o", "out"]]
)
def test_the_commands_say_it_in_one_line(tmp_path, command):
    (tmp_path / "c.toml").write_text(
        'data = "."\noutput = "m"\nbackbone = "usleep"\nprofile = "human-psg-3"\n'
    )
    code = f"import os, sys; os.chdir({str(tmp_path)!r}); sys.modules['torch'] = None\n"
    run = python("-c", f"{code}from stageguard.cli import main; main({command!r})")
    assert run.returncode == 1
    assert run.stderr.splitlines() == [f"stageguard: stageguard.nn needs 'torch'. {HOW}"]
