"""The notebooks run from top to bottom, in a kernel of their own and an empty folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="notebooks are run by the extra docs")
pytest.importorskip("torch", reason="a notebook trains a network")
NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
SLOW = {"wrap-a-network", "tune-and-fit"}  # one trains a network, one fits
RUN = """
import sys
import nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
print(sum(cell.cell_type == "code" for cell in notebook.cells))
"""


def test_there_are_four():
    assert len(NOTEBOOKS) == 4


@pytest.mark.parametrize(
    "notebook",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in SLOW else []) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_a_notebook_runs(notebook, tmp_path):
    command = [sys.executable, "-c", RUN, str(notebook)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert int(ran.stdout) >= 4
