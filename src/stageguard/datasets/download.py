"""Fetch one file over HTTP: resume an interrupted download, check it, and move it into place.

pooch 1.9 would check and move files as well, but begins again after every broken connection.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from stageguard.datasets import RemoteFile
from stageguard.errors import (
    InputError,
    OutputError,
    StageGuardError,
)
from stageguard.files import exists_error, open_file, read_file
from stageguard.version import __version__

BLOCK = 1 << 18
LISTING_LIMIT = 64 << 20  # bytes; a list of files is never this long

Progress = Callable[[int, int | None], None]
Result = TypeVar("Result")


class DownloadError(StageGuardError, OSError):
    """A file could not be fetched, or differs from the published one."""


class _Broken(Exception):
    """The connection ended too early, or the server asks to wait; trying again may help."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long to try."""

    tries: int = 6  # give up after this many attempts in a row without a single byte
    first_wait_seconds: float = 1.0  # after a failed attempt; the wait doubles each time
    longest_wait_seconds: float = 60.0
    timeout_seconds: float = 60.0  # a connection without data for this long is broken


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but never from an encrypted to an unencrypted connection."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DownloadError(f"{req.full_url}: redirects to the unencrypted {newurl}, which is refused.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_bytes(url: str, *, patience: Patience | None = None) -> bytes:
    """Return the content of a URL: for lists of files, not for recordings."""
    patience = patience or Patience(tries=3)

    def attempt() -> bytes:
        with _open(url, {}, patience.timeout_seconds) as response:
            content = b""
            for block in _blocks(response):
                content += block
                if len(content) > LISTING_LIMIT:
                    raise DownloadError(f"{url}: is over {LISTING_LIMIT:,} bytes, expected a list of files.")
        length = response.headers.get("Content-Length")
        if length is not None and len(content) < int(length):
            raise _Broken(f"it ended after {len(content)} of {length} bytes")
        return content

    return _persist(url, attempt, patience)


def download(
    file: RemoteFile,
    folder: str | Path,
    *,
    overwrite: bool = False,
    patience: Patience | None = None,
    on_progress: Progress | None = None,
) -> bool:
    """Fetch a file into a dataset's folder; return False if it was there already.

    Data goes to ``<name>.part``, from which the next attempt or the next call continues. The file gets its
    final name when size and digest are as published. ``on_progress`` gets the bytes so far and the total, or
    None if that is unknown.
    """
    patience = patience or Patience()
    target = place_of(file, folder)
    if target.exists():
        wrong = difference(file, target)
        if wrong is None:
            return False
        if not overwrite:
            raise exists_error(target, f" and {wrong}")
    part = _Part(file, target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(2):
            _persist(file.url, lambda: _append(part, patience, on_progress), patience, lambda: part.size)
            wrong = difference(file, part.path)
            if wrong is None:
                part.path.replace(target)
                part.note.unlink(missing_ok=True)
                return True
            part.discard()  # a damaged beginning stays damaged, so start again
    except StageGuardError:
        raise
    except OSError as error:  # of the disk: those of the connection are tried again
        raise OutputError(
            f"cannot write {target}: {error.strerror or error}. Make room and run it again."
        ) from error
    raise DownloadError(f"{file.url}: what arrived {wrong}; it was not kept. Has the file changed?")


def place_of(file: RemoteFile, folder: str | Path) -> Path:
    """Return the path of a file in the dataset's folder; refuse a path that leads out of it."""
    parts = PurePosixPath(file.path).parts
    if not parts or parts[0] == "/" or ".." in parts or "\\" in file.path or ":" in file.path:
        raise InputError(f"the file list names {file.path!r}, expected a path below the dataset's folder.")
    return Path(folder, *parts)


def difference(file: RemoteFile, path: Path) -> str | None:
    """Return how a file differs from the published one, as the end of a sentence, or None."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"has {size:,} bytes, expected {file.size:,}"
    for name, expected in (("sha256", file.sha256), ("md5", file.md5)):
        if expected:
            actual = digest(path, name)
            is_same = actual == expected.lower()
            return None if is_same else f"has {name} {actual[:12]}…, expected {expected[:12]}…"
    return None


def digest(path: Path, name: str) -> str:
    """Return the hexadecimal digest of a file."""
    with open_file(path) as stream:
        new = partial(hashlib.new, name, usedforsecurity=False)
        return hashlib.file_digest(stream, new).hexdigest()  # type: ignore[arg-type]


class _Part:
    """The beginning of a file, with a note of the URL and version that it is from."""

    def __init__(self, file: RemoteFile, target: Path) -> None:
        self.file = file
        self.path = target.with_name(f"{target.name}.part")
        self.note = target.with_name(f"{target.name}.part.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def begun(self) -> tuple[int, str]:
        """Return how many bytes to continue from, and the server's name for their version, "" if unnamed.

        Without a version, and without a published digest, a change of the file could not be detected.
        """
        with contextlib.suppress(OSError, ValueError, KeyError):
            note = json.loads(read_file(self.note))
            version = str(note["version"])
            if note["url"] == self.file.url and (version or self.file.sha256 or self.file.md5):
                return self.size, version
        return 0, ""

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def _append(part: _Part, patience: Patience, on_progress: Progress | None) -> None:
    """Request the missing bytes and append them; raise `_Broken` if they end too early."""
    have, version = part.begun()
    if have and have == part.file.size:
        return
    headers = {"Range": f"bytes={have}-", **({"If-Range": version} if version else {})} if have else {}
    with _open(part.file.url, headers, patience.timeout_seconds) as response:
        if response.status == 416:  # no bytes are left to send
            return
        goes_on = response.status == 206
        if goes_on and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.discard()
            raise _Broken("the server sent another part than was asked for")
        have = have if goes_on else 0
        length = response.headers.get("Content-Length")
        total = part.file.size if length is None else have + int(length)
        with part.path.open("ab" if goes_on else "wb") as stream:
            note = {"url": part.file.url, "version": _version(response)}
            part.note.write_text(json.dumps(note), encoding="utf-8", newline="\n")
            for block in _blocks(response):
                stream.write(block)
                have += len(block)
                if on_progress is not None:
                    on_progress(have, total)
            stream.flush()
            os.fsync(stream.fileno())
    if total is not None and have < total:
        raise _Broken(f"it ended after {have:,} of {total:,} bytes")


def _open(url: str, headers: dict[str, str], timeout: float) -> Any:
    """Return the response to a request, which may have status 416 (no such range)."""
    if not url.startswith(("https://", "http://")):
        raise InputError(f"url {url!r} is not one of http or https.")
    # no compression in transit: ranges and lengths must count the bytes on disk
    usual = {"User-Agent": f"stageguard/{__version__}", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers={**usual, **headers})
    try:
        return urllib.request.build_opener(_SafeRedirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            return error
        with error:
            raise _refusal(url, error) from None
    except urllib.error.URLError as error:
        raise _Broken(str(error.reason)) from None
    except StageGuardError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(f"{type(error).__name__}: {error}") from None


def _refusal(url: str, error: urllib.error.HTTPError) -> Exception:
    answer = f"the server answers {error.code} {error.reason}"
    if error.code in (408, 425, 429) or error.code >= 500:
        wait = error.headers.get("Retry-After", "")
        return _Broken(answer, float(wait) if wait.isdigit() else 0.0)
    hint = " It needs an account or an agreement." if error.code in (401, 403) else ""
    return DownloadError(f"{url}: {answer}.{hint}")


def _blocks(response: Any) -> Iterator[bytes]:
    """Yield blocks as they arrive; any error of the connection becomes `_Broken`."""
    while True:
        try:
            block = response.read1(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise _Broken(f"{type(error).__name__}: {error}") from None
        if not block:
            return
        yield block


def _persist(
    url: str,
    attempt: Callable[[], Result],
    patience: Patience,
    progress: Callable[[], int] = lambda: 0,
) -> Result:
    """Try until it works, or until several attempts in a row brought no progress."""
    idle, before, wait = 0, progress(), patience.first_wait_seconds
    while True:
        try:
            return attempt()
        except _Broken as broken:
            now = progress()
            has_grown, before = now > before, now
            idle = 0 if has_grown else idle + 1
            wait = patience.first_wait_seconds if has_grown else wait
            if idle >= patience.tries:
                next_time = "it goes on from there" if now else "once the network is there"
                raise DownloadError(
                    f"{url}: {broken} ({idle} attempts in a row). Run it again, {next_time}."
                ) from None
            time.sleep(min(max(wait, broken.wait), patience.longest_wait_seconds))
            wait *= 2


def _version(response: Any) -> str:
    """Return what identifies this version of the file: a strong ETag, else the date, else ""."""
    tag = response.headers.get("ETag", "")
    return str(response.headers.get("Last-Modified", "") if tag.startswith("W/") or not tag else tag)
