"""Small nights to review, and a review server that runs while a test does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

import stageguard as sg
from stageguard.review.opening import ReviewRequest
from stageguard.review.review import Review, ReviewSession
from stageguard.review.server import ReviewServer

STRICT = "kdd2026-bioradar"  # W, N, R with minimum bouts, so that pins can contradict one another
TOKEN = "X-StageGuard-Token"  # the header that the page sends
FREE = "human-psg-5"  # no minimum bouts


def write_probabilities(path: Path, profile: str = STRICT, n_epochs: int = 80, seed: int = 0) -> Path:
    names = sg.Profile.load(profile).scheme.names
    rng = np.random.default_rng(seed)
    labels = np.repeat(rng.integers(0, len(names), n_epochs // 8 + 1), 8)[:n_epochs]
    logits = rng.normal(size=(n_epochs, len(names)))
    logits[np.arange(n_epochs), labels] += 1.5
    rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    text = [",".join(names), *(",".join(map(repr, row)) for row in rows.tolist())]
    path.write_text("\n".join(text) + "\n")
    return path


def asked(path: Path, profile: str = STRICT, **more: object) -> ReviewRequest:
    return ReviewRequest(path, sg.Profile.load(profile), **more)  # type: ignore[arg-type]


def open_review(folder: Path, profile: str = STRICT, *, scorer: str = "anna", blind: bool = False, **night):
    """A session with one night and its review."""
    path = folder / "night.csv"
    if not path.exists():
        write_probabilities(path, profile, **night)
    session = ReviewSession([asked(path, profile)], scorer, is_blind=blind)
    assert session.errors == [None]
    return session, session.review(0)


def do(review: Review, **action: object):
    """Perform an action; an agreement is with the stages that the night has."""
    if action["do"] == "agree" and "stages" not in action:
        labels = review.now.result.labels
        action["stages"] = labels[int(str(action["first"])) : int(str(action["last"])) + 1].tolist()
    return review.act(action, review.now.state.revision)


@contextmanager
def running(session: ReviewSession) -> Iterator[ReviewServer]:
    """A server on a free port, until the block ends."""
    server = ReviewServer(session)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        for _ in range(500):
            if server.is_running:
                break
            time.sleep(0.02)
        yield server
    finally:
        server.end()
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def served(session: ReviewSession) -> Iterator[tuple[ReviewServer, httpx.Client]]:
    """A server, and a client that has its token."""
    with (
        running(session) as server,
        httpx.Client(
            base_url=f"http://127.0.0.1:{server.port}", timeout=30, headers={TOKEN: server.token}
        ) as client,
    ):
        yield server, client
