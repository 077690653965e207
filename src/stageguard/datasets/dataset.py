"""What a dataset says of itself: terms, layout, files to fetch, one entry per recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from stageguard.base.errors import FileFormatError, InputError, StageGuardError
from stageguard.night.recording import Recording

Access = Literal["open", "gated", "private"]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file that can be fetched.

    Parameters
    ----------
    path : str
        Where it belongs below the dataset's folder, with forward slashes.
    url : str
        Where it comes from.
    size : int, optional
        Bytes, where published.
    sha256, md5 : str, optional
        Hexadecimal digest, where published.
    """

    path: str
    url: str
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One recording that was found in a folder and is not yet read.

    Parameters
    ----------
    id, subject : str
        As the recording will have them.
    files : tuple of Path
        Those it is made of, the main one first.
    reader : callable
        Called without arguments; returns the Recording. A `functools.partial` of a module's function, so that
        entries can be sent to other processes.
    missing : tuple of str
        Files the layout promises and the folder lacks, by their path below it.
    """

    id: str
    subject: str
    files: tuple[Path, ...]
    reader: Callable[[], Recording] = field(repr=False)
    missing: tuple[str, ...] = ()

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
    """A dataset: what it is, who may have it, and how it is read.

    Each module of this package that reads a dataset ends with ``DATASET = Dataset(...)``.

    Parameters
    ----------
    name : str
        As in ``recordings(name, folder)``.
    title : str
        What it is called in papers.
    modality : str
        One of `signals.modalities.MODALITIES`, or "any".
    access : "open", "gated" or "private"
        Whether anybody can fetch it, whoever signs an agreement, or nobody but its authors.
    licence, ethics : str
        As published; "" where nothing is.
    url : str
        Its home.
    how_to_get : str
        One or two sentences.
    page : str
        Its page below ``docs/``, such as "datasets/accusleep.md".
    find : str
        ``"module:function"`` below this package. The function takes the folder (a Path) and options by
        name, and yields an `Entry` per recording, in a stable order and cheaply; the entry reads the signals.
    n_subjects, n_recordings : int, optional
        Of the complete dataset.
    citation : str
        What its authors ask to be cited.
    files : tuple of RemoteFile or str
        What `stageguard data get` fetches; ``"module:function"`` where a list must be fetched first. The
        function takes ``fetch(url) -> bytes`` and returns the tuple.
    has_archives : bool
        Whether its zip files are to be unpacked when they have been fetched.
    options : mapping of str to str
        Options of `find`, each with one line of explanation.
    """

    name: str
    title: str
    modality: str
    access: Access
    licence: str
    ethics: str
    url: str
    how_to_get: str
    page: str
    find: str
    n_subjects: int | None = None
    n_recordings: int | None = None
    citation: str = ""
    files: tuple[RemoteFile, ...] | str = ()
    has_archives: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    def entries(self, folder: str | Path, **options: Any) -> Iterator[Entry]:
        """Find the recordings in a folder, without reading their signals."""
        place = Path(folder)
        if not place.exists():
            raise InputError(
                f"folder {place} does not exist, expected {self.title}. {self.how_to_get.rstrip('.')}. "
                f"More: stageguard data show {self.name}"
            )
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(self.options) or "none"
            raise InputError(
                f"option {unknown[0]!r} is not one of dataset {self.name!r}; its options: {known}."
            )
        found: Iterator[Entry] = resolve(self.find)(place, **options)
        return found

    def remote_files(self, fetch: Callable[[str], bytes]) -> tuple[RemoteFile, ...]:
        """Return what can be fetched, asking for a list where there is one."""
        if isinstance(self.files, tuple):
            return self.files
        listed: tuple[RemoteFile, ...] = resolve(self.files)(fetch)
        return listed


def resolve(reference: str) -> Callable[..., Any]:
    """Return the function that ``"module:function"`` names, importing its module."""
    module, _, name = reference.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"stageguard.datasets.{module}"), name)
    return function


def wanted_subjects(subjects: Sequence[str] | str | None) -> frozenset[str] | None:
    """Return subjects in capitals, given as a list or as text with commas; None means all."""
    if subjects is None:
        return None
    parts = subjects.split(",") if isinstance(subjects, str) else [str(each) for each in subjects]
    names = frozenset(part.strip().upper() for part in parts if part.strip())
    if not names:
        raise InputError("subjects names nobody, expected a list such as SC400,SC401. Leave it out for all.")
    return names


def whole_number(value: int | str, what: str) -> int:
    """Return an option that may come as text from the command line."""
    try:
        number = int(str(value).strip())
    except ValueError:
        raise InputError(f"{what} is {value!r}, expected a whole number.") from None
    return number
