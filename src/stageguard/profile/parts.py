"""The parts of a profile: small types whose fields are the keys of their tables in its document.

Tuples and mappings that are marked `ByName` hold a value for each stage, in the order of the profile's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from stageguard import checks, documents
from stageguard.arrays import SUM_TOLERANCE
from stageguard.documents import ByName, Positive, Range, Share, Text
from stageguard.errors import InputError

# The stager of a stream in words, by whether it is known to flicker.
STREAMED = {
    None: "an unknown stager",
    True: "a stager that flickers",
    False: "a stager that does not flicker",
}
KINDS_OF_NIGHT = ("good", "flickering", "labels", "unlike")  # whose coverage is measured apart

TAIL = 0.025  # of the experts' mean shares, on either side of their range
WIDENED = 1.25  # times, for cohorts unlike those counted
_HALVINGS = 50  # of the interval that holds a quantile


def sums_to_one(values: tuple[float, ...], where: str) -> tuple[float, ...]:
    """Return shares that sum to 1, up to rounding."""
    if abs(sum(values) - 1) > SUM_TOLERANCE:
        raise InputError(f"{where} sums to {sum(values):.6g}, expected 1 (within {SUM_TOLERANCE:g}).")
    return values


def _are_durations(table: tuple[float, ...], where: str) -> tuple[float, ...]:
    if sum(table) > 1 + 1e-9:
        raise InputError(f"{where} sums to {sum(table):.6g}, expected at most 1; the rest is the tail.")
    if table[-1] == 0:
        raise InputError(f"{where} ends in 0, expected a last entry above 0: its hazard is that of the tail.")
    return table


def _are_kinds_of_night(table: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    return checks.mapping(table, where, KINDS_OF_NIGHT)


AboveZero = Annotated[float, Range(above=0, high=1)]
Weight = Annotated[float, Range(0, 1000)]  # of transitions
PerStage = Annotated[tuple[Share, ...], ByName()]
Row = Annotated[tuple[Share, ...], ByName(complete=False), sums_to_one]  # stages left out have 0
Rows = Annotated[tuple[Row, ...], ByName()]
Durations = Annotated[tuple[Share, ...], Range(low=1), _are_durations]  # of bouts of 1, 2, ... epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """A cohort that the profile was not made for."""

    cohort: Text
    aliases: tuple[Text, ...] = ()
    action: Literal["warn", "refuse"] = "warn"
    reason: Text
    clock: bool = True  # whether the clock runs for this cohort

    def concerns(self, wanted: Sequence[str]) -> bool:
        """Whether the name or an alias is among the words."""
        return any(_contains(wanted, words_of(name)) for name in (self.cohort, *self.aliases))

    def to_document(self) -> dict[str, Any]:
        """Return all keys, also those that have their default."""
        return documents.plain_fields(self, defaults=True)


@dataclass(frozen=True, slots=True)
class RarePair:
    """A switch that is discouraged, and the probability that replaces the counted one."""

    source: str
    target: str
    probability: float = math.nan  # until the profile fills in its `rare_probability`

    @classmethod
    def read_document(cls, value: object, where: str) -> RarePair:
        """Return the pair from [from, to] or [from, to, probability]."""
        is_triple = isinstance(value, list | tuple) and len(value) == 3
        return cls(*documents.read(tuple[str, str, Share] if is_triple else tuple[str, str], value, where))


@dataclass(frozen=True, slots=True)
class FlipFlop:
    """The cost of a switch to a stage seen within the last ``window_epochs`` epochs; 0 nats is off."""

    penalty_nats: Weight = 0.0
    window_epochs: Annotated[int, Range(2, 60)] = 5
    method: Literal["greedy", "exact"] = "exact"

    @property
    def is_greedy(self) -> bool:
        """Whether there is a cost, by the paper's greedy pass over each path's own past."""
        return self.penalty_nats > 0 and self.method == "greedy"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Correction of a stager's confidence: temperature, then one bias per stage in nats."""

    temperature: Annotated[float, Range(0.01, 100)] = 1.0
    biases: Annotated[tuple[Annotated[float, Range(-1000, 1000)], ...], ByName(complete=False)] | None = None


Curve = Annotated[tuple[Annotated[float, Range(-100, 100)], ...], Range(low=2)]


@dataclass(frozen=True, slots=True)
class Clock:
    """Evidence for each stage from the time since sleep onset.

    ``curves`` hold, per stage, the log of the experts' share at that time relative to their share of the
    whole night: a value every ``step_minutes`` from sleep onset on, straight lines in between and 0 beyond.
    """

    curves: Annotated[Mapping[str, Curve], ByName(complete=False), Range(low=1)]
    weight: Annotated[float, Range(above=0, high=10)] = 1.0
    step_minutes: Annotated[float, Range(above=0, high=60)] = 5.0
    spare_minutes: Positive = 8.0  # bouts of the stager this long, but for single epochs, lose nothing
    restart_wake_minutes: Positive = 60.0  # of unbroken wake, after which the time starts again

    def __post_init__(self) -> None:
        """Check that the curves are of one length."""
        lengths = {len(curve) for curve in self.curves.values()}
        if len(lengths) != 1:
            found = " and ".join(map(str, sorted(lengths)))
            raise InputError(f"curves have {found} values, expected one length.")

    @property
    def horizon_minutes(self) -> float:
        """Minutes from sleep onset to the end of the curves."""
        return self.step_minutes * (len(next(iter(self.curves.values()))) - 1)

    def describe(self) -> str:
        """Say in one line what it does to a recording."""
        stages = ", ".join(self.curves)
        return f"weighs {stages} by the time since sleep onset, in its first {self.horizon_minutes:g} min"


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorRules:
    """How far a stager may be wrong in the same way all night, for draws and posteriors."""

    # each draw has an offset per stage, normal with this SD in nats and the same in every epoch
    stage_sd: Annotated[Mapping[str, Annotated[float, Range(0, 10)]], ByName()]
    weight: Annotated[float, Range(above=0, high=1000)]  # of transitions
    weight_sd: Annotated[float, Range(0, 10)] = 0.0  # of its logarithm, between draws
    floor: Annotated[float, Range(0, 0.5)] = 0.0  # probabilities below it count as that
    presleep_stay: Annotated[float, Range(above=0, high=0.9999)]  # probability of one more epoch of wake
    sol_factor: Annotated[float, Range(1, 10)] = 1.0  # by which the interval of SOL is widened
    # share of nights with the expert in the 90 % interval, by kind of night and statistic
    coverage: Annotated[Mapping[str, Mapping[str, Share]], _are_kinds_of_night] | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingRules:
    """The transition weight of a recording in progress, where no rule can see the whole night."""

    transition_weight: Weight  # for a stager about which nothing is known
    flickering: Weight | None = None  # for one whose median night is more fragmented than the rule's bound
    source: str = ""

    def weight_for(self, flickers: bool | None) -> float:
        """Return the weight for a stager that flickers, does not, or (None) is unknown."""
        if flickers is False:
            return 0.0
        return self.flickering if flickers and self.flickering is not None else self.transition_weight


@dataclass(frozen=True, slots=True)
class LabelShares:
    """What experts say where a stager says each stage, for stagers that give labels alone."""

    shares: Rows | None = None  # typical of several stagers; rows by stage said
    own: Rows | None = None  # counted on scored nights of the profile's stager
    source: str = ""
    refused: str = ""  # why the profile takes no labels of other stagers

    def __post_init__(self) -> None:
        """Check that there are shares or the reason why not."""
        if (self.shares is None) != bool(self.refused):
            raise InputError("expected either shares or refused, the reason why there are none.")


@dataclass(frozen=True, slots=True)
class Band:
    """Range of an indicator over expert scorings."""

    low: float
    high: float
    source: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        """Check the order."""
        if self.low > self.high:
            raise InputError(f"low is {self.low:g}, above high, {self.high:g}.")


@dataclass(frozen=True, slots=True)
class Scale:
    """Where expert nights lie on the transformed scale of an indicator, on which they are nearly normal."""

    centre: float
    scale: Positive


@dataclass(frozen=True, slots=True)
class Joint:
    """One number for whether a night looks like expert scoring.

    A night's score is the root mean square of its ``indicators``, each standardised by its `Scale`;
    indicators that do not exist on a night are left out.
    """

    threshold: Positive  # nine of ten expert nights of a cohort that was not counted score no more
    indicators: Annotated[Mapping[str, Scale], Range(low=1)]
    source: str = ""


@dataclass(frozen=True, slots=True)
class ShareRepair:
    """What `tune` did about stage shares that experts' scorings do not show; the biases are the profile's."""

    n_people: Annotated[int, Range(low=1)]
    before: PerStage
    low: PerStage
    high: PerStage
    after: PerStage

    @property
    def outside(self) -> tuple[int, ...]:
        """The stages whose share was outside the range, by index."""
        shares = enumerate(zip(self.before, self.low, self.high, strict=True))
        return tuple(stage for stage, (share, low, high) in shares if not low <= share <= high)

    def describe(self, names: Sequence[str]) -> str:
        """Say by how much each share outside the range was moved."""
        columns = [
            [f"{100 * share:.1f}" for share in c] for c in (self.before, self.after, self.low, self.high)
        ]
        return ", ".join(
            "{} {} to {} % (experts {} to {} %)".format(names[i], *(column[i] for column in columns))
            for i in self.outside
        )


@dataclass(frozen=True, slots=True)
class ExpertShares:
    """Shares of the stages in the sleep period, as experts score people of several cohorts."""

    # by cohort and stage, the mean share over people and its standard deviation between them
    cohorts: Annotated[
        Mapping[str, Annotated[tuple[tuple[Share, AboveZero], ...], ByName()]],
        Range(low=1),
    ]
    source: str = ""
    repair: ShareRepair | None = None  # what `tune` found and did for the profile's stager

    def ranges(self, n_people: int) -> tuple[tuple[float, float], ...]:
        """Return the lowest and highest mean share of each stage over this many people.

        The means of a cohort are normal around its own; the range holds 95 % of those of all cohorts, each
        with equal weight, and is widened by a quarter.
        """
        return tuple(
            _range([(mean, sd / math.sqrt(n_people)) for mean, sd in stage])
            for stage in zip(*self.cohorts.values(), strict=True)
        )


def _range(normals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the widened range of a mixture of normals, given by mean and standard deviation."""
    low, high = _quantile(normals, TAIL), _quantile(normals, 1 - TAIL)
    centre, half = (low + high) / 2, WIDENED * (high - low) / 2
    return max(centre - half, 0.0), min(centre + half, 1.0)


def _quantile(normals: Sequence[tuple[float, float]], share: float) -> float:
    low = min(mean - 10 * sd for mean, sd in normals)
    high = max(mean + 10 * sd for mean, sd in normals)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = sum(1 + math.erf((middle - mean) / (sd * math.sqrt(2))) for mean, sd in normals)
        low, high = (middle, high) if below / (2 * len(normals)) < share else (low, middle)
    return (low + high) / 2


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case."""
    return tuple(re.findall(r"\w+", text.replace("_", " ").casefold()))


def _contains(words: Sequence[str], phrase: Sequence[str]) -> bool:
    starts = range(len(words) - len(phrase) + 1)
    return bool(phrase) and any(all(map(_same_word, words[i:], phrase)) for i in starts)


def _same_word(word: str, other: str) -> bool:
    """Whether two words are equal up to their endings, such as narcoleptics and narcolepsy."""
    pairs = enumerate(zip(word, other, strict=False))
    n_shared = next((i for i, (a, b) in pairs if a != b), min(len(word), len(other)))
    return word == other or (n_shared >= 7 and max(len(word), len(other)) - n_shared <= 4)
