"""A row of the registry: how to recognise, read and write a format, and what it cannot store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stageguard.errors import InstallationWarning, fault_text, warn
from stageguard.formats.night import Events, FileOptions, Night, RawDensity, RawHypnogram
from stageguard.formats.sniffing import Sniff

Kind = Literal["density", "hypnogram", "write"]
Contents = Mapping[Path, str | bytes]  # of the files that a writer makes, the main file first

# What formats cannot carry.
PROBABILITIES = "probabilities"
OTHER_PROBABILITIES = "probabilities of the other stages"
STAGES = "stages"
NAMES = "stage names"
START = "start time"
ZONE = "time zone"
EPOCH_LENGTH = "epoch length"
LEAD = "part of an epoch before the first"
SCORER = "scorer"
ANNOTATIONS = "other annotations"
TYPES = "types of other annotations"
DETAILS = "channels and details of other annotations"
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

    Stages, probabilities and annotations are read apart, since one may be damaged where another is not.
    Suffixes only decide between formats of similar content.
    """

    name: str  # for the argument `format`: "gssc-csv"
    title: str  # for messages and the documentation
    suffixes: tuple[str, ...]  # usual suffixes, in lower case; the first is that of written files
    sniff: Sniff  # whether a file may have this format, by its first bytes and its path
    stages: Callable[[Path, FileOptions], RawHypnogram] | None = None
    probabilities: Callable[[Path, FileOptions], RawDensity] | None = None
    events: Callable[[Path], Events] | None = None  # annotations other than stages
    write: Callable[[Night, Path], Contents] | None = None
    loses: tuple[str, ...] = ()  # what a file of this format cannot carry
    is_general: bool = False  # used if no particular format recognises the content
    sniff_stages: Sniff | None = None  # instead of `sniff` when stages are read
    # Whether stages are meant if a file could be read as either: they are final, or a confidence says little.
    has_final_stages: Callable[[Path], bool] = lambda path: False
    is_plain: bool = False  # holds only stages: preferred among several scorings of a night in a folder
    may_be_recording: bool = False  # files may be recordings without a scoring
    writes_probabilities_alone: bool = False  # without stages
    holds_cohort: bool = False  # one file may hold several nights
    holds_decoding: bool = False  # as it is, so no epochs are added before it
    tells_events_by_text: bool = False  # an annotation that is called like a stage would be read as one

    @property
    def written_suffix(self) -> str:
        """The suffix of written files."""
        return self.suffixes[0]

    def does(self, kind: Kind) -> bool:
        """Whether the format can be read as this kind, or written."""
        parts = {"density": self.probabilities, "hypnogram": self.stages, "write": self.write}
        return parts[kind] is not None

    def may_be(self, kind: Kind, head: bytes, path: Path) -> bool:
        """Whether a file that begins with `head` may have this format, to be read as this kind."""
        sniff = (self.sniff_stages if kind == "hypnogram" else None) or self.sniff
        try:
            return bool(sniff(head, path))
        except Exception as error:  # of another package's format, which is asked about every file
            told = f"format {self.name!r} cannot judge {path.name} ({fault_text(error)})."
            warn(told, InstallationWarning)
            return False
