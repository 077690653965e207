"""Nothing runs what it reads: no pickle, no eval, no shell; and names of files cannot steer a terminal."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import stageguard as sg

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "docs", "examples", "studies", "bench", "robustness", ".ci")

# Modules whose reading may run code, or that start a shell.
MODULES = {
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "shelve",
    "marshal",
    "joblib",
    "pty",
    "commands",
}
# Functions that do, by the name they are called by.
CALLS = {
    *("eval", "exec", "compile", "__import__", "execfile", "input"),
    *("os.system", "os.popen", "os.execv", "os.execl", "os.spawnl", "subprocess.getoutput"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "tempfile.mktemp", "tarfile.open"),
    *("pandas.read_pickle", "pd.read_pickle", "pd.eval", "runpy.run_path"),
}
UNSAFE_METHODS = {"extractall", "read_pickle", "to_pickle", "load_module"}

# Where one of them stands, and why it may.
ALLOWED = {}


def complaints(tree: ast.AST) -> Iterator[str]:
    """What in a module could run what it reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            names = [module] if module else [alias.name for alias in node.names]
            yield from (name for name in names if name.partition(".")[0] in MODULES)
        if isinstance(node, ast.Call):
            yield from called(node)


def called(call: ast.Call) -> Iterator[str]:
    name = ast.unparse(call.func)
    options = {option.arg: ast.unparse(option.value) for option in call.keywords}
    if name in CALLS:
        yield name
    if name.rpartition(".")[2] in UNSAFE_METHODS:
        yield name
    if options.get("shell", "False") != "False":
        yield f"{name}(shell=...)"
    if options.get("allow_pickle", "False") != "False":
        yield f"{name}(allow_pickle=...)"
    if name == "torch.load" and options.get("weights_only") != "True":
        yield "torch.load without weights_only=True"


def test_nothing_runs_what_it_reads():
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 250
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in files
        for name in complaints(ast.parse(path.read_text("utf-8")))
    }
    assert found == set(ALLOWED)


# ---- names of files

NASTY = "a\x1b[31m\x07\u202e.csv"


@pytest.fixture
def folder(tmp_path):
    """A night that can be read, and one that cannot, by names that would steer a terminal."""
    try:
        sg.simulate_night("human-psg-5", seed=1).density.save(tmp_path / NASTY)
    except OSError:
        pytest.skip("this system has no such names")
    (tmp_path / f"bad{NASTY}").write_text("W,N1\nx,y\n")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "decode {good} -p human-psg-5 --explain",
        "decode {folder} -p human-psg-5 -o {folder}/out",
        "decode {bad} -p human-psg-5",
        "stats {folder} -p human-psg-5",
        "convert {bad} --to bids-events -o {folder}/converted",
        "report {good} -p human-psg-5 -o {folder}/{name}.html",
        "decode {good} -p human-psg-5 --posterior -o {folder}/posterior",
        "verify {bad}",
        "decode {folder}/no{name} -p human-psg-5",
    ],
)
def test_names_of_files_do_not_steer_the_terminal(run, folder, words):
    given = {"folder": folder, "good": folder / NASTY, "bad": folder / f"bad{NASTY}", "name": NASTY}
    ran = run(*(word.format(**given) for word in words.split()))
    printed = ran.out + ran.err
    assert "[31m" in printed  # the name is there, and harmless
    assert [sign for sign in ("\x1b", "\x07", "\u202e") if sign in printed] == []
