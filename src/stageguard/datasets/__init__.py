"""Datasets in their native layouts, read as one `Recording` after another.

>>> from stageguard.datasets import recordings
>>> for recording in recordings("accusleep", "data/accusleep"):
...     print(recording.id, recording.subject, recording.seconds / 3600)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from stageguard.documents import read_toml
from stageguard.errors import FileFormatError, InputError, StageGuardError, did_you_mean
from stageguard.night.recording import Recording
from stageguard.storage import local_only, location

__all__ = ["Dataset", "Entry", "dataset", "dataset_names", "entries", "recordings"]  # the public names

Access = Literal["open", "gated", "private"]


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
        with reading(self.id):
            return self.reader()


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset: facts, access, and how to find its recordings; a text is "" if nothing is published."""

    name: str  # as in ``recordings(name, folder)``
    title: str  # name used in papers
    modality: str  # one of `signals.modalities.MODALITIES`, or "any"
    access: Access  # for everybody, for those who sign an agreement, or for the authors only
    how_to_get: str
    layout: str = ""  # files of one recording, by their paths in the dataset's folder
    licence: str = ""
    ethics: str = ""
    url: str = ""
    citation: str = ""
    n_subjects: int | None = None  # of the complete dataset
    n_recordings: int | None = None
    physionet: str = ""  # the project there, from which it can be fetched
    # name -> one line of explanation; `entries` handles "subjects", the dataset's module all others
    options: Mapping[str, str] = field(default_factory=dict)

    def entries(self, folder: str | Path, **options: Any) -> Iterator[Entry]:
        """Find the recordings in a folder, without reading their signals."""
        path = local_only(location(folder), "a dataset")
        if not path.exists():
            raise InputError(f"folder {path} does not exist, expected {self.title}. {self.how_to_get}")
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(self.options) or "none"
            raise InputError(f"{self.name!r} has no option {unknown[0]!r}; its options: {known}.")
        return self._found(path, _wanted_subjects(options.pop("subjects", None)), options)

    def _found(
        self, folder: Path, wanted: frozenset[str] | None, options: Mapping[str, Any]
    ) -> Iterator[Entry]:
        """Yield the recordings of the wanted subjects; refuse a folder without any recording."""
        entry = None
        for entry in import_module(f"{__name__}.{self.name.replace('-', '_')}").find(folder, **options):
            if wanted is None or entry.subject.upper() in wanted:
                yield entry
        if entry is None:
            chosen = "".join(f", {name}={value}" for name, value in options.items())
            archive = next((f" Unpack {path.name}." for path in sorted(folder.rglob("*.zip"))), "")
            expected = f"expected files such as {self.layout}.{archive}"
            raise InputError(f"{folder} holds no recording of {self.title}{chosen}, {expected}")


def _wanted_subjects(subjects: Sequence[str] | str | None) -> frozenset[str] | None:
    """Return subjects in capitals, from a list or a text with commas; None means all."""
    if subjects is None:
        return None
    parts = subjects.split(",") if isinstance(subjects, str) else map(str, subjects)
    if not (names := frozenset(part.strip().upper() for part in parts if part.strip())):
        raise InputError("subjects is empty, expected a list such as SC400,SC401.")
    return names


@cache
def _catalogue() -> dict[str, dict[str, Any]]:
    return read_toml(Path(__file__).with_name("catalogue.toml"), "the catalogue of datasets")


def dataset_names() -> tuple[str, ...]:
    """Return the names of all datasets."""
    return tuple(_catalogue())


def dataset(name: str) -> Dataset:
    """Return what is known of a dataset: access, licence, citation and options.

    Parameters
    ----------
    name : str
        One of `dataset_names`.
    """
    key = name.strip().lower().replace("_", "-")
    if key not in _catalogue():
        hint = did_you_mean(name, _catalogue())
        raise InputError(f"no dataset {name!r}; there are: {', '.join(_catalogue())}.{hint}")
    return Dataset(name=key, **_catalogue()[key])


def entries(name: str, folder: str | Path, **options: Any) -> Iterator[Entry]:
    """Find the recordings of a dataset in a folder, without reading their signals.

    They come in a stable order. ``entry.read()`` gives the recording; entries can be sent to other processes.

    Parameters
    ----------
    name, folder, **options
        As in `recordings`.
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
        The dataset's own: ``dataset(name).options`` explains them.

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


# ---- what several readers need


def dataset_error(path: Path, message: str) -> FileFormatError:
    """Return an error that begins with the file and its folder: every session has an EEG.mat."""
    return FileFormatError(f"{path.parent.name}/{path.name}: {message}")


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn an error of a library into one line with the name of a file or recording."""
    try:
        yield
    except (StageGuardError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        detail = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".removesuffix(": ")
        raise FileFormatError(f"{name}: cannot be read ({detail}). Is it damaged?") from error
