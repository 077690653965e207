"""Build the package and try each extra in a fresh environment, with a command that needs it: `make packages`.

The wheel is installed without extras. Each extra is added by the command that the package's own hint names,
under constraints.txt, and what is run with it is run in a folder that all extras share.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
import zipfile
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
LARGEST_WHEEL = 1_500_000  # bytes
BIN = "Scripts" if sys.platform == "win32" else "bin"
DEVELOPMENT = {"bench", "docs", "fuzz", "test"}  # for benches, the site, fuzzing and tests

TRAINING = """data = "cohort"
dataset = "sleep-accel"
recipe = "actigraphy"
output = "model"
backbone = "accusleep"
profile = "human-actigraphy-2"
penalty_weight = 0.0
steps = 2
"""
STUDY = """name = "tiny"
title = "Four simulated mice"
backbones = ["accusleep"]
cohort = { source = "simulated", modality = "eeg-emg", subjects = 4, hours = 1.0 }
split = { kind = "k-fold", folds = 2 }
guard = { paper = "kdd2026-mouse-eeg-emg", base = "mouse-eeg-emg-3" }
training = { network = { small = true }, steps = 2, batch_size = 4, sequence_epochs = 32 }
"""
PLOTS = """
import stageguard as sg
sg.plot_hypnogram(sg.simulate_night("human-psg-5", seed=1).expert).figure.savefig("night.svg")
"""
REVIEW = """
import re, subprocess, sys, urllib.request
command = [sys.executable, "-u", "-c", "from stageguard.cli import main; main()"]
command += "review night.csv -p human-psg-5 --port 0 --no-open".split()
served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    said = ""
    while not (address := re.search(r"http://\\S+", said)):
        line = served.stdout.readline()
        assert line, said
        said += line
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    assert b"<html" in browser.open(address[0]).read()
finally:
    served.terminate()
"""
ONNX = """
import json, numpy as np, onnx
import stageguard as sg
from stageguard.datasets import recordings
names = list(sg.features(next(iter(recordings("sleep-accel", "cohort"))), "actigraphy").names)
shape = ["windows", "epochs", len(names)]
graph = onnx.helper.make_graph(
    [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
    "linear",
    [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
    [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    [onnx.numpy_helper.from_array(np.eye(len(names), 2, dtype=np.float32), "w")],
)
model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
facts = {"stages": ["W", "S"], "epoch_seconds": 30, "recipe": "actigraphy", "features": names}
facts |= {"profile": "human-actigraphy-2", "output": "logits", "layout": ["windows", "epochs", "features"]}
onnx.helper.set_model_props(model, {"stageguard": json.dumps(facts)})
onnx.save(model, "linear.onnx")
"""
REMOTE = """
import stageguard as sg, s3fs
density = sg.read_density('night.csv')
density.save('memory://nights/night.csv')
assert sg.read_density('memory://nights/night.csv') == density
"""
# By extra, in this order: what must work with it, commands and Python.
WORK = {
    "": [
        "from stageguard import *; simulate_night('human-psg-5', seed=1).density.save('night.csv')",
        "stageguard --version",
        "stageguard demo",
        "stageguard doctor",
        "stageguard decode night.csv -p human-psg-5",
        "stageguard convert night.hypnogram.tsv -o night.edf",
        "stageguard report night.csv -p human-psg-5 -o night.html",
    ],
    "recordings": [
        "stageguard simulate --modality actigraphy --subjects 3 --hours 1 --seed 1 -o cohort",
    ],
    "torch": ["stageguard train train.toml --small"],
    "onnx": [ONNX, "stageguard stage cohort --dataset sleep-accel --stager linear.onnx -o by-onnx"],
    "yasa": [
        "stageguard simulate --modality polysomnography --subjects 1 --hours 1 --seed 1 -o nights",
        "stageguard stage nights --dataset shhs --stager yasa -o by-yasa",
    ],
    "sleepecg": ["stageguard stage nights --dataset shhs --stager sleepecg --age 44 --sex M -o by-sleepecg"],
    "luna": ["import lunapi"],  # the models of POPS are the user's
    "formats": ["stageguard convert night.hypnogram.tsv -o night.parquet"],
    "study": ["stageguard study run study.toml --output study"],
    "plots": [PLOTS],
    "review": [REVIEW],
    "remote": [REMOTE],
    "gs": ["import gcsfs, upath; upath.UPath('gs://bucket/night.csv', token='anon')"],  # no store to ask
    "cluster": ["stageguard decode night.csv -p human-psg-5 -o clustered --scheduler local"],
}


def main() -> None:
    """Do what the command line asks for."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    if missing := extras.keys() - DEVELOPMENT - WORK.keys():
        sys.exit(
            f"packages: {', '.join(sorted(missing))}: expected a command for each extra. Add one to WORK."
        )
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("extras", nargs="*", help="only these, or 'none' for no extra")
    parser.add_argument("--wheel", type=Path, help="use this one and build none")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        place = Path(folder)
        wheel = asked.wheel or built(place)
        check_wheel(wheel)
        work = place / "work"
        work.mkdir()
        (work / "train.toml").write_text(TRAINING, "utf-8")
        (work / "study.toml").write_text(STUDY, "utf-8")
        for extra in asked.extras or WORK:
            try_extra("" if extra == "none" else extra, wheel, place / f"with-{extra}", work)


def built(place: Path) -> Path:
    """Build the source archive, and the wheel from it, into dist; return the wheel."""
    python = environment(place / "tools")
    call(python, "-m", "pip", "install", "-qq", "build", "twine")
    call(python, "-m", "build", "--outdir", str(ROOT / "dist"), str(ROOT))
    found = sorted((ROOT / "dist").glob("stageguard-*"), key=lambda path: path.stat().st_mtime)[-2:]
    call(python, "-m", "twine", "check", "--strict", *map(str, found))
    return next(path for path in found if path.suffix == ".whl")


def check_wheel(wheel: Path) -> None:
    """Refuse a wheel that is too large, untyped, or that holds what only a build needs."""
    size, names = wheel.stat().st_size, zipfile.ZipFile(wheel).namelist()
    print(f"{wheel.name}: {size / 1e6:.2f} MB, {len(names)} files", flush=True)
    sources = [name for name in names if name.endswith((".cpp", ".hpp", ".h"))]
    if size > LARGEST_WHEEL or "stageguard/py.typed" not in names or sources:
        sys.exit(
            f"packages: expected at most {LARGEST_WHEEL} bytes, py.typed and no C++, got {size}, {sources}."
        )


def try_extra(extra: str, wheel: Path, place: Path, work: Path) -> None:
    """Install the wheel, then the extra as its hint says, and do its work."""
    print(f"-- {extra or 'no extra'}", flush=True)
    python = environment(place)
    pip = [
        python,
        "-m",
        "pip",
        "install",
        "-qq",
        "--disable-pip-version-check",
        "--constraint",
        str(CONSTRAINTS),
    ]
    call(*pip, str(wheel))
    if extra:
        call(*pip, f"stageguard[{extra}]")
    for step in WORK[extra]:
        is_command = step.startswith("stageguard ")
        call(
            *([str(place / BIN / "stageguard"), *step.split()[1:]] if is_command else [python, "-c", step]),
            cwd=work,
        )


def environment(place: Path) -> str:
    """Make an empty environment and return its Python."""
    venv.create(place, with_pip=True)
    return str(place / BIN / "python")


def call(*words: str, cwd: Path | None = None) -> None:
    """Run a command; where it fails, show what it said and end."""
    run = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    if run.returncode:
        sys.exit(f"{run.stdout}\npackages: {' '.join(words)[-300:]} ended with {run.returncode}, expected 0.")


if __name__ == "__main__":
    main()
