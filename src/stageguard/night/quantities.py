"""The one table of what is measured on a scored night: sleep statistics and validity indicators.

Tables, reports, codebooks, the bands of profiles and the endpoints of a fit take names, units, decimals and
order from here. A new statistic is a row here, and the field or property of that name that computes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import asin, log, nan, sqrt
from types import MappingProxyType
from typing import Literal

from stageguard.errors import InputError

Shown = Literal["reported", "interval", "decode", "cohort", "night row"]
Need = Literal["one night", "bedtime", "scored half", "unbroken sleep", "REM", "REM bout"]
EpochRule = Literal["same", "per pair", "single epochs"]
Steering = Literal["fragmentation", "totals"]

PHASES = ("light", "dark")

EARLY_REM_MINUTES = 15.0  # after sleep onset, as on 0 to 0.8 % of expert nights (DOD-H, DOD-O, Sleep-EDF)
EARLY_WORDS = "early: REM within 15 min of sleep onset, as on less than 1 % of adults' nights: look at it"

STEERED_MARK = "†"
# What a profile may set itself: numbers that follow it tell of the profile.
STEERED_BY: Mapping[Steering, str] = {
    "fragmentation": "set by the smoothing",
    "totals": "shifted by the profile's stage biases or shares",
}


def steered_words(n_nights: Mapping[Steering, int]) -> str:
    """Return the footnote that explains the mark, for the number of nights that each was steered on."""
    given = {what: "" if n == 1 else f" on {n:,} nights" for what, n in n_nights.items() if n}
    parts = [STEERED_BY[what] + nights for what, nights in given.items()]
    return f"{STEERED_MARK} {', or '.join(parts)}{'; do not report' if 'fragmentation' in given else ''}"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A sleep statistic or a validity indicator, and how people see it."""

    key: str  # field of `SleepStatistics`, or an indicator; ``of`` adds ``_`` and the stage
    title: str  # what the codebook calls it; ``{stage}`` and ``{phase}`` are filled in
    definition: str
    unit: str  # in full; ``count`` for things that are counted
    decimals: int  # how many make sense
    abbreviation: str = ""  # in brackets after the title in reports, and alone in narrow tables
    yasa_key: str = ""  # in `SleepStatistics.to_dict`; by default the abbreviation
    label: str = ""  # in reports; by default the title and the abbreviation
    heading: str = ""  # in wide tables of the command line; by default the title and the unit
    short_heading: str = ""  # in narrow ones; by default the abbreviation or title and the short unit
    # where it appears. reported: studies report it, so it gets an interval and is an endpoint of a fit;
    # interval: it gets an interval only; decode: in the before/after table; cohort: in tables of means and
    # differences; night row: in tables with a row per night
    shown: tuple[Shown, ...] = ()
    reported_key: str = ""  # key among intervals and endpoints, for a stage's quantity that studies report
    report_row: int = 99  # orders the rows of a report
    needs: tuple[Need, ...] = ()  # what a night must have, besides scored sleep, for it to exist
    unbroken_minutes: int = 0  # how much sleep without a break it needs
    follows: Steering | None = None  # what steers it when a profile steers that
    early_below: float = nan  # minutes below which a latency is worth a second look
    # what happens to its band at another epoch length. same: nothing; per pair: it grows with the epoch,
    # being counted per pair of epochs; single epochs: it has another meaning
    epoch_rule: EpochRule = "same"
    # added before the log of a value that can be 0; our choice, about one event per night
    log_offset: float = 0.0

    def __post_init__(self) -> None:
        """Fill in the names that follow from others."""
        short_unit = f" ({self.short_unit})" if self.short_unit else ""
        for name, text in (
            ("yasa_key", self.abbreviation),
            ("label", f"{self.title} ({self.abbreviation})" if self.abbreviation else self.title),
            ("heading", self.title + ("" if self.unit == "count" else f" ({self.unit})")),
            ("short_heading", (self.abbreviation or self.title) + short_unit),
        ):
            object.__setattr__(self, name, getattr(self, name) or text)

    @property
    def short_unit(self) -> str:
        """The unit without its denominator: "%" for "% of TIB"; empty for counts."""
        return "" if self.unit == "count" else self.unit.partition(" of ")[0]

    @property
    def is_latency(self) -> bool:
        """Whether it is the time until an event, which may never happen."""
        return self.unit == "min" and "bedtime" in self.needs

    def is_early(self, minutes: float) -> bool:
        """Whether a latency is so short that experts hardly ever score it."""
        return minutes < self.early_below

    @property
    def description(self) -> str:
        """Title and definition, as in a codebook."""
        return f"{self.title}: {self.definition}" if self.definition else self.title

    def normal(self, value: float) -> float:
        """Return a value where expert nights are nearly normal: arcsine of the root for percent, else log."""
        is_share = self.unit.startswith("%")
        return asin(sqrt(min(value, 100.0) / 100.0)) if is_share else log(value + self.log_offset)

    def of(self, stage: str, phase: str = "") -> Quantity:
        """Return the quantity of one stage, or of one stage in the light or in the dark."""
        key = "_".join(part for part in (self.key, stage, phase) if part)
        words = {name: getattr(self, name).format(stage=stage, phase=phase) for name in _WITH_STAGE}
        return replace(self, key=key, **words)


_WITH_STAGE = ("title", "definition", "label", "heading", "short_heading")

# fmt: off
# Quantities of a whole night, in the order of a cohort's columns.
NIGHT = (
    Quantity("tib_minutes", "Time in bed", "lights off to lights on, or the recording; without "
             "lights, from 20 h, the period of its longest sleep", "min", 1, "TIB", report_row=15),
    Quantity("spt_minutes", "Sleep period time", "first to last epoch of sleep", "min", 1, "SPT",
             report_row=14),
    Quantity("tst_minutes", "Total sleep time", "epochs of sleep", "min", 1, "TST",
             report_row=1, shown=("reported", "decode", "cohort", "night row"), follows="totals"),
    Quantity("se_percent", "Sleep efficiency", "total sleep time in time in bed", "% of TIB", 1, "SE",
             report_row=2, shown=("reported", "decode", "cohort"), needs=("bedtime", "scored half"),
             follows="totals"),
    Quantity("sme_percent", "Sleep maintenance efficiency", "total sleep time in the sleep period",
             "% of SPT", 1, "SME", report_row=13, needs=("scored half",), follows="totals"),
    Quantity("sol_minutes", "Sleep onset latency", "from lights off to the first epoch of sleep",
             "min", 1, "SOL", report_row=3, shown=("reported", "decode", "cohort"), needs=("bedtime",)),
    Quantity("sol_5min_minutes", "Latency to 5 min of sleep", "without a break", "min", 1,
             yasa_key="SOL_5min", label="SOL to 5 min of sleep",
             report_row=4, needs=("bedtime", "unbroken sleep"), unbroken_minutes=5),
    # as trials define it: 20 epochs of 30 s that are not wake (Rosenberg et al. 2019,
    # doi 10.1001/jamanetworkopen.2019.18254)
    Quantity("sol_10min_minutes", "Latency to persistent sleep",
             "from lights off to the first 10 min of sleep without a break", "min", 1, "LPS",
             yasa_key="SOL_10min", report_row=5, shown=("decode", "cohort"),
             needs=("bedtime", "unbroken sleep"), unbroken_minutes=10),
    Quantity("rem_latency_minutes", "REM latency",
             "from sleep onset, or from lights off by the yasa convention, to the first epoch of REM",
             "min", 1, yasa_key="REM_latency",
             report_row=6, shown=("reported", "decode", "cohort", "night row"), needs=("bedtime", "REM"),
             early_below=EARLY_REM_MINUTES),
    Quantity("rem_latency_bout_minutes", "REM latency to a lasting bout",
             "from the same moment to the first REM bout of 2 min, or of the length that was asked for",
             "min", 1, yasa_key="REM_latency_bout", report_row=7, shown=("interval", "decode", "cohort"),
             needs=("bedtime", "REM bout"), early_below=EARLY_REM_MINUTES),
    Quantity("waso_minutes", "Wake after sleep onset", "within the sleep period", "min", 1, "WASO",
             report_row=8, shown=("reported", "decode", "cohort", "night row"), follows="totals"),
    Quantity("awakenings", "Awakenings", "wake bouts within the sleep period", "count", 0, yasa_key="NoA",
             report_row=9, shown=("reported", "decode", "cohort", "night row"), follows="fragmentation"),
    Quantity("awakenings_with_final", "Awakenings and the final one", "wake bouts after sleep onset",
             "count", 0, yasa_key="NoA_total", label="Awakenings, the final one included", report_row=10,
             follows="fragmentation"),
    Quantity("cycles", "NREM-REM cycles", "after Feinberg and Floyd", "count", 0,
             yasa_key="NREMC", label="NREM–REM cycles", report_row=12, needs=("one night", "REM")),
    Quantity("sfi_per_hour", "Sleep fragmentation index", "changes from sleep to wake", "per hour of TST", 2,
             "SFI", report_row=11, follows="fragmentation"),
    Quantity("unscored_minutes", "Unscored time", "within time in bed", "min", 1,
             yasa_key="UNS", label="Unscored", report_row=16),
)
ALL_BOUTS = Quantity("bouts", "Bouts", "of any stage", "count", 0, shown=("cohort",),
                     follows="fragmentation")

# Quantities of each stage; the label heads their rows in a report.
STAGE = (
    Quantity("stage_minutes", "Time in {stage}", "", "min", 1, label="Time per stage",
             shown=("reported",), reported_key="minutes", follows="totals"),
    Quantity("stage_percent", "Share of {stage}", "", "% of TST", 1, label="Share of total sleep time",
             short_heading="{stage} (% of TST)", shown=("cohort",), follows="totals"),
    Quantity("bouts", "Bouts of {stage}", "", "count", 0, label="Bouts per stage",
             shown=("reported",), reported_key="bouts", follows="fragmentation"),
)

# Quantities of each stage in the light and in the dark phase.
PHASE = (
    Quantity("stage_minutes", "Time in {stage} in the {phase} phase", "", "min", 1, follows="totals"),
    Quantity("stage_percent", "Share of {stage} in the {phase} phase", "", "% of scored time", 1,
             short_heading="{stage} ({phase}, %)", shown=("cohort",), follows="totals"),
    Quantity("bouts", "Bouts of {stage} in the {phase} phase", "those that begin in it", "count", 0,
             follows="fragmentation"),
    Quantity("mean_bout_minutes", "Mean bout of {stage} in the {phase} phase", "of bouts that begin in it",
             "min", 2, follows="fragmentation"),
)

# All indicators in one number, by `profile.joint`.
JOINT = Quantity("joint_score", "Distance", "how far its indicators are from those of expert scorings",
                 "SD of expert nights", 2, heading="Distance from expert scoring (SD)",
                 short_heading="Distance", shown=("decode", "cohort", "night row"))

# Validity indicators of a whole night.
INDICATORS = (
    Quantity("fragmentation_index", "Fragmentation index", "stage changes", "per adjacent scored pair", 3,
             "FI", heading="Fragmentation index (changes per epoch)", short_heading="Fragmentation",
             shown=("decode", "cohort", "night row"), epoch_rule="per pair", log_offset=0.001,
             follows="fragmentation"),
    Quantity("transitions_per_hour", "Stage changes per hour", "of adjacent scored pairs", "per hour", 2,
             label="Stage changes", log_offset=0.1, follows="fragmentation"),
    Quantity("tvr_percent", "Uncommon transitions (TVR)", "those the profile counts",
             "% of adjacent scored pairs", 2,
             heading="Uncommon transitions, TVR (%)", short_heading="Uncommon transitions (%)",
             shown=("decode", "cohort"), epoch_rule="per pair"),
    Quantity("tvr_per_change_percent", "Uncommon transitions per change", "those the profile counts",
             "% of stage changes", 1, label="Uncommon transitions, of changes"),
    Quantity("tvr_per_hour", "Uncommon transitions per hour", "those the profile counts", "per hour", 2,
             label="Uncommon transitions, per hour", log_offset=0.1),
    Quantity("paper_tvr_percent", "W to R and R to N", "of the stages merged to W, N, R",
             "% of adjacent scored pairs", 2, label="W→R and R→N (published TVR)", epoch_rule="per pair"),
    Quantity("flips_per_hour", "Flips per hour", "A-B-A where B lasts one epoch", "per hour", 2,
             label="One-epoch flips (A-B-A)", epoch_rule="single epochs", log_offset=0.1,
             follows="fragmentation"),
)

# Validity indicators of each stage.
STAGE_INDICATORS = (
    Quantity("one_epoch_bouts_percent", "One-epoch bouts of {stage}", "of complete bouts",
             "% of complete bouts", 1, label="One-epoch bouts, {stage}", epoch_rule="single epochs",
             follows="fragmentation"),
    Quantity("mean_bout_minutes", "Mean bout of {stage}", "of complete bouts", "min", 2,
             label="Mean bout, {stage}", follows="fragmentation"),
    Quantity("median_bout_minutes", "Median bout of {stage}", "of complete bouts", "min", 2,
             label="Median bout, {stage}", follows="fragmentation"),
)
# fmt: on

# What studies report of the night, what gets an interval, and what studies report of each stage.
REPORTED = tuple(quantity for quantity in NIGHT if "reported" in quantity.shown)
WITH_INTERVAL = tuple(quantity for quantity in NIGHT if {"reported", "interval"} & set(quantity.shown))
REPORTED_OF_STAGE = tuple(quantity for quantity in STAGE if "reported" in quantity.shown)


@cache
def indicators_of(stages: tuple[str, ...]) -> Mapping[str, Quantity]:
    """Return the indicators of a night in these stages, by key; those of single stages come last."""
    of_stages = [quantity.of(stage) for stage in stages for quantity in STAGE_INDICATORS]
    return MappingProxyType({quantity.key: quantity for quantity in (*INDICATORS, *of_stages)})


@cache
def quantity_of(key: str) -> Quantity:
    """Return the quantity behind a key such as ``tst_minutes``, ``bouts_N2`` or ``bouts_R_dark``."""
    for quantity in (*NIGHT, ALL_BOUTS, JOINT, *INDICATORS):
        if quantity.key == key:
            return quantity
    kinds = [(quantity, phase) for quantity in PHASE for phase in PHASES]
    for quantity, phase in [*kinds, *((each, "") for each in (*STAGE, *STAGE_INDICATORS))]:
        before, after = f"{quantity.key}_", f"_{phase}" if phase else ""
        if key.startswith(before) and key.endswith(after):
            return quantity.of(key.removeprefix(before).removesuffix(after), phase)
    raise InputError(f"unknown measure {key!r}.")
