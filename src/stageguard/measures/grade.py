"""Which numbers of a stager are as good as an expert's: its errors in units of one expert's error.

For night i and expert j the reference is the consensus of the *other* experts, once for the stager and once
for expert j, so that neither is judged by itself. With s the statistic of the stager, x that of expert j and
c that of the consensus without j:

    a_ij = |s_i - c_ij|        e_ij = |x_ij - c_ij|        R = sum a_ij / sum e_ij

R is 1 for a stager that could be exchanged for one of the experts. The stager's distances from the consensus
of all would flatter it, since a consensus of five is nearer to everybody than one of four. Nights of one
person are averaged first. Two readings must agree: the ratio of the mean errors, which a few bad nights
decide, and the ratio on a typical night, which they hardly touch.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard import checks, documents
from stageguard.arrays import NAN, ComparedByValue, Floats, Ints
from stageguard.errors import InputError, StageGuardError
from stageguard.files import file_error, json_lines, load_json, write_text_atomic
from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import cohen_kappa, common_scheme
from stageguard.measures.bouts import ScoredNight, contingency, expert_of, hypnogram_before, hypnogram_of
from stageguard.measures.expert_errors import TABLE_EPOCH_SECONDS, expert_errors
from stageguard.measures.experts import consensus, refuse_copies
from stageguard.measures.samples import BlandAltman, bland_altman, mean_of, t_quantile
from stageguard.measures.statistics import AASM, StatisticsOptions
from stageguard.night.align import on_epochs_of, where_scored
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import ALL_BOUTS, STAGE, WITH_INTERVAL, quantity_of
from stageguard.night.stages import StageScheme
from stageguard.storage import location
from stageguard.version import __version__

Verdict = Literal["as an expert", "worse", "not shown"]
Number = float | None  # None where a statistic does not exist
Panel = Sequence[Hypnogram | None]  # a night's scorings, None of an expert who did not score it

CONFIDENCE = 0.90
LIMIT = 1.25  # our choice: a stager with up to this many times an expert's error passes for one
LEAST_SCORERS = 3  # with two, one odd expert decides
LEAST_PEOPLE = 25  # with 10 people, 3 % of stagers with 1.5 times the error pass; with 25, 1 %
MOST_PEOPLE = 10_000  # nobody scores more
# Added to errors before their log is taken: a minute, a count or a quarter of a percent is no difference.
SMALL = {"min": 1.0, "": 1.0, "%": 0.25}
KIND, LAYOUT = "grade", 2  # of the file of a card
NOT_GRADED, NO_VERDICT = "not graded", "no verdict"  # instead of a verdict


class Ratio(NamedTuple):
    """An error in units of an expert's, with its 90 % confidence limits; the upper one may be infinite."""

    value: float
    low: float = NAN
    high: float = NAN


def ratio_of_means(stager: Floats, expert: Floats) -> Ratio:
    """Return sum(stager) / sum(expert) over people (n,), with Fieller's limits; NaN limits of one person.

    They are those r for which mean(stager - r * expert) differs from 0 by at most t standard errors.
    """
    n, a, e = len(stager), float(stager.mean()), float(expert.mean())
    value = a / e if e > 0 else (math.inf if a > 0 else NAN)
    if n < 2:
        return Ratio(value)
    t = t_quantile(0.5 + CONFIDENCE / 2, n - 1)
    covariance = np.cov(stager, expert) * t * t / n
    # the limits solve square * r^2 - 2 * mixed * r + constant = 0
    square, mixed, constant = e * e - covariance[1, 1], a * e - covariance[0, 1], a * a - covariance[0, 0]
    if square <= 0:  # the experts' mean is not surely above 0: any ratio is possible
        return Ratio(value, 0.0, math.inf)
    root = math.sqrt(max(mixed * mixed - square * constant, 0.0))
    return Ratio(value, max((mixed - root) / square, 0.0), (mixed + root) / square)


def typical_ratio(logs: Floats) -> Ratio:
    """Return the ratio of a typical night from people's mean log ratios (n,), with limits by t."""
    n, mean = len(logs), float(logs.mean())
    if n < 2:
        return Ratio(math.exp(mean))
    margin = t_quantile(0.5 + CONFIDENCE / 2, n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
    return Ratio(math.exp(mean), math.exp(mean - margin), math.exp(mean + margin))


def verdict_of(mean: Ratio, typical: Ratio) -> Verdict:
    """Return the verdict of both readings: worse by either one, as an expert only by both."""
    if mean.low > 1 or typical.low > 1:
        return "worse"
    return "as an expert" if mean.high <= LIMIT and typical.high <= LIMIT else "not shown"


def people_needed(stager: Floats, expert: Floats, logs: Floats) -> int | None:
    """Return how many people would show that a stager is as an expert, if means and spreads stay as they are.

    None if no number would. Standard errors fall with the root of the number; that of the ratio of means is
    taken by the delta method.
    """
    n, a, e, typical = len(stager), float(stager.mean()), float(expert.mean()), float(logs.mean())
    if n < 2 or a <= 0 or e <= 0 or max(a / e, math.exp(typical)) >= LIMIT:
        return None
    spreads = float((stager / a - expert / e).std(ddof=1)), float(logs.std(ddof=1))
    room = math.log(LIMIT * e / a), math.log(LIMIT) - typical

    def is_enough(people: int) -> bool:
        t = t_quantile(0.5 + CONFIDENCE / 2, people - 1) / math.sqrt(people)
        return t * spreads[0] <= room[0] and t * spreads[1] <= room[1]

    fewest = max(n, LEAST_PEOPLE - 1) + 1
    found = fewest + bisect_left(range(fewest, MOST_PEOPLE + 1), True, key=is_enough)
    return found if found <= MOST_PEOPLE else None


@dataclass(frozen=True, slots=True)
class PanelValues:
    """One statistic of one night by who scored it."""

    experts: tuple[Number, ...]
    others: tuple[Number, ...]  # of the consensus without each expert; None of a single one
    stager: Number = None
    consensus: Number = None  # of all experts


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedNight:
    """What was measured on one night."""

    id: documents.Text
    person: documents.Text
    scheme: StageScheme  # the coarsest of the stager's and the experts', in which all were measured
    epoch_seconds: documents.Positive
    statistics: Mapping[str, PanelValues]  # by the keys of `stageguard.night.quantities`
    scored_by: tuple[bool, ...]  # which of the experts scored the night
    kappas: tuple[tuple[Number, Number], ...]  # of stager and expert with the consensus without each expert
    files: Mapping[str, Any] = field(default_factory=dict)  # that it was read from: name, SHA-256


@dataclass(frozen=True, slots=True)
class GradeFacts:
    """Whose numbers a card grades."""

    stager: str | None = None  # with its version
    cohort: str | None = None
    profile: str | None = None  # that the nights were decoded with; None if they were not decoded
    profile_sha256: str | None = None
    version: str = __version__


@dataclass(frozen=True, slots=True, eq=False)
class Grade(ComparedByValue):
    """One statistic of a stager, held to the experts."""

    key: str  # of `stageguard.night.quantities`
    mean: Ratio  # error in units of an expert's, by the means; NaN with one expert
    typical: Ratio  # the same on a typical night
    verdict: Verdict | None  # None with fewer than three scorers or 25 people
    n_people: int  # of whom the statistic exists
    people_needed: int | None  # to show that it is as an expert; None if shown, or if no number would
    errs_less_than: int  # experts whose own mean error is larger
    n_experts: int
    stager_error: float  # mean distance from the consensus without one expert
    expert_error: float  # the same of that expert
    against_consensus: BlandAltman  # of all experts, or of the only one
    about: Mapping[str, float] = field(default_factory=dict)  # one expert: error over that of each cohort

    def to_dict(self) -> dict[str, Any]:
        """Return plain types; NaN and infinities are None."""
        limits = self.against_consensus
        values = {name: getattr(self, name) for name in self.__slots__ if name != "key"}
        values |= {
            "bias": (limits.bias, limits.bias_low, limits.bias_high),
            "limits_of_agreement": (limits.low, limits.high),
            "limit_margin": limits.limit_margin,
        }
        del values["against_consensus"]
        return {name: _finite(value) for name, value in values.items()}


@dataclass(frozen=True, eq=False, repr=False)
class GradeCard(ComparedByValue, Mapping[str, Grade]):
    """Which numbers of a stager are as good as an expert's: grades by statistic."""

    nights: tuple[GradedNight, ...]  # what the grades follow from
    scorers: tuple[str, ...]  # the experts
    facts: GradeFacts = field(default_factory=GradeFacts)

    def __post_init__(self) -> None:
        """Refuse nights that cannot be graded together."""
        _check_nights(self.nights, self.scorers)

    @cached_property
    def grades(self) -> Mapping[str, Grade]:
        """The grade of every statistic that some night has."""
        keys = dict.fromkeys(key for night in self.nights for key in night.statistics)
        found = {key: _grade(key, self.nights, self._people, n_scorers=len(self.scorers)) for key in keys}
        return {key: each for key, each in found.items() if each.n_people}

    @property
    def _people(self) -> Ints:
        numbers = {name: i for i, name in enumerate(dict.fromkeys(night.person for night in self.nights))}
        return np.array([numbers[night.person] for night in self.nights])

    def _mean_kappa(self, whose: int) -> float:
        kappas = [mean_of(np.array(night.kappas, dtype=float)[:, whose]) for night in self.nights]
        return float(mean_of(_by_person(np.array(kappas), self._people)))

    @property
    def kappa(self) -> float:
        """The stager's mean kappa over people, with the consensus without one expert or the only one."""
        return self._mean_kappa(0)

    @property
    def expert_kappa(self) -> float:
        """The same of that expert; NaN with one expert."""
        return self._mean_kappa(1)

    def __getitem__(self, key: str) -> Grade:
        """Return the grade of a statistic."""
        return self.grades[key]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the statistics' names."""
        return iter(self.grades)

    def __len__(self) -> int:
        """Return the number of statistics."""
        return len(self.grades)

    def __repr__(self) -> str:
        """Return counts of people, scorers and verdicts."""
        verdicts = Counter(grade.verdict or NO_VERDICT for grade in self.values())
        words = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
        return f"<GradeCard of {self.n_people} people by {len(self.scorers)} scorers: {words}>"

    @property
    def n_people(self) -> int:
        """Number of people."""
        return len({night.person for night in self.nights})

    def mark(self, key: str) -> str:
        """Return how a statistic is marked in tables: its verdict, "no verdict" or "not graded"."""
        return (self[key].verdict or NO_VERDICT) if key in self else NOT_GRADED

    def refuse_other(self, night: ScoredNight, made: GradeFacts | None = None) -> None:
        """Refuse a night that the card does not grade; `made` says who staged and decoded a hypnogram."""
        scored, graded, facts = hypnogram_of(night), self.nights[0], self.facts
        if isinstance(night, Decoding):
            made = GradeFacts(night.stager, profile_sha256=night.profile.sha256)
        sha256, stager = (None, None) if made is None else (made.profile_sha256, made.stager)
        got = "none" if sha256 is None else f"SHA-256 {sha256[:12]}"
        is_decoded_alike = sha256 is not None and sha256 == facts.profile_sha256
        for is_other, what, found, expected in (
            # experts may have scored fewer stages than the profile has, so that the profile alone says which
            (not is_decoded_alike, "stages", " ".join(scored.scheme.names), " ".join(graded.scheme.names)),
            (True, "epochs", f"{scored.epoch_seconds:g} s", f"{graded.epoch_seconds:g} s"),
            (None not in (stager, facts.stager), "stager", stager, facts.stager),
            (sha256 != facts.profile_sha256, "profile", got, facts.profile),
        ):
            if is_other and found != expected:
                raise InputError(f"the card is not of this night: {what} {found}, it grades {expected}.")

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the card, the same however its file is formatted."""
        return str(self.to_dict()["stageguard"]["sha256"])

    def to_dict(self) -> dict[str, Any]:
        """Return the document of a card in plain types: the record with its hash, grades and nights."""
        record = {
            "kind": KIND,
            "layout": LAYOUT,
            **dict.fromkeys(GradeFacts.__slots__),
            **documents.plain(self.facts, defaults=True),
            "scorers": list(self.scorers),
            "n_people": self.n_people,
            "n_nights": len(self.nights),
            "kappa": _finite(self.kappa),
            "expert_kappa": _finite(self.expert_kappa),
        }
        grades = {key: grade.to_dict() for key, grade in self.items()}
        nights = [documents.plain(night, defaults=True) for night in self.nights]
        content = {"stageguard": record, "grades": grades, "nights": nights}
        record["sha256"] = documents.sha256_of(content)
        return content

    @property
    def text(self) -> str:
        """The card as JSON."""
        return json_lines(self.to_dict()) + "\n"

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the card as JSON, which `load` reads and `stageguard verify` checks."""
        write_text_atomic(path, self.text, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> GradeCard:
        """Read a card that `save` wrote; refuse one that was changed since."""
        card, is_as_written = read_card(location(path))
        if not is_as_written:
            raise file_error(location(path), "was changed after it was written. See: stageguard verify.")
        return card


def read_card(path: Path) -> tuple[GradeCard, bool]:
    """Return the card that the nights of a file give, and whether the file has its SHA-256."""
    content = load_json(path)
    record = content.get("stageguard") if isinstance(content, dict) else None
    if not isinstance(record, dict) or (record.get("kind"), record.get("layout")) != (KIND, LAYOUT):
        raise file_error(path, f"is not a grade card of layout {LAYOUT}.")
    sealed = content | {"stageguard": {key: value for key, value in record.items() if key != "sha256"}}
    try:
        nights = documents.read(tuple[GradedNight, ...], content.get("nights"), "nights")
        scorers = documents.read(tuple[str, ...], record.get("scorers"), "scorers")
        facts = documents.read(GradeFacts, {name: record.get(name) for name in GradeFacts.__slots__})
        return GradeCard(nights, scorers, facts), record.get("sha256") == documents.sha256_of(sealed)
    except InputError as error:
        raise file_error(path, f"is not a card that can be read: {error}") from None


def _finite(value: Any) -> Any:
    """Return numbers without NaN and infinities, which are None; tuples as lists."""
    if isinstance(value, tuple):
        return [_finite(item) for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def require_card(value: object, what: str) -> None:
    """Refuse what is not a grade card."""
    if not isinstance(value, GradeCard):
        raise InputError(f"{what} is {checks.shown(value)}, expected a GradeCard, as grade() returns it.")


def _check_nights(nights: Sequence[GradedNight], scorers: Sequence[str]) -> None:
    """Refuse nights that cannot be graded together, or that count twice."""
    if not nights:
        raise InputError("got no night, expected one or more.")
    first, n, seen = nights[0], len(scorers), dict[str, GradedNight]()
    for what, names in (("nights", [night.id for night in nights]), ("experts", list(scorers))):
        if repeated := [name for name in names if names.count(name) > 1]:
            raise InputError(f"two {what} are named {repeated[0]!r}, expected a name for each.")
    for night in nights:
        if (night.scheme.names, night.epoch_seconds) != (first.scheme.names, first.epoch_seconds):
            found = [f"{' '.join(each.scheme.names)} of {each.epoch_seconds:g} s" for each in (first, night)]
            raise InputError(f"{first.id} has {found[0]}, {night.id} {found[1]}, expected the same of all.")
        if sum(night.scored_by) < min(2, n):
            raise InputError(f"one of {n} experts scored {night.id}, expected two or more: leave it out.")
        sleep = night.statistics.get("tst_minutes")
        if sleep is not None and sleep.consensus:  # nights without sleep are alike
            other = seen.setdefault(repr([night.statistics, night.kappas]), night)
            if other.person != night.person:
                both = f"{other.id} and {night.id}"
                raise InputError(f"{both} are the same in every number, expected nights of different people.")


def _by_person(values: Floats, people: Ints) -> Floats:
    """Return the mean of each person's nights (n_people,), NaN left out."""
    exists = ~np.isnan(values)
    totals = np.bincount(people, np.where(exists, values, 0.0))
    n_nights = np.bincount(people, exists)
    return np.asarray(np.where(n_nights > 0, totals / np.maximum(n_nights, 1), NAN))


def _grade(key: str, nights: Sequence[GradedNight], people: Ints, *, n_scorers: int) -> Grade:
    """Grade one statistic over all nights."""
    nothing = PanelValues((None,) * n_scorers, (None,) * n_scorers)
    found = [night.statistics.get(key, nothing) for night in nights]
    own = np.array([values.stager for values in found], dtype=float)
    everyone = np.array([values.consensus for values in found], dtype=float)
    limits, unknown = bland_altman(_by_person(own, people), _by_person(everyone, people)), Ratio(NAN)
    if n_scorers == 1:  # beside the errors between two experts of the table
        errors = _by_person(np.abs(own - everyone), people)
        errors = errors[~np.isnan(errors)]
        error = float(errors.mean()) if len(errors) else NAN
        is_known = nights[0].epoch_seconds == TABLE_EPOCH_SECONDS and len(errors)
        tables = expert_errors(nights[0].scheme.name) if is_known else ()
        about = {table.cohort: error / table.errors[key] for table in tables if table.errors.get(key)}
        return Grade(key, unknown, unknown, None, len(errors), None, 0, 1, error, NAN, limits, about)
    others = np.array([values.others for values in found], dtype=float)  # (n_nights, n_scorers)
    stager = np.abs(own[:, None] - others)
    expert = np.abs(np.array([values.experts for values in found], dtype=float) - others)
    both = ~np.isnan(stager + expert)  # a pair counts for both or for none
    stager, expert = np.where(both, stager, NAN), np.where(both, expert, NAN)
    small = SMALL[quantity_of(key).short_unit]
    logs = np.log(stager + small) - np.log(expert + small)
    a, e, log = (_by_person(mean_of(values), people) for values in (stager, expert, logs))
    exists = ~np.isnan(a)
    a, e, log = a[exists], e[exists], log[exists]
    if not len(a):
        return Grade(key, unknown, unknown, None, 0, None, 0, 0, NAN, NAN, limits)
    mean, typical = ratio_of_means(a, e), typical_ratio(log)
    n_well_scored = len(set(people[both.sum(axis=1) >= LEAST_SCORERS].tolist()))
    verdict = verdict_of(mean, typical) if n_well_scored >= LEAST_PEOPLE else None
    is_open = verdict == "not shown" or (verdict is None and n_scorers >= LEAST_SCORERS)
    needed = people_needed(a, e, log) if is_open else None
    of_stager, of_experts = mean_of(stager, axis=0), mean_of(expert, axis=0)  # (n_scorers,)
    n_worse, n_experts = np.count_nonzero(of_stager < of_experts), np.count_nonzero(~np.isnan(of_experts))
    counts = (len(a), needed, int(n_worse), int(n_experts))
    return Grade(key, mean, typical, verdict, *counts, float(a.mean()), float(e.mean()), limits)


def grade(
    experts: Sequence[Hypnogram] | Sequence[Panel],
    nights: Sequence[ScoredNight],
    *,
    subjects: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    scorers: Sequence[str] | None = None,
    stager: str | None = None,
    cohort: str | None = None,
) -> GradeCard:
    """Hold a stager's sleep statistics to experts who scored the same nights.

    Parameters
    ----------
    experts : sequence of sequence of Hypnogram, or sequence of Hypnogram
        For every night the scorings of the same epochs, the experts always in the same order, None where one
        did not score. Or one scoring of each night.
    nights : sequence of Hypnogram or Decoding
        The stager's nights.
    subjects : sequence of str, optional
        Who slept each night; nights of one subject count once. Default: everybody slept once.
    ids, scorers : sequence of str, optional
        Names of the nights and of the experts.
    stager, cohort : str, optional
        The stager with its version and channels, and whom the nights are of. Default: as in the decodings.

    Returns
    -------
    GradeCard
        Verdicts need three scorers on 25 people. With one scorer, errors are compared with those between two
        experts of the shipped table, without a verdict.

    Raises
    ------
    InputError
        Nights and experts do not belong together or are swapped.

    Examples
    --------
    >>> import stageguard as sg
    >>> experts = [sg.read_hypnogram(list(stages)) for stages in ("WNNNRR", "WWNNRR", "WWWWNR")]
    >>> card = sg.grade([experts], [sg.read_hypnogram(list("WWWNRR"))])
    >>> card["tst_minutes"].mean.value, card["tst_minutes"].verdict
    (1.0, None)
    """
    panels = _panels(experts, nights)
    names = _texts(ids, "ids", [f"night {number}" for number in range(1, len(nights) + 1)])
    persons, who = _texts(subjects, "subjects", names), _texts(scorers, "scorers", _scorers(panels))
    decoded = [night for night in nights if isinstance(night, Decoding)]
    if decoded and len(decoded) < len(nights):
        raise InputError(f"{len(decoded)} of {len(nights)} nights are decoded, expected all or none.")
    facts = {
        "stager": one_of("stager", [night.stager for night in decoded]) if stager is None else stager,
        "cohort": one_of("cohort", [night.cohort for night in decoded]) if cohort is None else cohort,
        "profile": one_of("profile", [night.profile.name for night in decoded]),
        "profile_sha256": one_of("profile", [night.profile.sha256 for night in decoded]),
    }
    measured = []
    for name, person, night, panel in zip(names, persons, nights, panels, strict=True):
        try:
            before = hypnogram_before(night) if isinstance(night, Decoding) else None
            refuse_copies(panel, hypnogram_of(night), before)
            measured.append(measure_panel(name, person, night, panel))
        except StageGuardError as error:
            raise InputError(f"{name}: {error}") from None
    return GradeCard(tuple(measured), tuple(who), documents.read(GradeFacts, facts))


def measure_panel(
    name: str, person: str, night: ScoredNight, panel: Panel, options: StatisticsOptions = AASM
) -> GradedNight:
    """Measure one night by the stager, the experts and their consensus."""
    scored = hypnogram_of(night)
    given = [None if each is None else on_epochs_of(scored, hypnogram_of(each)) for each in panel]
    scheme = scored.scheme
    for scoring in given:
        scheme = scheme if scoring is None else common_scheme(scheme, scoring.scheme)
    scorings = [None if each is None else each.merge(scheme) for each in given]
    everyone = _consensus(scorings)
    if everyone is None:
        raise InputError("no expert scored it, expected one or more.")
    own = where_scored(everyone, scored.merge(scheme))  # epochs that no expert scored say nothing of it
    if not np.any(own.labels >= 0):
        raise InputError("no epoch has a stage both of the stager and of an expert, expected one or more.")
    others = [
        None if each is None else _consensus([*scorings[:j], *scorings[j + 1 :]])
        for j, each in enumerate(scorings)
    ]
    by_stager, by_everyone = graded_values(own, options), graded_values(everyone, options)
    by_expert, by_others = (
        [{} if each is None else graded_values(each, options) for each in part] for part in (scorings, others)
    )
    statistics = {}
    for key, value in by_stager.items():
        experts, rest = (tuple(values.get(key) for values in part) for part in (by_expert, by_others))
        statistics[key] = PanelValues(experts, rest, value, by_everyone[key])
    kappas = tuple(
        (None, None) if each is None else (_kappa(other or everyone, own), _kappa(other, each))
        for each, other in zip(scorings, others, strict=True)
    )
    return GradedNight(
        id=name,
        person=person,
        scheme=scheme,
        epoch_seconds=scored.epoch_seconds,
        statistics=statistics,
        scored_by=tuple(each is not None for each in scorings),
        kappas=kappas,
    )


def _consensus(scorings: Panel) -> Hypnogram | None:
    """Return the consensus; of one scoring itself, of none None."""
    present = [scoring for scoring in scorings if scoring is not None]
    return consensus(present) if len(present) > 1 else next(iter(present), None)


def _kappa(reference: Hypnogram | None, scoring: Hypnogram) -> Number:
    if reference is None:
        return None
    kappa = cohen_kappa(contingency(reference.labels, scoring.labels, reference.scheme.n_stages))
    return None if math.isnan(kappa) else kappa


def graded_values(night: Hypnogram, options: StatisticsOptions = AASM) -> dict[str, Number]:
    """Return the statistics that are graded; sleep or REM that never comes counts as coming at the end.

    On a night without sleep, whatever else does not exist counts as 0.
    """
    statistics, scheme = options.measure(night), night.scheme
    values: dict[str, float] = {}
    for quantity in WITH_INTERVAL:
        value, is_of_rem = float(getattr(statistics, quantity.key)), {"REM", "REM bout"} & {*quantity.needs}
        may_come = quantity.is_latency and statistics.has_bedtime and sum(statistics.stage_epochs) > 0
        may_come &= scheme.wake is not None and (scheme.rem is not None or not is_of_rem)
        values[quantity.key] = statistics.tib_minutes if math.isnan(value) and may_come else value
    values[ALL_BOUTS.key] = float(sum(statistics.bouts.values()))
    asleep = [name for name in scheme.names if name != scheme.wake]
    for quantity in STAGE:
        # minutes of wake follow from those of sleep, and so do those of the only stage of sleep
        stages = scheme.names if quantity.key == "bouts" else asleep if len(asleep) > 1 else ()
        by_stage = getattr(statistics, quantity.key)
        values |= {f"{quantity.key}_{stage}": float(by_stage[stage]) for stage in stages}
    # without sleep there is none to be disturbed, and that may be an error
    absent = 0.0 if statistics.tst_minutes == 0 else None
    return {key: absent if math.isnan(value) else value for key, value in values.items()}


def _panels(experts: Any, nights: Any) -> list[Panel]:
    """Return a list of scorings per night, all of one length."""
    for value, what in ((experts, "experts"), (nights, "nights")):
        if not isinstance(value, list | tuple):
            raise InputError(f"{what} are {checks.shown(value)}, expected a list with an entry per night.")
    if len(nights) != len(experts) or not nights:
        raise InputError(f"got {len(nights)} nights and experts of {len(experts)}, expected as many of both.")
    panels: list[Panel] = []
    for number, given in enumerate(experts, start=1):
        panel = given if isinstance(given, list | tuple) and given else [given]
        what = f"night {number}: the expert"
        panels.append([None if each is None else expert_of(each, what) for each in panel])
    lengths = {len(panel) for panel in panels}
    if len(lengths) > 1:
        found = f"nights have {min(lengths)} to {max(lengths)} scorings"
        raise InputError(f"{found}, expected the same experts on every night, None where one did not score.")
    return panels


def _texts(values: Sequence[str] | None, what: str, otherwise: Sequence[str]) -> Sequence[str]:
    """Return a text for each night or expert, by default these."""
    if values is None:
        return otherwise
    texts: Sequence[str] = documents.read(tuple[documents.Text, ...], values, what)
    if len(texts) != len(otherwise):
        raise InputError(f"got {len(texts)} {what}, expected {len(otherwise)}.")
    return texts


def _scorers(panels: Sequence[Panel]) -> list[str]:
    """Return the experts' names, where every night says the same ones; else their numbers."""
    columns = [{each.scorer for each in column if each is not None} for column in zip(*panels, strict=True)]
    names = [next(iter(column)) or "" for column in columns if len(column) == 1]
    is_named = len(set(names) - {""}) == len(columns)
    return names if is_named else [f"expert {number}" for number in range(1, len(columns) + 1)]


def one_of(what: str, values: Sequence[str | None]) -> str | None:
    """Return the one value that all nights have, None without any; refuse several."""
    found = list(dict.fromkeys(values))
    if len(found) > 1:
        shown = " and ".join(repr(value) for value in found[:2])
        raise InputError(f"nights are of more than one {what} ({shown}), expected one card for each.")
    return found[0] if found else None
