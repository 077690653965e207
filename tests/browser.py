"""A real browser for the tests of pages: Debian's Chromium, started once per test process."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


def why_not() -> str:
    """Return why pages cannot be tested here, or nothing."""
    if not CHROMIUM.exists():
        return f"needs a browser: there is no {CHROMIUM}"
    if importlib.util.find_spec("playwright") is None:
        return "needs playwright, of the extra test"
    return ""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of this test process; tests are skipped where there is none."""
    if reason := why_not():
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # its socket lies in the temporary folder, and the name of a socket has at most 107 bytes
        environment = os.environ | {"TMPDIR": "/tmp"}
        launched = driver.chromium.launch(executable_path=str(CHROMIUM), args=[*FLAGS], env=environment)
        yield launched
        launched.close()


def violations(page: Page) -> list[str]:
    """Return what axe finds wrong for screen readers, contrast included: rule, element, reason."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:120]} ({node['failureSummary']})"
        for rule in found
        for node in rule["nodes"]
    ]
