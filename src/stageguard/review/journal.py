"""The journal of a review: autosave and audit log. Every action is a JSON line, on disk before it counts.

The first line has what the review was begun with. Every other line has an action, who did it and when, and
the stages before and after. A last line that was cut off was never acknowledged and is dropped.

Every line ends with its own hash and holds that of the line before, so that a line that was edited, removed
or moved is found. Two things cannot be found in the file itself: that its last lines were removed, and that
somebody computed all hashes anew. An export records the last line at its time; see `check_exports`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any

from stageguard import checks
from stageguard.errors import FileFormatError, OutputError
from stageguard.files import check_places, file_error, is_same_file, locked, read_file
from stageguard.formats.outputs import (
    JSON_SUFFIX,
    read_sidecar,
)
from stageguard.version import __version__

WHAT_TO_DO = "Start it as it was begun, or name another file (-o)."
PUT_BACK = "Put the whole log back, or name another file (-o)."
JOURNAL_LAYOUT = 2
REVIEW_SUFFIX = ".review.jsonl"
FIRST_BYTES = b'{"layout": '
HEAD = {  # all keys of the first line
    "layout": int,
    "stageguard": str,
    "scorer": str,
    "blind": bool,
    "night": dict,
    "probabilities": str,
    "source": dict,
    "options": dict,
    "quality_sha256": str | None,
    "quality": list | None,
    "pins": dict,
    "profile": dict,
    "begun": str,
    "sha256": str,
}
ADJUDICATES = "adjudicates"  # a key of the first line of adjudications alone: the places of two journals
RECORD = {"when": str, "who": str, "previous": str}  # keys of every other line; `replay` checks the others
TIMES, NAMES = ("begun", "when"), ("stageguard", "scorer", "who")
SEAL = re.compile(rb', "sha256": "([0-9a-f]{64})"\}$')  # the end of every line
RECORD_FIRST_BYTES = b'{"when": "'
NOT_IN_CUT_LINE = re.compile(rb'[\x00-\x1f]|, "sha256": "[0-9a-f]{64}"')  # a cut line has lost its hash
MALFORMED = (KeyError, TypeError, AttributeError, ValueError)


def now() -> str:
    """Return the time for a journal: local time in milliseconds, with its zone."""
    return datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class JournalFile:
    """The content of a journal."""

    path: Path
    head: Mapping[str, Any]
    actions: tuple[Mapping[str, Any], ...]
    n_bytes: int  # of complete lines
    n_dropped: int  # bytes of an incomplete last line
    lacks_end: bool  # whether the last complete line lacks its newline
    hashes: tuple[str, ...]  # of the lines

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
        return {"scorer": self.scorer} | _place(self.path, self.head, self.hashes)

    @property
    def last_when(self) -> str:
        """Time of the last action, or of the start of the review."""
        return str(self.actions[-1]["when"] if self.actions else self.head["begun"])


def read_journal(path: Path) -> JournalFile:
    """Read a journal; a last line that was cut off is left out, any other damage is an error."""
    data = read_file(path)
    if not data.startswith(FIRST_BYTES[: len(data)]):
        raise file_error(path, "is no review. Choose another file.")
    *rows, rest = data.split(b"\n")
    n_dropped = 0
    if rows and _is_cut_record(rest):
        n_dropped = len(rest)
    elif rest:  # whole apart from its newline, or damaged
        rows.append(rest)
    lines: list[dict[str, Any]] = []
    hashes: list[str] = []
    for number, line in enumerate(rows, start=1):
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            content = None
        if number == 1 and isinstance(content, dict) and content.get("layout") != JOURNAL_LAYOUT:
            raise file_error(
                path, "is no review that this version of stageguard can read. Name another file (-o)."
            )
        if not isinstance(content, dict) or not _has_keys(content, HEAD if number == 1 else RECORD):
            raise file_error(path, f"line {number} is no record of a review: the file was edited or damaged.")
        _check_values(path, number, content)
        sealed = SEAL.search(line)
        if sealed is None or sealed[1].decode() != _hash_of(line[: sealed.start()] + b"}"):
            raise file_error(path, f"line {number} was edited: its hash is not that of its content.")
        if hashes and content["previous"] != hashes[-1]:
            raise file_error(path, f"before line {number}, a line was removed, added or moved.")
        lines.append(content)
        hashes.append(sealed[1].decode())
    head: Mapping[str, Any] = lines[0] if lines else {}
    lacks_end = bool(rest) and n_dropped == 0
    return JournalFile(
        path, head, tuple(lines[1:]), len(data) - n_dropped, n_dropped, lacks_end, tuple(hashes)
    )


def _is_cut_record(rest: bytes) -> bool:
    """Whether the bytes after the last newline are the beginning of a line, as a crash leaves it."""
    begins = rest.startswith(RECORD_FIRST_BYTES[: len(rest)])
    return bool(rest) and begins and NOT_IN_CUT_LINE.search(rest) is None


def _check_values(path: Path, number: int, content: Mapping[str, Any]) -> None:
    """Refuse keys that the first line does not have, and times and names that this program never wrote."""
    unknown = sorted(content.keys() - HEAD.keys() - {ADJUDICATES}) if number == 1 else []
    if unknown:
        raise file_error(path, f"line 1 has the unknown key {checks.shown(unknown[0])}: it was edited.")
    for key in content.keys() & TIMES:
        if not _is_time(content[key]):
            raise file_error(path, f"line {number}: {key} is {checks.shown(content[key])}, expected a time.")
    for key in content.keys() & NAMES:
        if not content[key].isprintable():
            raise file_error(path, f"line {number}: {key} is {checks.shown(content[key])}, expected a name.")


def _is_time(text: str) -> bool:
    """Whether a text is a time as `now` writes it; `fromisoformat` alone accepts any separator."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return False
    return time.tzinfo is not None and time.isoformat(timespec="milliseconds") == text


def _hash_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def sealed_line(record: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the line of a record with its hash at the end, and the hash."""
    content = json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
    line_hash = _hash_of(content)
    return content[:-1] + f', "sha256": "{line_hash}"}}\n'.encode(), line_hash


def _has_keys(content: Mapping[str, Any], kinds: Mapping[str, Any]) -> bool:
    """Whether an object has keys of these types."""
    return all(key in content and isinstance(content[key], kinds[key]) for key in kinds)


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
        self.head: Mapping[str, Any] = self.found.head
        self.when: str | None = self.found.last_when if self.found.actions else None
        self.n_actions = len(self.found.actions)
        self._hashes = list(self.found.hashes)
        self._n_bytes = self.found.n_bytes  # of complete lines
        self._size = self.found.n_bytes + self.found.n_dropped
        self._owed = b"\n" if self.found.lacks_end else b""  # to write before the next line

    def begin(self, head: Mapping[str, Any]) -> None:
        """Write the first line."""
        self.head = {"layout": JOURNAL_LAYOUT, "stageguard": __version__} | dict(head) | {"begun": now()}
        self._append(self.head)

    def place(self) -> dict[str, Any]:
        """Return how far the journal has come, for an export to record."""
        return _place(self.path, self.head, self._hashes)

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
        chained = {"previous": self._hashes[-1]} if self._hashes else {}
        line, line_hash = sealed_line(dict(record) | chained)
        line = self._owed + line
        if not is_same_file(self._stream, self.path) or self.path.stat().st_size != self._size:
            raise OutputError(
                f"{self.path} was removed or changed by another program: nothing more is saved in it. "
                "Export the night, then start the review again."
            )
        try:
            self._stream.truncate(self._n_bytes)  # drop an incomplete line, which was never acknowledged
            if self._stream.write(line) < len(line):
                raise OSError(errno.ENOSPC, "No space left on device")
            os.fsync(self._stream.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):  # if this fails, the incomplete line is dropped later
                self._stream.truncate(self._n_bytes)
            reason = error.strerror or str(error)
            raise OutputError(f"cannot write {self.path}: {reason}. Nothing was changed.") from None
        self._n_bytes = self._size = self._n_bytes + len(line)
        self._owed = b""
        self._hashes.append(line_hash)


def _place(path: Path, head: Mapping[str, Any], hashes: Sequence[str]) -> dict[str, Any]:
    return {"file": path.name, "begun": head["begun"], "lines": len(hashes), "sha256": hashes[-1]}


def check_head(journal: JournalFile, expected: Mapping[str, Any]) -> None:
    """Refuse to go on with a review that was begun with anything else."""
    differing = next(_differences(journal.head, expected), None)
    if differing is not None:
        raise file_error(journal.path, f"is a review {differing}. {WHAT_TO_DO}")


def _differences(head: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a review was begun with, where that differs from what is expected."""
    profiles = [one["profile"].get("sha256") for one in (head, expected)]
    files = [one["source"].get("sha256") for one in (head, expected)]
    facts = (
        ("of a night of other epochs or stages", head["night"], expected["night"]),
        ("of another file of probabilities", *files),
        (f"by the scorer {head['scorer']!r:.60}", head["scorer"], expected["scorer"]),
        (f"under another profile, {head['profile'].get('name')!r:.60}", *profiles),
        (_adjudicated(head), head.get(ADJUDICATES), expected.get(ADJUDICATES)),
        ("that is blind" if head["blind"] else "that is not blind", head["blind"], expected["blind"]),
        ("with another quality (--quality)", head.get("quality"), expected["quality"]),
        ("with other pins (--pins)", head.get("pins"), expected["pins"]),
    )
    for words, was, now_is in facts:
        if was != now_is:
            yield words
    options = head.get("options")
    was_options = options if isinstance(options, dict) else {}
    for key in sorted(was_options.keys() | expected["options"].keys()):
        was, now_is = was_options.get(key), expected["options"].get(key)
        if was != now_is:
            yield f"with {key} {_option_text(was)}, not {_option_text(now_is)}"
    for key in ("probabilities", "quality_sha256"):  # read from the same file in another way
        if head.get(key) != expected[key]:
            yield f"of other {key.removesuffix('_sha256')} values"


def _adjudicated(head: Mapping[str, Any]) -> str:
    return "of other logs, or of logs that were changed since" if ADJUDICATES in head else "by one scorer"


def _option_text(value: object) -> str:
    return "not given" if value is None else f"{value!r:.60}"


def check_exports(journal: JournalFile) -> None:
    """Refuse a journal that has lost its last lines, or all of them, since a night was exported from it.

    The chain of hashes cannot show that. An exported `.hypnogram.json` beside the journal records the last
    line at that time. A log that was removed and begun anew is refused likewise: the export names it.
    """
    stem = journal.path.name.removesuffix(REVIEW_SUFFIX)
    for path in sorted(journal.path.parent.glob(f"*.reviewed*{JSON_SUFFIX}")):
        place = _recorded_place(path) if path.name.startswith(f"{stem}.reviewed") else None
        if place is None:
            continue
        if place.get("file") != journal.path.name and place.get("begun") != journal.head.get("begun"):
            continue
        n_lines, line_sha256 = place.get("lines"), place.get("sha256")
        if not isinstance(n_lines, int) or not 1 <= n_lines <= len(journal.hashes):
            raise file_error(
                journal.path,
                f"has {len(journal.hashes)} lines, but had {checks.shown(n_lines)} when {path.name} was "
                f"exported: lines were removed. {PUT_BACK}",
            )
        if journal.hashes[n_lines - 1] != line_sha256:
            raise file_error(
                journal.path,
                f"line {n_lines} is not the one it had when {path.name} was exported: the log was changed. "
                f"{PUT_BACK}",
            )


def _recorded_place(path: Path) -> dict[str, Any] | None:
    """Return the place in a journal that an export records, or None if it is no such export."""
    try:
        place = read_sidecar(path)["options"].get("review")
    except (FileFormatError, OSError, KeyError, TypeError, AttributeError):
        return None
    return place if isinstance(place, dict) else None
