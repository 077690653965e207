"""A file format: how to know it, who reads and writes it, what it holds and what it cannot store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stageguard.base.records import dataclass
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
# Lost where a file has only stages.
STAGES_ALONE = (PROBABILITIES, START, EPOCH_LENGTH, LEAD, SCORER, ANNOTATIONS)
NUMBERS_ALONE = (NAMES, EPOCH_LENGTH, START)  # lost where a file is an array

# Ends of names that say more than an extension: a night is called what stands before them.
BIDS_ENDINGS = ("_events.tsv", "_hypnogram.tsv")
MNE_ENDINGS = ("-annot.fif", "_annot.fif")


def always_final(path: Path) -> bool:
    """Say that stages are meant wherever a file has them."""
    return True


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file format; each tool's module lists its own.

    Suffixes only decide between formats of like content, and a name that promises other formats is an error.
    """

    name: str  # what a caller says: format="gssc-csv"
    title: str  # what people call it, for messages and the documentation
    suffixes: tuple[str, ...]  # what its files are usually called, in lower case
    sniff: Sniff  # whether the first bytes of a file, and its path, may be of this format
    density: Callable[[Path, DensityOptions], RawDensity] | None = None
    hypnogram: Callable[[Path, HypnogramOptions], RawHypnogram] | None = None
    write: Callable[[Outgoing, Path], Content] | None = None
    loses: tuple[str, ...] = ()  # what a file of this format cannot carry
    is_general: bool = False  # it is read where no particular format recognises the content
    sniff_hypnogram: Sniff | None = None  # where reading stages asks for other content than probabilities
    usual_suffix: str = ""  # of files that are written; by default the first of `suffixes`
    holds_both: bool = False  # stages beside probabilities, where others hold one of them
    # Whether stages are meant where both could be: they are final, or a confidence says little.
    has_final_stages: Callable[[Path], bool] = lambda path: False
    is_plain: bool = False  # stages and nothing else: of a night's files in a folder such a one goes first
    may_be_recording: bool = False  # its files may be recordings that nobody scored
    writes_probabilities_alone: bool = False  # without stages
    holds_cohort: bool = False  # one file may hold several nights
    holds_decoding: bool = False  # as it is: its epochs are not moved into another recording
    events: Callable[[Path], Iterable[Event]] | None = None  # annotations that are no stages
    recording_start: Callable[[Path], datetime | None] | None = None  # which these count from
    recording_seconds: Callable[[Path], float | None] | None = None
    are_taken: Callable[[Outgoing], list[bool]] | None = None  # other annotations that read as stages
    stage_texts: Callable[[Path], Iterable[str]] | None = None  # of a file, where stage 4 may be among them
    has_numbers: bool = False  # these texts are numbers
    left_columns: Callable[[Path], list[str]] | None = None  # of a table of stages, that nobody reads

    @property
    def written_suffix(self) -> str:
        """How files that are written end."""
        return self.usual_suffix or self.suffixes[0]

    def does(self, kind: Kind) -> bool:
        """Whether it can be read as this, or written."""
        return getattr(self, kind) is not None

    def may_be(self, kind: Kind, head: bytes, path: Path) -> bool:
        """Whether a file that begins like this may be of this format, to be read as this."""
        sniff = self.sniff_hypnogram if kind == "hypnogram" else None
        return (sniff or self.sniff)(head, path)
