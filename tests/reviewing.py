"""Serve nights for review in this process, and a scorer at the page: what tests of the page share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from review_nights import running
from stageguard.profile.profile import Profile
from stageguard.review.opening import ReviewRequest
from stageguard.review.review import ReviewSession
from stageguard.review.server import ReviewServer

if TYPE_CHECKING:
    from playwright.sync_api import Page


@contextmanager
def served(
    path: Path,
    profile: str | Profile = "human-psg-5",
    *,
    scorer: str = "ada",
    blind: bool = False,
    **asked: Any,
) -> Iterator[ReviewServer]:
    """Serve one night until the block ends."""
    loaded = Profile.load(profile) if isinstance(profile, str) else profile
    night = ReviewRequest(path, loaded, **asked)
    with running(ReviewSession([night], scorer, is_blind=blind)) as server:
        yield server


def write_probabilities(path: Path, names: list[str], rows: Any) -> Path:
    """Write a table of probabilities; rows of None are epochs without evidence."""
    lines = [",".join("" if value is None else repr(float(value)) for value in row) for row in rows]
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    path.write_text("\n".join([quoted, *lines]) + "\n")
    return path


class Scorer:
    """A scorer at the page: keys go in, what the page says comes out."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda message: self._heard(message.text))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog {dialog.message}"))

    def _heard(self, text: str) -> None:
        if "Content Security Policy" in text or "Refused" in text:
            self.faults.append(text)

    def open(self, url: str) -> Scorer:
        """Open the page, and wait until the first night is drawn."""
        self.page.goto(url)
        self.page.wait_for_selector("body[data-ready][data-revision]")
        return self

    def press(self, *keys: str) -> Scorer:
        """Press keys, each drawn before the next."""
        for key in keys:
            drawn = self.page.evaluate("window.stageguard.redraws")
            self.page.keyboard.press(key)
            self.page.wait_for_function("n => window.stageguard.redraws > n", arg=drawn)
        return self

    def at_revision(self, number: int) -> Scorer:
        """Wait until the page shows a revision of the night."""
        self.page.wait_for_selector(f'body[data-revision="{number}"]')
        return self

    def text(self, selector: str) -> str:
        """Return what an element says."""
        return self.page.locator(selector).inner_text()

    @property
    def line(self) -> str:
        """Where the scorer is: "Epoch 412 of 960, 03:26:00, guard N2, ..."."""
        return self.text("#line")

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 1."""
        found = re.search(r"Epoch (\d+) of", self.line)
        assert found is not None, self.line
        return int(found[1])

    def stage(self, who: str) -> str:
        """Return the stage that the line says somebody gave the epoch."""
        found = re.search(rf"{who} ([^,]+)", self.line)
        assert found is not None, self.line
        return found[1]
