"""What needs torch or safetensors says how to get them, in one line; the rest does without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
