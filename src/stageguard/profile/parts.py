"""The parts of a profile: small types, and how their values are read from a document and written back.

A reader gets the document's value, its key and the stages; it returns the field's value or raises InputError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal

from stageguard import checks, schema
from stageguard.arrays import DAY_SECONDS, SUM_TOLERANCE
from stageguard.errors import InputError, did_you_mean
from stageguard.night.quantities import indicators_of
from stageguard.night.stages import SCHEMES, StageScheme, canonical_name

Reader = Callable[[Any, str, StageScheme], Any]

# The stager of a stream in words, by whether it is known to flicker.
STREAMED = {
    None: "an unknown stager",
    True: "a stager that flickers",
    False: "a stager that does not flicker",
}
KINDS_OF_NIGHT = ("good", "flickering", "labels", "unlike")  # whose coverage is measured apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """A cohort that the profile was not made for; a plain sentence has an empty ``cohort``."""

    cohort: str = schema.text()
    aliases: tuple[str, ...] = schema.words()
    action: Literal["warn", "refuse"] = schema.choice("warn", "warn", "refuse")
    reason: str = schema.text()
    clock: bool = schema.flag(True)  # whether the clock runs for this cohort

    def concerns(self, wanted: tuple[str, ...]) -> bool:
        """Whether the name or an alias is among the words, or the words are in the plain sentence."""
        if not wanted:
            return False
        if not self.cohort:
            return _contains(words_of(self.reason), wanted)
        return any(_contains(wanted, words_of(name)) for name in (self.cohort, *self.aliases))


@dataclass(frozen=True, slots=True)
class RarePair:
    """A switch that is discouraged, and the probability that replaces the counted one."""

    source: str
    target: str
    probability: float


@dataclass(frozen=True, slots=True)
class FlipFlop:
    """The cost of a switch to a stage seen within the last ``window_epochs`` epochs; 0 nats is off."""

    penalty_nats: float = schema.number(0.0, low=0, high=1000)
    window_epochs: int = schema.whole(5, low=2, high=60)
    method: Literal["greedy", "exact"] = schema.choice("exact", "greedy", "exact")

    @property
    def is_greedy(self) -> bool:
        """Whether there is a cost, by the paper's greedy pass over each path's own past."""
        return self.penalty_nats > 0 and self.method == "greedy"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Correction of a stager's confidence: temperature, then one bias per stage in nats."""

    temperature: float = schema.number(1.0, low=0.01, high=100)
    biases: tuple[float, ...] | None = schema.declare(None, lambda value, where: value)  # read_calibration


@dataclass(frozen=True, slots=True)
class Clock:
    """Evidence for each stage from the time since sleep onset.

    ``curves`` hold, per stage, the log of the experts' share at that time relative to their share of the
    whole night: a value every ``step_minutes`` from sleep onset on, straight lines in between and 0 beyond.
    A bout of the stager that lasts ``spare_minutes``, single epochs of other stages included, loses nothing.
    Unbroken wake of ``restart_wake_minutes`` restarts the time.
    """

    curves: Mapping[str, tuple[float, ...]] = schema.declare(
        schema.REQUIRED, lambda value, where: value
    )  # read_clock
    weight: float = schema.number(1.0, positive=True, high=10)
    step_minutes: float = schema.number(5.0, positive=True, high=60)
    spare_minutes: float = schema.number(8.0, positive=True, high=inf)
    restart_wake_minutes: float = schema.number(60.0, positive=True, high=inf)

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
    """How far a stager may be wrong in the same way all night, for draws and posteriors.

    Each draw has an offset per stage, normal with ``stage_sd`` nats and the same in every epoch, and its own
    transition weight, ``weight`` times the exponential of a normal number with ``weight_sd``. Probabilities
    below ``floor`` count as that. Wake before the first sleep lasts for another epoch with ``presleep_stay``.
    The interval of sleep onset latency has its low end divided, its high end multiplied by ``sol_factor``.
    ``coverage`` is the share of nights with the expert in the 90 % interval, by kind of night and statistic.
    """

    stage_sd: Mapping[str, float] = schema.declare(
        schema.REQUIRED, lambda value, where: value
    )  # read_posterior
    weight: float = schema.number(positive=True, high=1000)
    weight_sd: float = schema.number(0.0, low=0, high=10)
    floor: float = schema.number(0.0, low=0, high=0.5)
    presleep_stay: float = schema.number(positive=True, high=0.9999)
    sol_factor: float = schema.number(1.0, low=1, high=10)
    coverage: Mapping[str, Mapping[str, float]] | None = schema.declare(
        None, lambda value, where: value
    )  # read_posterior
    source: str = schema.text("", empty=True)

    def describe(self) -> str:
        """Say in one line how far they let a stager err."""
        spreads = ", ".join(f"{stage} {spread:g}" for stage, spread in self.stage_sd.items())
        return f"the stager may err all night by an offset per stage (SD in nats: {spreads})"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingRules:
    """The transition weight of a recording in progress, where no rule can see the whole night.

    ``transition_weight`` is for a stager about which nothing is known, ``flickering`` for one whose median
    night is more fragmented than the rule's bound. One that is known not to flicker gets 0.
    """

    transition_weight: float = schema.number(low=0, high=1000)
    flickering: float | None = schema.number(None, low=0, high=1000)
    source: str = schema.text("", empty=True)

    def weight_for(self, flickers: bool | None) -> float:
        """Return the weight for a stager that flickers, does not, or (None) is unknown."""
        if flickers is False:
            return 0.0
        return self.flickering if flickers and self.flickering is not None else self.transition_weight

    def describe(self) -> str:
        """Say in one line which weights it has."""
        flickering = "" if self.flickering is None else f", {self.flickering:g} for a stager that flickers"
        return f"transition weight {self.transition_weight:g} while the recording runs{flickering}"


Shares = tuple[tuple[float, ...], ...]  # rows by stage said, columns by the expert's stage


@dataclass(frozen=True, slots=True)
class LabelShares:
    """What experts say where a stager says each stage, for stagers that give labels alone.

    ``shares`` are typical of several stagers; ``own`` were counted on scored nights of the profile's stager.
    ``refused`` says why the profile takes no labels of other stagers.
    """

    shares: Shares | None = schema.declare(None, lambda value, where: value)  # read_labels
    own: Shares | None = schema.declare(None, lambda value, where: value)  # read_labels
    source: str = schema.text("", empty=True)
    refused: str = schema.text("", empty=True)


@dataclass(frozen=True, slots=True)
class Band:
    """Range of an indicator over expert scorings."""

    low: float = schema.number()
    high: float = schema.number()
    source: str = schema.text("", empty=True)
    unit: str = schema.text("", empty=True)


@dataclass(frozen=True, slots=True)
class Scale:
    """Where expert nights lie on the transformed scale of an indicator, on which they are nearly normal."""

    centre: float = schema.number()
    scale: float = schema.number(positive=True)


@dataclass(frozen=True, slots=True)
class Joint:
    """One number for whether a night looks like expert scoring.

    A night's score is the root mean square of its ``indicators``, each standardised by its `Scale`;
    indicators that do not exist on a night are left out. Nine of ten expert nights of a cohort that was not
    counted score no more than ``threshold``.
    """

    threshold: float = schema.number(positive=True)
    indicators: Mapping[str, Scale] = schema.declare(
        schema.REQUIRED, lambda value, where: value
    )  # read_joint
    source: str = schema.text("", empty=True)


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case."""
    return tuple(re.findall(r"\w+", text.replace("_", " ").casefold()))


def _contains(words: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    starts = range(len(words) - len(phrase) + 1)
    return bool(phrase) and any(all(map(_same_word, words[i:], phrase)) for i in starts)


def _same_word(word: str, other: str) -> bool:
    """Whether two words are equal up to their endings, such as narcoleptics and narcolepsy."""
    shared = next(
        (i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other))
    )
    return word == other or (shared >= 7 and max(len(word), len(other)) - shared <= 4)


def read_scheme(given: Mapping[str, Any]) -> StageScheme:
    """Return the scheme: a standard one by its name, or one of the document's own stage names."""
    if "scheme" in given:
        return SCHEMES[checks.choice(given["scheme"], "scheme", SCHEMES)]
    names = checks.items(given["stages"], "stages", lambda name, where: name)
    try:
        return StageScheme.custom(names, given.get("wake"), given.get("rem"))
    except InputError as error:
        raise InputError(f"stages: {error}") from None


def is_standard(scheme: StageScheme) -> bool:
    """Whether a scheme is one of the standard schemes."""
    return SCHEMES.get(scheme.name) == scheme


def by_check(check: Callable[..., Any], *arguments: Any, **options: Any) -> Reader:
    """Return a reader that uses a check which needs no scheme."""
    return lambda value, where, scheme: check(value, where, *arguments, **options)


def read_clock(value: object, where: str, scheme: StageScheme) -> Clock:
    """Return the clock, with its curves by stage."""
    if "bout_nats" in checks.mapping(value, where):
        raise InputError(
            f"{where}.bout_nats is no key any more: bouts that last {where}.spare_minutes (8) lose nothing. "
            "Remove it."
        )
    clock = schema.read_table(Clock, value, where)
    if scheme.wake is None:
        raise InputError(f"{where} counts from sleep onset, expected a stage that is wake. Name it: wake.")
    curves = per_stage(read_curve)(clock.curves, f"{where}.curves", scheme)
    lengths = {len(curve) for curve in curves.values()}
    if len(lengths) != 1:
        got = "is empty" if not lengths else f"have {' and '.join(map(str, sorted(lengths)))} values"
        raise InputError(f"{where}.curves {got}, expected one curve or more, all of one length.")
    return replace(clock, curves=curves)


def read_posterior(value: object, where: str, scheme: StageScheme) -> PosteriorRules:
    """Return the spread of a stager's errors between nights, with one standard deviation per stage."""
    rules = schema.read_table(PosteriorRules, value, where)
    if scheme.wake is None:
        raise InputError(f"{where} knows wake before sleep, expected a stage that is wake. Name it: wake.")
    spreads = _stage_mapping(rules.stage_sd, f"{where}.stage_sd", scheme, complete=True)
    stage_sd = {
        stage: checks.number(spreads[stage], f"{where}.stage_sd.{stage}", low=0, high=10)
        for stage in scheme.names
    }
    inside = f"{where}.coverage"
    coverage = {}
    for kind, table in checks.mapping(rules.coverage or {}, inside, KINDS_OF_NIGHT).items():
        shares = checks.mapping(table, f"{inside}.{kind}")
        read = {name: probability(share, f"{inside}.{kind}.{name}") for name, share in shares.items()}
        coverage[kind] = MappingProxyType(read)
    return replace(rules, stage_sd=MappingProxyType(stage_sd), coverage=MappingProxyType(coverage) or None)


def read_curve(value: object, where: str) -> tuple[float, ...]:
    """Return two or more values over time, in nats."""
    curve = checks.items(value, where, lambda nats, at: checks.number(nats, at, low=-100, high=100))
    if len(curve) < 2:
        raise InputError(f"{where} has {len(curve)} values, expected two or more over time.")
    return curve


def read_prior(value: object, where: str, scheme: StageScheme) -> tuple[float, ...]:
    """Return the share of each stage."""
    table = _stage_mapping(value, where, scheme, complete=True)
    prior = tuple(
        checks.number(table[name], f"{where}.{name}", positive=True, high=1) for name in scheme.names
    )
    _check_sum(prior, where)
    return prior


def read_pairs(value: object, where: str, scheme: StageScheme, *, with_probability: bool) -> tuple[Any, ...]:
    """Return pairs of stages, each with or without a probability."""
    pairs = checks.items(
        value, where, lambda item, at: _pair(item, at, scheme, lengths=(2, 3) if with_probability else (2,))
    )
    ends = [pair[:2] for pair in pairs]
    for index, (source, target) in enumerate(ends):
        if (source, target) in ends[:index]:
            raise InputError(f"{where} lists {source} -> {target} twice. Keep one of them.")
    return pairs


def _pair(item: object, where: str, scheme: StageScheme, *, lengths: Sequence[int]) -> tuple[Any, ...]:
    values = checks.items(item, where, lambda value, at: value)
    if len(values) not in lengths:
        shape = "[from, to] or [from, to, probability]" if 3 in lengths else "[from, to]"
        raise InputError(f"{where} is {checks.shown(item)}, expected {shape}.")
    for stage in values[:2]:
        _check_stage(stage, where, scheme)
    if values[0] == values[1]:
        raise InputError(f"{where} goes from {values[0]!r} to itself, expected two different stages.")
    return (*values[:2], *(probability(share, where) for share in values[2:]))


def read_transitions(value: object, where: str, scheme: StageScheme) -> tuple[tuple[float, ...], ...]:
    """Return the matrix of transitions, rows and columns in the scheme's order."""
    rows = _stage_mapping(value, where, scheme, complete=True)
    matrix = []
    for source in scheme.names:
        inside = f"{where}.{source}"
        row = _stage_mapping(rows[source], inside, scheme)
        matrix.append(tuple(probability(row.get(to, 0.0), f"{inside}.{to}") for to in scheme.names))
        _check_sum(matrix[-1], inside)
    return tuple(matrix)


def read_calibration(value: object, where: str, scheme: StageScheme) -> Calibration:
    """Return temperature and biases, the biases in the scheme's order."""
    calibration = schema.read_table(Calibration, value, where)
    if calibration.biases is None:
        return calibration
    table = _stage_mapping(calibration.biases, f"{where}.biases", scheme)
    biases = tuple(
        checks.number(table.get(name, 0.0), f"{where}.biases.{name}", low=-1000, high=1000)
        for name in scheme.names
    )
    return Calibration(calibration.temperature, biases)


def write_calibration(calibration: Calibration, scheme: StageScheme) -> dict[str, Any]:
    """Return the calibration without defaults, with biases by stage."""
    document: dict[str, Any] = schema.plain_table(calibration, defaults=False)
    if calibration.biases is not None:
        document["biases"] = by_stage(calibration.biases, scheme)
    return document


def read_labels(value: object, where: str, scheme: StageScheme) -> LabelShares:
    """Return the shares by stage said; the stage that is said is the likeliest of its row."""
    labels = schema.read_table(LabelShares, value, where)
    tables: dict[str, Any] = {}
    for key in ("shares", "own"):
        table = getattr(labels, key)
        if table is None:
            continue
        rows = tables[key] = read_transitions(table, f"{where}.{key}", scheme)
        for stage, row in enumerate(rows):
            if any(share >= row[stage] for other, share in enumerate(row) if other != stage):
                name = scheme.names[stage]
                raise InputError(
                    f"{where}.{key}.{name} has {max(row):g} for another stage and {row[stage]:g} for {name}, "
                    "expected most for the stage that is said."
                )
    if ("shares" in tables) == bool(labels.refused):
        raise InputError(f"{where} needs either shares or refused, the reason why there are none.")
    return replace(labels, **tables)


def write_labels(labels: LabelShares, scheme: StageScheme) -> dict[str, Any]:
    """Return the shares without defaults, by stage said and the expert's stage."""
    document: dict[str, Any] = schema.plain_table(labels, defaults=False)
    for key in ("shares", "own"):
        if document.get(key) is not None:
            document[key] = write_rows(document[key], scheme)
    return document


def write_rows(rows: Sequence[Sequence[float]], scheme: StageScheme) -> dict[str, Any]:
    """Return a matrix by the names of its rows and columns."""
    return by_stage([by_stage(row, scheme) for row in rows], scheme)


def read_durations(value: object, where: str) -> tuple[float, ...]:
    """Return the probabilities of bouts of 1, 2, ... epochs."""
    table = checks.items(value, where, probability)
    if not table:
        raise InputError(f"{where} is empty, expected probabilities for 1, 2, ... epochs.")
    if sum(table) > 1 + 1e-9:
        raise InputError(f"{where} sums to {sum(table):.6g}, expected at most 1; the rest is the tail.")
    if table[-1] == 0:
        raise InputError(
            f"{where} ends in 0, expected a last entry above 0: its hazard carries on as the tail."
        )
    return table


def read_bands(value: object, where: str, scheme: StageScheme) -> Mapping[str, Band]:
    """Return the experts' range of each indicator."""
    table = checks.mapping(value, where, indicators_of(scheme.names))
    bands = {}
    for name, item in table.items():
        band = bands[name] = schema.read_table(Band, item, f"{where}.{name}")
        if band.low > band.high:
            raise InputError(f"{where}.{name} has low {band.low:g} above high {band.high:g}. Swap them.")
    return MappingProxyType(bands)


def read_joint(value: object, where: str, scheme: StageScheme) -> Joint:
    """Return the joint score, with the scale of each indicator by its name."""
    joint = schema.read_table(Joint, value, where)
    inside = f"{where}.indicators"
    table = checks.mapping(joint.indicators, inside, indicators_of(scheme.names))
    if not table:
        raise InputError(f"{inside} is empty, expected the centre and scale of one indicator or more.")
    scales = {name: schema.read_table(Scale, item, f"{inside}.{name}") for name, item in table.items()}
    return replace(joint, indicators=MappingProxyType(scales))


def read_intervals(value: object, where: str, scheme: StageScheme) -> Mapping[str, Any]:
    """Return the errors on scored nights; entries that are used as numbers must be numbers."""
    intervals = read_tree(value, where, scheme)
    for name, errors in checks.mapping(intervals.get("errors", {}), f"{where}.errors").items():
        checks.items(errors, f"{where}.errors.{name}", _read_errors_of_person)
    for key in ("coverage", "model_coverage"):
        for name, share in checks.mapping(intervals.get(key, {}), f"{where}.{key}").items():
            probability(share, f"{where}.{key}.{name}")
    for key, high in (("n_nights", inf), ("n_subjects", inf), ("min_first_rem_seconds", DAY_SECONDS)):
        checks.number(intervals.get(key, 0), f"{where}.{key}", low=0.0, high=high)
    probability(intervals.get("level_of_coverage", 0.9), f"{where}.level_of_coverage")
    return intervals


def _read_errors_of_person(value: object, where: str) -> tuple[float, ...]:
    """Return the errors of one person's nights."""
    errors = checks.items(value, where, checks.number)
    if not errors:
        raise InputError(f"{where} is empty, expected the errors of one person's nights.")
    return errors


def read_cautions(value: object, where: str, scheme: StageScheme) -> tuple[Caution, ...]:
    """Return the cautions; a plain sentence is a caution without a cohort."""
    if isinstance(value, str):
        return (Caution(cohort="", reason=checks.text(value, where)),) if value else ()
    return checks.items(value, where, lambda item, at: schema.read_table(Caution, item, at))


def write_cautions(cautions: Sequence[Caution], scheme: StageScheme) -> str | list[dict[str, Any]]:
    """Return the sentence, or a table per cohort."""
    if cautions and not cautions[0].cohort:
        return cautions[0].reason
    return schema.plain_table(cautions) or ""


def read_tree(value: object, where: str, scheme: StageScheme) -> Mapping[str, Any]:
    """Return a read-only table of free form, made of plain TOML types only."""
    frozen: Mapping[str, Any] = _frozen(checks.mapping(value, where), where)
    return frozen


def _frozen(value: object, where: str) -> Any:
    if isinstance(value, str):
        return checks.text(value, where)
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return checks.number(value, where)
    if isinstance(value, list | tuple):
        return checks.items(value, where, _frozen)
    if isinstance(value, Mapping):
        checked = checks.mapping(value, where)
        return MappingProxyType({key: _frozen(item, f"{where}.{key}") for key, item in checked.items()})
    raise InputError(
        f"{where} is {checks.shown(value)}, expected text, a number, true, false, a list or a table. "
        "Write it as text, in quotes."
    )


def _stage_mapping(
    value: object, where: str, scheme: StageScheme, *, complete: bool = False
) -> Mapping[str, Any]:
    table = checks.mapping(value, where)
    for stage in table:
        _check_stage(stage, where, scheme)
    missing = [name for name in scheme.names if name not in table]
    if complete and missing:
        raise InputError(
            f"{where} lacks stage {missing[0]!r}, expected one entry each for {', '.join(scheme.names)}."
        )
    return table


def per_stage(check: Callable[..., Any], **options: Any) -> Reader:
    """Return a reader of tables that have a value for some of the stages."""

    def read(value: object, where: str, scheme: StageScheme) -> Mapping[str, Any]:
        table = _stage_mapping(value, where, scheme)
        present = [stage for stage in scheme.names if stage in table]
        return MappingProxyType({s: check(table[s], f"{where}.{s}", **options) for s in present})

    return read


def _check_stage(stage: object, where: str, scheme: StageScheme) -> None:
    if isinstance(stage, str) and stage in scheme.names:
        return
    meant = canonical_name(stage) if isinstance(stage, str) else None
    hint = f" Did you mean {meant!r}?" if meant in scheme.names else did_you_mean(str(stage), scheme.names)
    got = f"{where}: {checks.shown(stage)} is not a stage of scheme {scheme.name!r}"
    raise InputError(f"{got}. Known: {', '.join(scheme.names)}.{hint}")


def _check_sum(values: Sequence[float], where: str) -> None:
    if abs(sum(values) - 1) > SUM_TOLERANCE:
        raise InputError(f"{where} sums to {sum(values):.6g}, expected 1 (within {SUM_TOLERANCE:g}).")


def probability(value: object, where: str) -> float:
    """Return a number from 0 to 1."""
    return checks.number(value, where, low=0.0, high=1.0)


def by_stage(values: Sequence[Any], scheme: StageScheme) -> dict[str, Any]:
    """Return values in the scheme's order by the names of its stages."""
    return dict(zip(scheme.names, values, strict=True))
