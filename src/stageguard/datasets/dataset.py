"""What a dataset says of itself: terms, layout, one entry per recording, and the files its archive lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode
from xml.etree.ElementTree import ParseError

from stageguard.base.errors import FileFormatError, InputError, StageGuardError
from stageguard.base.files import parse_json
from stageguard.formats.xml import children, local_name, text_of
from stageguard.night.recording import Recording

Access = Literal["open", "gated", "private"]
Fetch = Callable[[str], bytes]

SUMS = "SHA256SUMS.txt"  # in every project of PhysioNet, and in local copies, which are checked by it
PHYSIONET = "https://physionet.org"
OSF_API = "https://api.osf.io/v2"
MOST_PAGES = 1000  # of a bucket's list; a page names a thousand files


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file that can be fetched; size and digests where they are published."""

    path: str  # below the dataset's folder, with forward slashes
    url: str
    size: int | None = None  # bytes
    sha256: str | None = None  # hexadecimal
    md5: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One recording that was found in a folder and is not yet read."""

    id: str
    subject: str
    files: tuple[Path, ...]  # those it is made of, the main one first
    # a `functools.partial` of a module's function, so that entries can be sent to other processes
    reader: Callable[[], Recording] = field(repr=False)
    missing: tuple[str, ...] = ()  # files the layout promises and the folder lacks, by their path below it

    def read(self) -> Recording:
        """Return the recording. Whatever a library says of a broken file is one line naming the file."""
        try:
            return self.reader()
        except (StageGuardError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise
            detail = " ".join(str(error).split()) or "no reason given"
            raise FileFormatError(f"{self.id}: cannot be read ({type(error).__name__}: {detail}).") from error


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset: what it is, who may have it, and how it is read; texts are "" where nothing is published."""

    name: str  # as in ``recordings(name, folder)``
    title: str  # what it is called in papers
    modality: str  # one of `signals.modalities.MODALITIES`, or "any"
    access: Access  # anybody can fetch it, whoever signs an agreement, or nobody but its authors
    how_to_get: str
    # takes the folder and options by name, and yields entries in a stable order and cheaply
    find: Callable[..., Iterator[Entry]] = field(repr=False)
    licence: str = ""
    ethics: str = ""
    url: str = ""
    citation: str = ""
    n_subjects: int | None = None  # of the complete dataset
    n_recordings: int | None = None
    # a function takes ``fetch(url) -> bytes``
    files: Callable[[Fetch], tuple[RemoteFile, ...]] | tuple[RemoteFile, ...] = ()
    has_archives: bool = False  # its zip files are to be unpacked when they have been fetched
    # with one line of explanation each; "subjects" is heeded by `entries`, all others by `find`
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """Its page below ``docs/``."""
        return f"datasets/{self.name}.md"

    def entries(self, folder: str | Path, **options: Any) -> Iterator[Entry]:
        """Find the recordings in a folder, without reading their signals."""
        path = Path(folder)
        if not path.exists():
            raise InputError(
                f"folder {path} does not exist, expected {self.title}. {self.how_to_get.rstrip('.')}. "
                f"More: stageguard data show {self.name}"
            )
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(self.options) or "none"
            raise InputError(
                f"option {unknown[0]!r} is not one of dataset {self.name!r}; its options: {known}."
            )
        wanted = _wanted_subjects(options.pop("subjects", None))
        entries = self.find(path, **options)
        return (entry for entry in entries if wanted is None or entry.subject.upper() in wanted)

    def remote_files(self, fetch: Fetch) -> tuple[RemoteFile, ...]:
        """Return what can be fetched, asking for a list where there is one."""
        return self.files(fetch) if callable(self.files) else self.files


def _wanted_subjects(subjects: Sequence[str] | str | None) -> frozenset[str] | None:
    """Return subjects in capitals, given as a list or as text with commas; None means all."""
    if subjects is None:
        return None
    parts = subjects.split(",") if isinstance(subjects, str) else [str(each) for each in subjects]
    names = frozenset(part.strip().upper() for part in parts if part.strip())
    if not names:
        raise InputError("subjects names nobody, expected a list such as SC400,SC401. Leave it out for all.")
    return names


def parse_sha256sums(text: str) -> dict[str, str]:
    """Return path -> digest from the lines of a SHA256SUMS file."""
    digests = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = re.fullmatch(r"([0-9a-fA-F]{64})[ \t]+\*?(?:\./)?(.+?)\s*", line)
        if match is None:
            raise FileFormatError(
                f"line {number} of {SUMS} is {line[:80]!r}, expected a SHA-256 digest and a path."
            )
        digests[match[2]] = match[1].lower()
    return digests


def physionet_files(fetch: Fetch, project: str) -> tuple[RemoteFile, ...]:
    """List a PhysioNet project by its SHA256SUMS.txt, which comes first."""
    base = f"{PHYSIONET}/files/{project}"
    digests = parse_sha256sums(fetch(f"{base}/{SUMS}").decode("utf-8"))
    listed = [RemoteFile(path, f"{base}/{quote(path)}", sha256=digest) for path, digest in digests.items()]
    return (RemoteFile(SUMS, f"{base}/{SUMS}"), *listed)


def osf_files(fetch: Fetch, node: str) -> tuple[RemoteFile, ...]:
    """List the storage of an OSF project, folder by folder and page by page, with sizes and digests."""
    return tuple(_osf_folder(fetch, f"{OSF_API}/nodes/{node}/files/osfstorage/", ""))


def _osf_folder(fetch: Fetch, url: str | None, folder: str) -> Iterator[RemoteFile]:
    while url:
        page = parse_json(fetch(url))
        for item in page["data"]:
            facts = item["attributes"]
            path = f"{folder}{facts['name']}"
            if facts["kind"] == "folder":
                inner = item["relationships"]["files"]["links"]["related"]["href"]
                yield from _osf_folder(fetch, inner, f"{path}/")
            else:
                size, hashes = facts.get("size"), facts.get("extra", {}).get("hashes", {})
                digests = (hashes.get("sha256"), hashes.get("md5"))
                yield RemoteFile(
                    path, item["links"]["download"], None if size is None else int(size), *digests
                )
        url = page["links"].get("next")


def bucket_files(fetch: Fetch, bucket: str, folder: str, suffix: str) -> tuple[RemoteFile, ...]:
    """List the files of a bucket with this suffix, with sizes and, where the list gives them, MD5 digests."""
    listed: list[RemoteFile] = []
    query = {"list-type": "2"}
    for _ in range(MOST_PAGES):
        page = _bucket_page(fetch(f"{bucket}/?{urlencode(query)}"), bucket)
        for item in children(page, "Contents"):
            key, size, tag = (text_of(item, name) or "" for name in ("Key", "Size", "ETag"))
            if not key or ".." in key.split("/") or key.startswith("/"):
                raise FileFormatError(
                    f"the list of {bucket} names the file {key[:60]!r}, expected one below it."
                )
            if key.endswith(suffix) and not key.endswith("/"):
                # an ETag with a dash is no digest of the file: it came in several parts
                digest = re.fullmatch(r'"?([0-9a-f]{32})"?', tag)
                n_bytes = int(size) if size.isdecimal() else None
                url = f"{bucket}/{quote(key)}"
                listed.append(RemoteFile(f"{folder}{key}", url, n_bytes, md5=digest and digest[1]))
        query["continuation-token"] = text_of(page, "NextContinuationToken") or ""
        if not query["continuation-token"]:
            return tuple(listed)
    raise FileFormatError(f"the list of {bucket} has no end, expected at most {MOST_PAGES:,} pages.")


def _bucket_page(data: bytes, bucket: str) -> Any:
    from defusedxml import DefusedXmlException  # type: ignore[import-untyped]
    from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]

    try:
        root = fromstring(data)
    except (ParseError, DefusedXmlException, ValueError) as error:
        raise FileFormatError(f"the list of {bucket} is not readable XML ({error}).") from None
    if local_name(root) != "ListBucketResult":
        raise FileFormatError(f"{bucket} answers with <{local_name(root)}>, expected a list of its files.")
    return root
