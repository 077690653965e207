"""A real browser for the tests of pages: Debian's Chromium, started once per test process."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open a page as a file from disk; nothing may be said on the console, thrown or asked of a network."""
    opened, said = [], []

    def open_at(html: str, *, width: int = 1400, scheme: Literal["light", "dark"] = "light") -> Page:
        file = tmp_path / "night.html"
        file.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(8000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: said.append(request.url) if "://" in request.url[7:] else None)
        page.goto(file.as_uri())
        opened.append(page)
        return page

    yield open_at
    for page in opened:
        page.close()
    assert said == []


def violations(page: Page) -> list[str]:
    """Return what axe finds wrong for screen readers, contrast included: rule, element, reason."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:120]} ({node['failureSummary']})"
        for rule in found
        for node in rule["nodes"]
    ]
