"""The suite itself: it is green where signals are ignored, and every test can fail."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CHECKS = {"raises", "warns", "fail"}  # what can fail besides `assert` and `assert_...`


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("kind", ["SIGINT", "SIGHUP"])
def test_a_run_that_ignores_a_signal_as_under_nohup_is_green(kind):
    ignored = signal.Signals[kind]
    stopped = "cli/test_decode.py::test_a_stopped_run_says_what_it_wrote_and_leaves_no_process"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--override-ini", "addopts=",
         "runner/test_stopping.py", f"{stopped}[1-{kind}-{128 + ignored}]"],
        cwd=TESTS,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=lambda: signal.signal(ignored, signal.SIG_IGN),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout


def asserts(function: ast.FunctionDef, helpers: set[str]) -> bool:
    """Whether a function can fail by itself, or calls one of the helpers, which can."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if (
                name in CHECKS
                or name.startswith("assert_")
                or (isinstance(node.func, ast.Name) and name in helpers)
            ):
                return True
    return False


def able_to_fail(path: Path) -> tuple[list[ast.FunctionDef], set[str]]:
    """The functions of a file, and the names of those, and of imported helpers, that can fail."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (source := TESTS / f"{node.module}.py").exists():
            names |= able_to_fail(source)[1] & {alias.name for alias in node.names}
    n_before = -1
    while n_before < len(names):  # a helper that calls one that can fail can fail too
        n_before = len(names)
        names |= {function.name for function in functions if asserts(function, names)}
    return functions, names


def test_every_test_asserts_something():
    hollow = []
    for path in sorted(TESTS.rglob("test_*.py")):
        functions, names = able_to_fail(path)
        hollow += [
            f"{path.relative_to(TESTS)}:{function.lineno} {function.name}"
            for function in functions
            if function.name.startswith("test_") and function.name not in names
        ]
    assert hollow == []


def is_slow(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(mark) == "pytest.mark.slow" for mark in function.decorator_list)


def test_slow_tests_have_quick_ones_of_their_kind_beside_them():
    """So that `make test` runs something of every file."""
    all_slow = []
    for path in sorted(TESTS.rglob("test_*.py")):
        functions = [f for f in able_to_fail(path)[0] if f.name.startswith("test_")]
        if functions and all(map(is_slow, functions)):
            all_slow.append(str(path.relative_to(TESTS)))
    assert all_slow == []
