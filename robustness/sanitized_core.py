"""A pytest plugin: the tests run on a compiled core that watches its own memory and arithmetic.

`make fuzz` builds that core with AddressSanitizer and UBSan and names it in STAGEGUARD_SANITIZED.
"""

from __future__ import annotations

import importlib.util
import os
import sys

NAME = "stageguard.guard.kernels._core._native"


def pytest_configure() -> None:
    path = os.environ["STAGEGUARD_SANITIZED"]
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None and spec.loader is not None, path
    sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[NAME])


def pytest_report_header() -> str:
    return f"stageguard core: {os.environ['STAGEGUARD_SANITIZED']}, sanitized"
