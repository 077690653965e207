"""A pytest plugin: the tests run on a compiled core that watches its own memory and arithmetic.

`.ci/sanitize` builds that core with AddressSanitizer and UBSan and names it in STAGEGUARD_SANITIZED.
"""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

NAME = "stageguard.guard.kernels._core._native"


# When pytest loads the plugin, before any conftest.py imports the package.
path = os.environ["STAGEGUARD_SANITIZED"]
spec = importlib.util.spec_from_file_location(NAME, path)
assert spec is not None and spec.loader is not None, path
assert "stageguard" not in sys.modules, "the package has its core already"
sys.modules[NAME] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[NAME])


def pytest_report_header() -> str:
    return f"stageguard core: {path}, sanitized"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests of the NumPy reference, which never reach the core."""
    parameters = {item: getattr(item, "callspec", None) for item in items}
    items[:] = [
        item for item, spec in parameters.items() if not spec or spec.params.get("backend") != "reference"
    ]
