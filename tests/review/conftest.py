"""What tests of reviews share: a scorer at a page of a window of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from reviewing import Scorer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
    context.set_default_timeout(60_000)  # milliseconds: for busy machines
    yield context.new_page()
    context.close()


@pytest.fixture
def scorer(page: Page) -> Iterator[Scorer]:
    """A scorer at that page; scripts that fail or are refused fail the test."""
    scorer = Scorer(page)
    yield scorer
    assert scorer.faults == []
