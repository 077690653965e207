"""Fixtures for every test: real data where there is any, and both kernels."""

from __future__ import annotations

import importlib
import os
import signal
import warnings
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

from browser import browser as browser
from browser import open_page as open_page
from browser import why_not
from cli_runner import Runner
from stageguard.errors import StageGuardWarning
from stageguard.runner.stopping import STOPS

with warnings.catch_warnings():
    warnings.simplefilter("ignore", StageGuardWarning)  # a missing core is said once, in the header below
    kernels = importlib.import_module("stageguard.guard.kernels")

# A slow or busy machine is no reason to fail, and in CI a failure must be there again at the next run.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=2000)  # `.ci/sanitize`
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

# `nohup make test` and `make test &` ignore signals, and so would every process that a test starts and stops.
# A handler that does nothing protects the run as well, and is not inherited.
for _kind in STOPS:
    if signal.getsignal(_kind) is signal.SIG_IGN:
        signal.signal(_kind, lambda *_: None)


def _compiled() -> ModuleType | None:
    try:
        return importlib.import_module("stageguard.guard.kernels._core._native")
    except ImportError:
        return None


def pytest_report_header() -> list[str]:
    return [
        f"stageguard core: {'compiled' if _compiled() else 'missing, only the NumPy reference is tested'}",
        f"stageguard pages: {why_not() or 'tested in Chromium'}",
        f"stageguard data: {os.environ.get('STAGEGUARD_DATA', 'none, tests on real recordings are skipped')}",
    ]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder with real recordings, named by STAGEGUARD_DATA; the test is skipped without it."""
    named = os.environ.get("STAGEGUARD_DATA")
    if not named:
        pytest.skip("needs real recordings: set STAGEGUARD_DATA to the folder that holds them")
    if not Path(named).is_dir():
        pytest.fail(f"STAGEGUARD_DATA is {named!r}, which is not a folder")
    return Path(named)


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print tables as wide as they need, so that no test depends on the length of a temporary path."""
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runner:
    """Run commands as they are typed."""
    return Runner(capsys)


@pytest.fixture(params=["compiled", "reference"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once with the compiled kernels and once with the NumPy reference."""
    module = (
        importlib.import_module("stageguard.guard.kernels.reference")
        if request.param == "reference"
        else _compiled()
    )
    if module is None:
        absent = "the compiled core is not installed: a C++17 compiler and `make test` build it"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    monkeypatch.setattr(kernels, "active", module)
    return str(request.param)
