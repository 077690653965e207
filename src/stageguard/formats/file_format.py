"""A file format: how to recognise, read and write it, what it holds and what it cannot store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stageguard import checks
from stageguard.errors import InputError
from stageguard.formats.night import Reader
from stageguard.formats.outgoing import Content, Outgoing
from stageguard.formats.sniffing import Sniff

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
# Lost if a file has only stages.
STAGES_ALONE = (PROBABILITIES, START, EPOCH_LENGTH, LEAD, SCORER, ANNOTATIONS)
NUMBERS_ALONE = (NAMES, EPOCH_LENGTH, START)  # lost if a file is an array

# Ends of file names that are more than an extension; the rest is the name of the night.
BIDS_ENDINGS = ("_events.tsv", "_hypnogram.tsv")
MNE_ENDINGS = ("-annot.fif", "_annot.fif")


def always_final(path: Path) -> bool:
    """Return True: if a file has stages, they are meant."""
    return True


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file format; each tool's module lists its own.

    Suffixes only decide between formats of similar content. A suffix of another format is an error.
    """

    name: str  # for the argument `format`: "gssc-csv"
    title: str  # for messages and the documentation
    suffixes: tuple[str, ...]  # usual suffixes, in lower case
    sniff: Sniff  # whether a file may have this format, by its first bytes and its path
    reader: Reader
    write: Callable[[Outgoing, Path], Content] | None = None
    loses: tuple[str, ...] = ()  # what a file of this format cannot carry
    is_general: bool = False  # used if no particular format recognises the content
    sniff_hypnogram: Sniff | None = None  # instead of `sniff` when stages are read
    usual_suffix: str = ""  # of written files; by default the first of `suffixes`
    holds_both: bool = False  # a file may hold stages and probabilities
    # Whether stages are meant if a file could be read as either: they are final, or a confidence says little.
    has_final_stages: Callable[[Path], bool] = lambda path: False
    is_plain: bool = False  # holds only stages: preferred among several scorings of a night in a folder
    may_be_recording: bool = False  # files may be recordings without a scoring
    writes_probabilities_alone: bool = False  # without stages
    holds_cohort: bool = False  # one file may hold several nights
    holds_decoding: bool = False  # as it is, so no epochs are added before it
    has_events: bool = False  # may hold annotations other than stages
    are_taken: Callable[[Outgoing], list[bool]] | None = None  # which events a reader would take for stages
    has_numbers: bool = False  # whether stages are numbers, so that 4 is one

    def __post_init__(self) -> None:
        """Refuse what would fail only at somebody's file: other packages make formats, too."""
        checks.text(self.name, "name", empty=False)
        suffixes: object = self.suffixes
        if not isinstance(suffixes, tuple) or any(suffix != str(suffix).lower() for suffix in self.suffixes):
            raise InputError(f"suffixes is {checks.shown(suffixes)}, expected a tuple in lower case.")
        if not callable(self.sniff):
            raise InputError(f"sniff is {checks.shown(self.sniff)}, expected a function.")
        if not isinstance(self.reader, Reader):
            raise InputError(
                f"reader is a {type(self.reader).__name__}, expected a Reader, as of_stages(f) is."
            )

    @property
    def written_suffix(self) -> str:
        """The suffix of written files."""
        return self.usual_suffix or self.suffixes[0]

    def does(self, kind: Kind) -> bool:
        """Whether the format can be read as this kind, or written."""
        return self.write is not None if kind == "write" else kind in self.reader.parts

    def may_be(self, kind: Kind, head: bytes, path: Path) -> bool:
        """Whether a file that begins with `head` may have this format, to be read as this kind."""
        sniff = self.sniff_hypnogram if kind == "hypnogram" else None
        return (sniff or self.sniff)(head, path)
