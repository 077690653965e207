"""Datasets in their native layouts, read as one `Recording` after another.

>>> from stageguard.datasets import recordings
>>> for recording in recordings("accusleep", "data/accusleep"):
...     print(recording.id, recording.subject, recording.seconds / 3600)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode
from xml.etree.ElementTree import ParseError

from stageguard.documents import read_toml
from stageguard.errors import FileFormatError, InputError, StageGuardError, did_you_mean
from stageguard.formats.xml import children, local_name, text_of
from stageguard.night.recording import Recording
from stageguard.storage import local_only, location

__all__ = ["Dataset", "Entry", "dataset", "dataset_names", "entries", "recordings"]  # the public names

Access = Literal["open", "gated", "private"]
Fetch = Callable[[str], bytes]

SUMS = "SHA256SUMS.txt"  # in every PhysioNet project; local copies are checked against it
PHYSIONET = "https://physionet.org"
OSF_API = "https://api.osf.io/v2"
MOST_PAGES = 1000  # of a bucket's list; a page lists a thousand files


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file that can be fetched; size and digests are None if not published."""

    path: str  # below the dataset's folder, with forward slashes
    url: str
    size: int | None = None  # bytes
    sha256: str | None = None  # hexadecimal
    md5: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One recording that was found in a folder but not read yet."""

    id: str
    subject: str
    files: tuple[Path, ...]  # the recording's files, the main one first
    # a `functools.partial` of a module-level function, so that entries can be sent to other processes
    reader: Callable[[], Recording] = field(repr=False)
    missing: tuple[str, ...] = ()  # files of the layout that the folder lacks, by their path in the folder

    def read(self) -> Recording:
        """Return the recording. Any error of a library becomes one line that names the recording."""
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
    """A dataset: facts, access, and how to find its recordings; a text is "" if nothing is published."""

    name: str  # as in ``recordings(name, folder)``
    title: str  # name used in papers
    modality: str  # one of `signals.modalities.MODALITIES`, or "any"
    access: Access  # for everybody, for those who sign an agreement, or for the authors only
    how_to_get: str
    # takes the folder and options by name; yields entries in a stable order without reading signals
    find: Callable[..., Iterator[Entry]] = field(repr=False)
    layout: str = ""  # files of one recording, by their paths in the dataset's folder
    licence: str = ""
    ethics: str = ""
    url: str = ""
    citation: str = ""
    n_subjects: int | None = None  # of the complete dataset
    n_recordings: int | None = None
    # a function that lists the files takes ``fetch(url) -> bytes``
    files: Callable[[Fetch], tuple[RemoteFile, ...]] | tuple[RemoteFile, ...] = ()
    has_archives: bool = False  # whether to unpack its zip files after fetching
    # name -> one line of explanation; `entries` handles "subjects", `find` all others
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """Path of the dataset's page below ``docs/``."""
        return f"datasets/{self.name}.md"

    def entries(self, folder: str | Path, **options: Any) -> Iterator[Entry]:
        """Find the recordings in a folder, without reading their signals."""
        path = local_only(location(folder), "a dataset")
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
        return self._found(path, wanted, options)

    def _found(
        self, folder: Path, wanted: frozenset[str] | None, options: Mapping[str, Any]
    ) -> Iterator[Entry]:
        """Yield the recordings of the wanted subjects; refuse a folder without any recording."""
        is_empty = True
        for entry in self.find(folder, **options):
            is_empty = False
            if wanted is None or entry.subject.upper() in wanted:
                yield entry
        if is_empty:
            chosen = "".join(f", {name}={value}" for name, value in options.items())
            archive = next(iter(sorted(folder.rglob("*.zip"))), None)
            unpack = "" if archive is None else f" {archive.name} is an archive: unpack it."
            raise InputError(
                f"{folder} holds no recording of {self.title}{chosen}. Expected files such as {self.layout}."
                f"{unpack} Name the folder they are in."
            )

    def remote_files(self, fetch: Fetch) -> tuple[RemoteFile, ...]:
        """Return the files that can be fetched; an online list is fetched first."""
        return self.files(fetch) if callable(self.files) else self.files


def _wanted_subjects(subjects: Sequence[str] | str | None) -> frozenset[str] | None:
    """Return subjects in capitals, from a list or a text with commas; None means all."""
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
    """List the files of a PhysioNet project by its SHA256SUMS.txt, which comes first."""
    base = f"{PHYSIONET}/files/{project}"
    digests = parse_sha256sums(fetch(f"{base}/{SUMS}").decode("utf-8"))
    listed = [RemoteFile(path, f"{base}/{quote(path)}", sha256=digest) for path, digest in digests.items()]
    return (RemoteFile(SUMS, f"{base}/{SUMS}"), *listed)


def osf_files(fetch: Fetch, node: str) -> tuple[RemoteFile, ...]:
    """List the storage of an OSF project, folder by folder and page by page, with sizes and digests."""
    return tuple(_osf_folder(fetch, f"{OSF_API}/nodes/{node}/files/osfstorage/", ""))


def _osf_folder(fetch: Fetch, url: str | None, folder: str) -> Iterator[RemoteFile]:
    while url:
        page = json.loads(fetch(url))
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
    """List the files of a bucket with this suffix, with their sizes and, if listed, MD5 digests."""
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
                # an ETag with a dash is no digest of the file, which was uploaded in several parts
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


@cache
def _catalogue() -> dict[str, dict[str, Any]]:
    return read_toml(Path(__file__).with_name("catalogue.toml"), "the catalogue of datasets")


def dataset_names() -> tuple[str, ...]:
    """Return the names of all datasets."""
    return tuple(_catalogue())


def dataset(name: str) -> Dataset:
    """Return a dataset by name; an unknown name is an InputError.

    Parameters
    ----------
    name : str
        One of `dataset_names`.

    Returns
    -------
    Dataset
        Access, licence, citation and options.
    """
    key = name.strip().lower().replace("_", "-")
    if key not in _catalogue():
        hint = did_you_mean(name, _catalogue())
        raise InputError(f"no dataset {name!r}; there are: {', '.join(_catalogue())}.{hint}")
    facts = dict(_catalogue()[key])
    physionet, osf = facts.pop("physionet", None), facts.pop("osf", None)
    if physionet is not None:
        facts["files"] = partial(physionet_files, project=physionet)
    elif osf is not None:
        facts["files"] = partial(osf_files, node=osf)
    elif facts["access"] == "open":
        facts["files"] = _deferred(key, "list_files")
    return Dataset(name=key, find=_deferred(key, "find"), **facts)


def _deferred(name: str, function: str) -> Callable[..., Any]:
    """Return a function of a dataset's module; the module is imported on the first call."""
    module = f"{__name__}.{name.replace('-', '_')}"
    return lambda *arguments, **options: getattr(import_module(module), function)(*arguments, **options)


def entries(name: str, folder: str | Path, **options: Any) -> Iterator[Entry]:
    """Find the recordings of a dataset in a folder, without reading their signals.

    Parameters
    ----------
    name, folder, **options
        As in `recordings`.

    Returns
    -------
    iterator of Entry
        In a stable order. ``entry.read()`` gives the recording; entries can be sent to other processes.
    """
    return dataset(name).entries(folder, **options)


def recordings(
    name: str,
    folder: str | Path,
    *,
    on_error: Callable[[Entry, Exception], None] | None = None,
    **options: Any,
) -> Iterator[Recording]:
    """Read the recordings of a dataset, one at a time.

    Long signals stay in their files until a slice is read.

    Parameters
    ----------
    name : str
        One of `dataset_names`.
    folder : str or Path
        Where the dataset is, in its native layout.
    on_error : callable, optional
        Called with the entry and the error of a recording that cannot be read, which is then left out; by
        default the error is raised.
    **options
        The dataset's own: `stageguard data show NAME` lists them.

    Returns
    -------
    iterator of Recording
    """
    for entry in entries(name, folder, **options):
        try:
            recording = entry.read()
        except (StageGuardError, OSError) as error:
            if on_error is None or isinstance(error, ImportError):
                raise
            on_error(entry, error)
            continue
        yield recording
