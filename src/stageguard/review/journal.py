"""The journal of a review: every action is a line of JSON, on disk before it counts.

The first line has what the review was begun with. Every other line has an action, who did it and when, and
the stages before and after. A journal opens up to its last good line: a line that a crash cut off was never
acknowledged, and goes when the next line is written.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any

from stageguard.errors import OutputError
from stageguard.files import check_places, file_error, is_same_file, locked, read_file
from stageguard.version import __version__

WHAT_TO_DO = "Start it as it was begun, or name another file (-o)."
JOURNAL_LAYOUT = 3
REVIEW_SUFFIX = ".review.jsonl"
FIRST_BYTES, RECORD_FIRST_BYTES = b'{"layout": ', b'{"when": "'
ADJUDICATES = "adjudicates"  # a key of the first line of adjudications alone: the places of two journals
HEAD = {
    **{"scorer": str, "blind": bool, "night": dict, "probabilities": str, "source": dict},
    **{"options": dict, "pins": dict, "profile": dict, "begun": str},
}
RECORD = {"when": str, "who": str}  # of every other line, besides the action
MALFORMED = (KeyError, TypeError, AttributeError, ValueError)


def now() -> str:
    """Return the time for a journal: local time in milliseconds, with its zone."""
    return datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class JournalFile:
    """The content of a journal; without a first line, `head` is empty."""

    path: Path
    head: Mapping[str, Any]
    actions: tuple[Mapping[str, Any], ...]
    data: bytes  # of the good lines
    n_bytes: int  # of the file
    remarks: tuple[str, ...] = ()

    @property
    def scorer(self) -> str:
        """The scorer's name."""
        return str(self.head["scorer"])

    @property
    def is_adjudication(self) -> bool:
        """Whether it decides between two other journals."""
        return ADJUDICATES in self.head

    @property
    def adjudicated(self) -> list[dict[str, Any]]:
        """The places of the journals that it decides between; empty for a scorer's journal."""
        places = self.head.get(ADJUDICATES, [])
        if not isinstance(places, list) or not all(
            isinstance(one, dict) and "begun" in one for one in places
        ):
            raise file_error(self.path, "its first line is incomplete or was edited.")
        return places

    @property
    def place(self) -> dict[str, Any]:
        """How far the journal has come, and whose it is."""
        return {"scorer": self.scorer} | _place(self.path, self.head, self.data)

    @property
    def last_when(self) -> str | None:
        """Time of the last action, if there is one."""
        return str(self.actions[-1]["when"]) if self.actions else None


def read_journal(path: Path) -> JournalFile:
    """Read a journal up to its last good line; a damaged line before others is an error."""
    whole = read_file(path)
    if whole and not whole.startswith(FIRST_BYTES):
        raise file_error(path, "is no review. Choose another file.")
    lines: list[dict[str, Any]] = []
    n_good = 0
    for row in whole.splitlines(keepends=True):
        content = _record(row, RECORD if lines else {"layout": int})
        if content is None:
            break
        lines.append(content)
        n_good += len(row)
    if lines and lines[0]["layout"] != JOURNAL_LAYOUT:
        raise file_error(
            path, "is no review that this version of stageguard can read. Name another file (-o)."
        )
    rest = whole[n_good:]
    cut_line = rest.rstrip(b"\0")
    is_cut = cut_line.startswith(RECORD_FIRST_BYTES[: len(cut_line)]) and b"\n" not in cut_line
    if (whole and not lines) or not is_cut:
        raise file_error(
            path, f"line {len(lines) + 1} is no record of a review: the file was edited or damaged."
        )
    if lines and _record(whole, HEAD, lines[0]) is None:
        raise file_error(path, "its first line is incomplete or was edited.")
    remarks = [f"a last line of {len(rest)} bytes that was never completed is left out"] if rest else []
    if b"\r\n" in whole:
        remarks.append("it has the line ends of Windows")
    head = lines[0] if lines else {}
    return JournalFile(path, head, tuple(lines[1:]), whole[:n_good], len(whole), tuple(remarks))


def _record(row: bytes, kinds: Mapping[str, type], content: Any = None) -> dict[str, Any] | None:
    """Return the object of a line if it has keys of these types, else None."""
    try:
        content = json.loads(row) if content is None else content
    except (ValueError, RecursionError):
        return None
    is_good = isinstance(content, dict) and all(isinstance(content.get(key), kinds[key]) for key in kinds)
    return content if is_good else None


class Journal:
    """A journal that is open for appending and locked against a second server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stack = contextlib.ExitStack()
        check_places([path], overwrite=True)
        self._is_new = not path.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(locked(path))
            self._stream: FileIO = self._stack.enter_context(path.open("ab", buffering=0))
        except BlockingIOError:
            raise OutputError(
                f"{path}: another server has this review open. Use its page, or end it first."
            ) from None
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}.") from None
        try:
            self.found = read_journal(path)
        except BaseException:
            self.close(remove=True)
            raise
        self.head, self._data, self._size = self.found.head, self.found.data, self.found.n_bytes
        self.when: str | None = self.found.last_when
        self.n_actions = len(self.found.actions)

    def begin(self, head: Mapping[str, Any]) -> None:
        """Write the first line."""
        self.head = {"layout": JOURNAL_LAYOUT, "stageguard": __version__} | dict(head) | {"begun": now()}
        self._append(self.head)

    def place(self) -> dict[str, Any]:
        """Return how far the journal has come, for an export to record."""
        return _place(self.path, self.head, self._data)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write an action; when this returns, it is on the disk."""
        self._append(record)
        self.when = record["when"]
        self.n_actions += 1

    def close(self, *, remove: bool = False) -> None:
        """Release the lock; with `remove`, delete the journal unless the file was there before."""
        with self._stack:
            if remove and self._is_new and is_same_file(self._stream, self.path):
                if os.name == "nt":  # where an open file cannot be removed
                    self._stack.close()
                self.path.unlink()

    def _append(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        if self._data and not self._data.endswith(b"\n"):
            line = b"\n" + line
        if not is_same_file(self._stream, self.path) or self.path.stat().st_size != self._size:
            raise OutputError(
                f"{self.path} was removed or changed by another program: nothing more is saved in it. "
                "Export the night, then start the review again."
            )
        try:
            self._stream.truncate(len(self._data))  # what was never acknowledged
            if self._stream.write(line) < len(line):
                raise OSError("No space left on device")
            os.fsync(self._stream.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):  # if this fails, the incomplete line is cut off later
                self._stream.truncate(len(self._data))
            self._size = os.fstat(self._stream.fileno()).st_size
            reason = error.strerror or str(error)
            raise OutputError(f"cannot write {self.path}: {reason}. Nothing was changed.") from None
        self._data += line
        self._size = len(self._data)


def _place(path: Path, head: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    n_lines, digest = len(data.splitlines()), sha256(data).hexdigest()
    return {"file": path.name, "begun": head["begun"], "lines": n_lines, "sha256": digest}


def check_head(journal: JournalFile, expected: Mapping[str, Any]) -> None:
    """Refuse to go on with a review that was begun with anything else."""
    differing = next(_differences(journal.head, expected), None)
    if differing is not None:
        raise file_error(journal.path, f"is a review {differing}. {WHAT_TO_DO}")


def _differences(head: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a review was begun with, where that differs from what is expected."""
    had, has = head["options"], expected["options"]
    logs = "of other logs, or of logs that were changed since" if ADJUDICATES in head else "by one scorer"
    facts = (
        ("of a night of other epochs or stages", head["night"], expected["night"]),
        ("of another file of probabilities", *(one["source"].get("sha256") for one in (head, expected))),
        (f"by the scorer {head['scorer']!r:.60}", head["scorer"], expected["scorer"]),
        (
            f"under another profile, {head['profile'].get('name')!r:.60}",
            *(one["profile"].get("sha256") for one in (head, expected)),
        ),
        (logs, head.get(ADJUDICATES), expected.get(ADJUDICATES)),
        ("that is blind" if head["blind"] else "that is not blind", head["blind"], expected["blind"]),
        ("with another quality (--quality)", head.get("quality"), expected["quality"]),
        ("with other pins (--pins)", head["pins"], expected["pins"]),
        *(
            (f"with {key} {had.get(key)!r:.60}, not {has.get(key)!r:.60}", had.get(key), has.get(key))
            for key in sorted(had.keys() | has.keys())
        ),
        ("of other probabilities", head["probabilities"], expected["probabilities"]),
    )
    for words, was, now_is in facts:
        if was != now_is:
            yield words
