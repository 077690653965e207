"""A file format: how to know it, who reads and writes it, what it holds and what it cannot carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stageguard.formats.sniffing import Sniff

if TYPE_CHECKING:
    from stageguard.formats.density import DensityOptions, RawDensity
    from stageguard.formats.hypnogram import HypnogramOptions, RawHypnogram
    from stageguard.formats.outgoing import Content, Event, Outgoing

Kind = Literal["density", "hypnogram", "write"]

# What formats cannot carry.
PROBABILITIES = "probabilities"
OTHER_PROBABILITIES = "probabilities of the other stages"
NAMES = "stage names"
START = "start time"
EPOCH_LENGTH = "epoch length"
LEAD = "part of an epoch before the first"
SCORER = "scorer"
ANNOTATIONS = "other annotations"
STAGES_ALONE = (
    PROBABILITIES,
    START,
    EPOCH_LENGTH,
    LEAD,
    SCORER,
    ANNOTATIONS,
)  # lost where a file has only them
NUMBERS_ALONE = (NAMES, EPOCH_LENGTH, START)  # lost where a file is an array

# Ends of names that say more than an extension: a night is called what stands before them.
BIDS_ENDINGS = ("_events.tsv", "_hypnogram.tsv")
MNE_ENDINGS = ("-annot.fif", "_annot.fif")


def _never_final(path: Path) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file format; each tool's module lists its own.

    Parameters
    ----------
    name : str
        What a caller says: ``format="gssc-csv"``.
    title : str
        What people call it, for messages and the documentation.
    suffixes : tuple of str
        What its files are usually called, in lower case. They only decide between formats of like content,
        and a name that promises other formats is an error.
    sniff : callable
        Whether the first bytes of a file, and its path, may be of this format.
    density, hypnogram, write : callable, optional
        Read probabilities, read stages, write a night.
    loses : tuple of str
        What a file of this format cannot carry.
    is_general : bool
        It is read where no particular format recognises the content.
    sniff_hypnogram : callable, optional
        The same as `sniff` for reading it as a hypnogram, where that asks for other content.
    usual_suffix : str
        What files that are written end with; by default the first of `suffixes`.
    holds_both : bool
        It holds stages beside probabilities, where others that are read as both hold one of them.
    has_final_stages : callable
        Whether the stages of a file are meant where both could be: they are final, or a confidence says
        little.
    is_plain : bool
        Stages and nothing else: in a folder of scorings such a file goes before others of its night.
    may_be_recording : bool
        Its files may be recordings that nobody scored.
    writes_probabilities_alone : bool
        It can be written without stages.
    holds_cohort : bool
        One file may hold several nights.
    holds_decoding : bool
        It holds a decoding as it is, whose epochs are not moved into another recording.
    events : callable, optional
        Read annotations that are no stages: arousals, apnoeas, lights.
    recording_start : callable, optional
        When the recording began that these count from, where the file tells it.
    recording_seconds : callable, optional
        How long that recording lasts, where the file tells it.
    are_taken : callable, optional
        Which of a night's other annotations a reader of this format would take for stages.
    stage_texts : callable, optional
        The texts a file has for stages, to say where stages 3 and 4 become one.
    has_numbers : bool
        These texts are numbers.
    left_columns : callable, optional
        Columns of a table of stages that nobody reads.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Sniff
    density: Callable[[Path, DensityOptions], RawDensity] | None = None
    hypnogram: Callable[[Path, HypnogramOptions], RawHypnogram] | None = None
    write: Callable[[Outgoing, Path], Content] | None = None
    loses: tuple[str, ...] = ()
    is_general: bool = False
    sniff_hypnogram: Sniff | None = None
    usual_suffix: str = ""
    holds_both: bool = False
    has_final_stages: Callable[[Path], bool] = _never_final
    is_plain: bool = False
    may_be_recording: bool = False
    writes_probabilities_alone: bool = False
    holds_cohort: bool = False
    holds_decoding: bool = False
    events: Callable[[Path], Iterable[Event]] | None = None
    recording_start: Callable[[Path], datetime | None] | None = None
    recording_seconds: Callable[[Path], float | None] | None = None
    are_taken: Callable[[Outgoing], list[bool]] | None = None
    stage_texts: Callable[[Path], Iterable[str]] | None = None
    has_numbers: bool = False
    left_columns: Callable[[Path], list[str]] | None = None

    def does(self, kind: Kind) -> bool:
        """Whether it can be read as this, or written."""
        return getattr(self, kind) is not None

    def may_be(self, kind: Kind, head: bytes, path: Path) -> bool:
        """Whether a file that begins like this may be of this format, to be read as this."""
        sniff = self.sniff_hypnogram if kind == "hypnogram" else None
        return (sniff or self.sniff)(head, path)


def always_final(path: Path) -> bool:
    """Say that stages are meant wherever a file has them."""
    return True
