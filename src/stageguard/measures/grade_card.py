"""A grade card: what was measured on a stager's and experts' nights, the grades that follow, and its file."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, Floats, Ints
from stageguard.errors import InputError, StageGuardError, did_you_mean, record_fault
from stageguard.files import file_error, json_lines, load_json, write_text_atomic
from stageguard.guard.decoding import Decoding
from stageguard.guard.evidence import StagerFeatures
from stageguard.measures.bouts import ScoredNight, hypnogram_of
from stageguard.measures.expert_units import (
    LEAST_PEOPLE,
    LEAST_SCORERS,
    SMALL,
    TABLE_EPOCH_SECONDS,
    Ratio,
    Verdict,
    expert_errors,
    people_needed,
    ratio_of_means,
    typical_ratio,
    verdict_of,
)
from stageguard.measures.samples import BlandAltman, bland_altman
from stageguard.night.quantities import quantity_of
from stageguard.night.stages import StageScheme
from stageguard.schema import plain_table
from stageguard.storage import location
from stageguard.values import ComparedByValue
from stageguard.version import __version__

LAYOUT = 1  # of the file of a card
# The fields of `StagerFeatures` in their order: numbers, and arrays with a dimension, or two, of stages.
FEATURES = ("fragmentation_index", "entropy", "sharpness")
FEATURE_ARRAYS = {"shares": 1, "confidences": 1, "overlaps": 2}
NOT_GRADED, NO_VERDICT = "not graded", "no verdict"  # instead of a verdict
KIND = "grade"  # tells a card from other files with a "stageguard" entry
LARGEST = 1e9  # no statistic is as large


@dataclass(frozen=True, slots=True)
class PanelValues:
    """One statistic of one night by who scored it; NaN where it does not exist."""

    stager: float
    consensus: float  # of all experts
    experts: tuple[float, ...]  # NaN of those who did not score the night
    others: tuple[float, ...]  # of the consensus without each expert; NaN of a single one


@dataclass(frozen=True, slots=True)
class GradedNight:
    """What was measured on one night.

    Attributes
    ----------
    id, person : str
        The name of the night, and who slept.
    scheme : StageScheme
        The coarsest of the stager's and the experts' schemes, in which all were measured.
    epoch_seconds : float
        Epoch length.
    statistics : mapping of str to PanelValues
        By the keys of `stageguard.night.quantities`.
    scored_by : tuple of bool
        Which of the experts scored the night.
    kappas : tuple of (float, float)
        Cohen's kappa with the consensus without each expert, of the stager and of that expert.
    features : StagerFeatures or None
        How the stager's probabilities look, or its labels if it gives no more; None if they are not known.
    files : mapping
        The files it was read from, as `stageguard verify` finds them; empty if it was not read from files.
    """

    id: str
    person: str
    scheme: StageScheme
    epoch_seconds: float
    statistics: Mapping[str, PanelValues]
    scored_by: tuple[bool, ...]
    kappas: tuple[tuple[float, float], ...]
    features: StagerFeatures | None = field(default=None, compare=False)
    files: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Grade(ComparedByValue):
    """One statistic of a stager, held to the experts.

    Attributes
    ----------
    key : str
        The statistic, in the words of `stageguard.night.quantities`.
    mean, typical : Ratio
        Error in units of an expert's: by the means, and on a typical night. NaN with one expert.
    verdict : "as an expert", "worse", "not shown" or None
        None with fewer than three scorers or 25 people.
    n_people : int
        People of whom the statistic exists.
    people_needed : int or None
        How many people would show that it is as an expert, if means and spreads stay. None if it is shown, or
        no number would show it.
    errs_less_than, n_experts : int
        Experts whose own mean error is larger, and how many there are.
    stager_error, expert_error : float
        Mean distance from the consensus without one expert, of the stager and of that expert.
    against_consensus : BlandAltman
        Bias and limits of agreement with the consensus of all experts, or with the only one.
    about : mapping of str to float
        With one expert: the stager's error over that between two experts of each cohort of the shipped table.
    """

    key: str
    mean: Ratio
    typical: Ratio
    verdict: Verdict | None
    n_people: int
    people_needed: int | None
    errs_less_than: int
    n_experts: int
    stager_error: float
    expert_error: float
    against_consensus: BlandAltman
    about: Mapping[str, float] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The unit of the errors: ``min``, ``%``, or nothing for counts."""
        return quantity_of(self.key).short_unit

    def to_dict(self) -> dict[str, Any]:
        """Return plain types; NaN and infinities are None."""
        limits = self.against_consensus
        numbers = {
            "bias": [limits.bias, limits.bias_low, limits.bias_high],
            "limits_of_agreement": [limits.low, limits.high],
            "limit_margin": limits.limit_margin,
        }
        return dict(
            _without_nan(
                {
                    "verdict": self.verdict,
                    "n_people": self.n_people,
                    "people_needed": self.people_needed,
                    "mean": [self.mean.value, self.mean.low, self.mean.high],
                    "typical": [self.typical.value, self.typical.low, self.typical.high],
                    "errs_less_than": self.errs_less_than,
                    "n_experts": self.n_experts,
                    "stager_error": self.stager_error,
                    "expert_error": self.expert_error,
                    **numbers,
                    "about": dict(self.about),
                }
            )
        )


@dataclass(frozen=True, slots=True)
class GradeFacts:
    """Whose numbers a card grades.

    Attributes
    ----------
    stager, cohort : str or None
        The stager with its version, and whom the nights are of.
    profile, profile_sha256 : str or None
        The profile that the nights were decoded with; None if they were not decoded.
    version : str
        Version of this package.
    """

    stager: str | None = None
    cohort: str | None = None
    profile: str | None = None
    profile_sha256: str | None = None
    version: str = __version__


@dataclass(frozen=True, slots=True, eq=False)
class GradeCard(ComparedByValue, Mapping[str, Grade]):
    """Which numbers of a stager are as good as an expert's: grades by statistic.

    Attributes
    ----------
    nights : tuple of GradedNight
        What the grades follow from.
    scorers : tuple of str
        The experts.
    facts : GradeFacts
        Stager, cohort, profile and version.
    reading : mapping
        How the nights' files were read, as `stageguard verify` reads them again; empty without files.
    grades : mapping of str to Grade
        By statistic.
    kappa, expert_kappa : float
        Mean over people of Cohen's kappa with the consensus without one expert, of the stager and of that
        expert; with one expert the stager's kappa with that expert.
    """

    nights: tuple[GradedNight, ...]
    scorers: tuple[str, ...]
    facts: GradeFacts = field(default_factory=GradeFacts)
    reading: Mapping[str, Any] = field(default_factory=dict, repr=False)
    grades: Mapping[str, Grade] = field(init=False)
    kappa: float = field(init=False)
    expert_kappa: float = field(init=False)

    def __post_init__(self) -> None:
        """Grade every statistic that some night has."""
        refuse_repeated([night.id for night in self.nights], "nights")
        refuse_repeated(self.scorers, "experts")
        _check_nights(self.nights, len(self.scorers))
        put, people = object.__setattr__, _rows_of_people(self.nights)
        keys = dict.fromkeys(key for night in self.nights for key in night.statistics)
        found = {key: _grade(key, self.nights, people, n_scorers=len(self.scorers)) for key in keys}
        kappas = np.array([_mean_of(np.array(night.kappas), axis=0) for night in self.nights])
        kappa, expert_kappa = (float(_mean_of(_by_person(column, people))) for column in kappas.T)
        put(self, "grades", MappingProxyType({key: each for key, each in found.items() if each.n_people}))
        put(self, "kappa", kappa)
        put(self, "expert_kappa", expert_kappa)

    def __getitem__(self, key: str) -> Grade:
        """Return the grade of a statistic."""
        try:
            return self.grades[key]
        except KeyError:
            hint = did_you_mean(str(key), self.grades)
            raise KeyError(f"{key!r} is not graded, expected one of {', '.join(self)}.{hint}") from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the statistics' names."""
        return iter(self.grades)

    def __len__(self) -> int:
        """Return the number of statistics."""
        return len(self.grades)

    def __repr__(self) -> str:
        """Return counts of people, scorers and verdicts."""
        verdicts = [grade.verdict for grade in self.values()]
        counts = [f"{verdicts.count(name)} {name}" for name in ("as an expert", "worse", "not shown")]
        words = ", ".join(counts) if any(verdicts) else "no verdict"
        whose = f"{self.n_people} people, {len(self.scorers)} scorers"
        return f"<GradeCard of {len(self)} statistics, {whose}: {words}>"

    def __str__(self) -> str:
        """Return one line per statistic: error in units of an expert's, by the means, and the verdict."""
        lines = [repr(self)]
        for key, grade in self.items():
            ratio, low, high = grade.mean.value, grade.mean.low, grade.mean.high
            shown = f"{ratio:5.2f} ({low:.2f} to {high:.2f})" if len(self.scorers) > 1 else ""
            shown = shown or ", ".join(f"about {each:.2f} by {name}" for name, each in grade.about.items())
            lines.append(f"{key:<30} {shown:<24} {grade.verdict or 'no verdict'}")
        return "\n".join(lines)

    @property
    def n_nights(self) -> int:
        """Number of nights."""
        return len(self.nights)

    @property
    def n_people(self) -> int:
        """Number of people."""
        return len({night.person for night in self.nights})

    def mark(self, key: str) -> str:
        """Return how a statistic is marked in tables: its verdict, "no verdict" or "not graded"."""
        return (self[key].verdict or NO_VERDICT) if key in self else NOT_GRADED

    def refuse_other(
        self, profile_sha256: str | None, scheme: StageScheme, epoch_seconds: float, stager: str | None
    ) -> None:
        """Refuse a night that the card does not grade; a stager that is not said may be the card's.

        Experts may have scored fewer stages than the profile has, so that the profile alone says which.
        """
        own, facts = self.nights[0], self.facts
        is_decoded_alike = profile_sha256 == facts.profile_sha256
        is_other_scheme = scheme.names != own.scheme.names and not (is_decoded_alike and profile_sha256)
        is_other_stager = None not in (stager, facts.stager) and stager != facts.stager
        undecoded = "stages that were not decoded"
        decoded_by = undecoded if profile_sha256 is None else f"a profile of SHA-256 {profile_sha256[:12]}"
        graded = undecoded if facts.profile is None else f"profile {facts.profile!r}"
        for is_other, what, expected in (
            (is_other_scheme, ", ".join(scheme.names), ", ".join(own.scheme.names)),
            (epoch_seconds != own.epoch_seconds, f"{epoch_seconds:g} s", f"{own.epoch_seconds:g} s"),
            (is_other_stager, f"stager {stager!r}", f"{facts.stager!r}"),
            (not is_decoded_alike, decoded_by, graded),
        ):
            if is_other:
                raise InputError(f"the card is not of this night: got {what}, it grades {expected}.")

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the card, the same however its file is formatted."""
        return card_sha256(self._content())

    def _content(self) -> dict[str, Any]:
        record = {
            "layout": LAYOUT,
            "kind": KIND,
            **plain_table(self.facts),
            "scheme": _scheme_dict(self.nights[0].scheme),
            "epoch_seconds": self.nights[0].epoch_seconds,
            "scorers": self.scorers,
            "n_people": self.n_people,
            "n_nights": self.n_nights,
            "kappa": self.kappa,
            "expert_kappa": self.expert_kappa,
            "reading": self.reading,
        }
        grades = {key: grade.to_dict() for key, grade in self.items()}
        nights = [_night_dict(night) for night in self.nights]
        return dict(_without_nan({"stageguard": record, "grades": grades, "nights": nights}))

    def to_dict(self) -> dict[str, Any]:
        """Return the document of a card in plain types: the record with its hash, grades and nights."""
        content = self._content()
        content["stageguard"]["sha256"] = card_sha256(content)
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
        content = read_card(location(path))
        if content["stageguard"].get("sha256") != card_sha256(content):
            raise file_error(location(path), "was changed after it was written. See: stageguard verify.")
        return card_of(location(path), content)


def require_card(value: object, what: str) -> None:
    """Refuse what is not a grade card."""
    if not isinstance(value, GradeCard):
        raise InputError(f"{what} is {checks.shown(value)}, expected a GradeCard, as grade() returns it.")


def graded_as(night: ScoredNight) -> tuple[str | None, StageScheme, float, str | None]:
    """Return profile, scheme, epoch length and stager of a night, as `GradeCard.refuse_other` takes them."""
    scored = hypnogram_of(night)
    sha256, stager = (night.profile.sha256, night.stager) if isinstance(night, Decoding) else (None, None)
    return sha256, scored.scheme, scored.epoch_seconds, stager


def refuse_repeated(names: Sequence[str], what: str) -> None:
    """Refuse two nights or experts of one name."""
    if repeated := [name for name, number in Counter(names).items() if number > 1]:
        raise InputError(f"two {what} are named {checks.shown(repeated[0])}, expected a name for each.")


def _check_nights(nights: Sequence[GradedNight], n_scorers: int) -> None:
    """Refuse nights that cannot be graded together."""
    if not nights:
        raise InputError("got no night, expected one or more.")
    for what, found in (
        ("stages", {" ".join(night.scheme.names) for night in nights}),
        ("epoch lengths", {f"{night.epoch_seconds:g} s" for night in nights}),
    ):
        if len(found) > 1:
            raise InputError(f"nights have the {what} {' and '.join(sorted(found)[:2])}, expected the same.")
    few = [night.id for night in nights if sum(night.scored_by) < min(2, n_scorers)]
    if few:
        raise InputError(
            f"{few[0]} has one scoring although there are {n_scorers} experts, expected two or more of every "
            "night. Leave it out."
        )
    _refuse_copies(nights)


def _refuse_copies(nights: Sequence[GradedNight]) -> None:
    """Refuse a night that counts as two people's: it would show what one night does not."""
    first: dict[str, GradedNight] = {}
    for night in nights:
        sleep = night.statistics.get("tst_minutes")
        if sleep is None or not sleep.consensus > 0:  # nights without sleep are alike
            continue
        other = first.setdefault(repr([night.statistics, night.kappas]), night)
        if other.person != night.person:
            raise InputError(
                f"{other.id} and {night.id} are the same in every number, expected nights of different "
                "people. Leave one out, or say that they are of one person."
            )


def _rows_of_people(nights: Sequence[GradedNight]) -> Ints:
    """Return the number of the person of each night, (n_nights,)."""
    numbers = {
        person: number for number, person in enumerate(dict.fromkeys(night.person for night in nights))
    }
    return np.array([numbers[night.person] for night in nights])


def _by_person(values: Floats, people: Ints) -> Floats:
    """Return the mean of each person's nights (n_people,), NaN left out."""
    exists = ~np.isnan(values)
    n_nights = np.bincount(people, exists)
    totals = np.bincount(people, np.where(exists, values, 0.0))
    return np.asarray(np.where(n_nights > 0, totals / np.maximum(n_nights, 1), NAN))


def _mean_of(values: Floats, axis: int = -1) -> Floats:
    """Return the mean without NaN; NaN of nothing."""
    exists = ~np.isnan(values)
    n = exists.sum(axis=axis)
    return np.asarray(np.where(n > 0, np.where(exists, values, 0.0).sum(axis=axis) / np.maximum(n, 1), NAN))


NO_VALUES = PanelValues(NAN, NAN, (), ())


def _grade(key: str, nights: Sequence[GradedNight], people: Ints, *, n_scorers: int) -> Grade:
    """Grade one statistic over all nights."""
    missing = replace(NO_VALUES, experts=(NAN,) * n_scorers, others=(NAN,) * n_scorers)
    found = [night.statistics.get(key, missing) for night in nights]
    own = np.array([values.stager for values in found])
    everyone = np.array([values.consensus for values in found])
    limits = bland_altman(_by_person(own, people), _by_person(everyone, people))
    if n_scorers == 1:
        return _about(key, nights[0], _by_person(np.abs(own - everyone), people), limits)
    others = np.array([values.others for values in found])  # (n_nights, n_scorers)
    stager = np.abs(own[:, None] - others)
    expert = np.abs(np.array([values.experts for values in found]) - others)
    both = ~np.isnan(stager + expert)  # a pair counts for both or for none
    stager, expert = np.where(both, stager, NAN), np.where(both, expert, NAN)
    small = SMALL[quantity_of(key).short_unit]
    logs = np.log(stager + small) - np.log(expert + small)
    a, e, log = (_by_person(_mean_of(values), people) for values in (stager, expert, logs))
    exists = ~np.isnan(a)
    a, e, log = a[exists], e[exists], log[exists]
    if not len(a):
        return Grade(key, Ratio(NAN), Ratio(NAN), None, 0, None, 0, 0, NAN, NAN, limits)
    n_well_scored = len(set(people[both.sum(axis=1) >= LEAST_SCORERS].tolist()))
    mean, typical = ratio_of_means(a, e), typical_ratio(log)
    verdict = verdict_of(mean, typical) if n_well_scored >= LEAST_PEOPLE else None
    is_open = verdict == "not shown" or (verdict is None and n_scorers >= LEAST_SCORERS)
    of_stager, of_experts = _mean_of(stager, axis=0), _mean_of(expert, axis=0)  # (n_scorers,)
    return Grade(
        key,
        mean,
        typical,
        verdict,
        n_people=len(a),
        people_needed=people_needed(a, e, log) if is_open else None,
        errs_less_than=int(np.count_nonzero(of_stager < of_experts)),
        n_experts=int(np.count_nonzero(~np.isnan(of_experts))),
        stager_error=float(a.mean()),
        expert_error=float(e.mean()),
        against_consensus=limits,
    )


def _about(key: str, night: GradedNight, errors: Floats, limits: BlandAltman) -> Grade:
    """Compare the errors against one expert (n_people,) with those between two experts of the table."""
    errors = errors[~np.isnan(errors)]
    error = float(errors.mean()) if len(errors) else NAN
    is_known = night.epoch_seconds == TABLE_EPOCH_SECONDS
    tables = expert_errors(night.scheme.name) if is_known and len(errors) else ()
    about = {table.cohort: error / table.errors[key] for table in tables if table.errors.get(key)}
    return Grade(
        *(key, Ratio(NAN), Ratio(NAN), None, len(errors), None, 0, 1, error, NAN, limits),
        about=MappingProxyType(about),
    )


def card_sha256(content: Mapping[str, Any]) -> str:
    """Return the hash of a card's content without this hash, however it is formatted."""
    record = {key: value for key, value in content["stageguard"].items() if key != "sha256"}
    text = json.dumps({**content, "stageguard": record}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_card(path: Path) -> dict[str, Any]:
    """Return the content of a card's file; anything else is a FileFormatError."""
    content = load_json(path)
    record = content.get("stageguard") if isinstance(content, dict) else None
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise file_error(path, "is not a grade card: expected the .json that stageguard grade wrote.")
    if record.get("layout") != LAYOUT:
        raise file_error(
            path, f"has layout {checks.shown(record.get('layout'))}, this version reads {LAYOUT}."
        )
    if not isinstance(content.get("grades"), dict) or not isinstance(content.get("nights"), list):
        raise file_error(path, "has no grades or no nights, so it was edited.")
    return dict(content)


def card_of(path: Path, content: Mapping[str, Any]) -> GradeCard:
    """Return the card that a file's nights and facts make; its grades are computed again."""
    try:
        record = content["stageguard"]
        scheme = _scheme_of(record["scheme"])
        facts = GradeFacts(**{name: _text_or_none(record[name]) for name in GradeFacts.__slots__})
        checks.text(facts.version, "version")
        scorers = checks.items(record["scorers"], "scorers", checks.text)
        seconds = checks.number(record["epoch_seconds"], "epoch_seconds", high=LARGEST, positive=True)
        nights = tuple(_night_of(night, scheme, seconds, len(scorers)) for night in content["nights"])
        return GradeCard(nights, scorers, facts, checks.mapping(record["reading"], "reading"))
    except StageGuardError as error:
        raise file_error(path, f"is not a card that can be read: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise file_error(path, record_fault(error)) from None


def _text_or_none(value: object) -> Any:
    return None if value is None else checks.text(value, "an entry")


def _scheme_dict(scheme: StageScheme) -> dict[str, Any]:
    return {name: getattr(scheme, name) for name in ("name", "names", "wake", "rem")}


def _scheme_of(entry: Mapping[str, Any]) -> StageScheme:
    names = tuple(checks.items(entry["names"], "stages", checks.text))
    return StageScheme(entry["name"], names, entry["wake"], entry["rem"])


def _night_dict(night: GradedNight) -> dict[str, Any]:
    statistics = {
        key: {
            "stager": values.stager,
            "consensus": values.consensus,
            "experts": values.experts,
            "others": values.others,
        }
        for key, values in night.statistics.items()
    }
    features = night.features
    return {
        "id": night.id,
        "person": night.person,
        "scored_by": night.scored_by,
        "kappas": night.kappas,
        "features": None
        if features is None
        else {name: getattr(features, name) for name in FEATURES}
        | {name: getattr(features, name).tolist() for name in FEATURE_ARRAYS},
        "files": dict(night.files),
        "statistics": statistics,
    }


def _night_of(entry: Mapping[str, Any], scheme: StageScheme, seconds: float, n_scorers: int) -> GradedNight:
    statistics = {}
    for key, values in entry["statistics"].items():
        quantity_of(key)  # refuse an unknown statistic
        own, everyone = _number(values["stager"]), _number(values["consensus"])
        experts, others = (tuple(map(_number, values[name])) for name in ("experts", "others"))
        if not len(experts) == len(others) == n_scorers:
            raise InputError(f"{key} has {len(experts)} experts, expected {n_scorers}.")
        statistics[key] = PanelValues(own, everyone, experts, others)
    kappas = tuple((_number(own), _number(other)) for own, other in entry["kappas"])
    scored_by = checks.items(entry["scored_by"], "scored_by", checks.flag)
    if not len(kappas) == len(scored_by) == n_scorers:
        raise InputError(f"{len(kappas)} kappas of a night, expected {n_scorers}.")
    features = entry["features"]
    if features is not None:
        arrays = {name: np.array(features[name], dtype=float) for name in FEATURE_ARRAYS}
        for name, n_dimensions in FEATURE_ARRAYS.items():
            if arrays[name].shape != (scheme.n_stages,) * n_dimensions:
                raise InputError(f"got {name} of {arrays[name].shape} stages, expected {scheme.n_stages}.")
            if np.any(np.abs(arrays[name]) > LARGEST):
                raise InputError(f"got {name} of more than {LARGEST:g}, expected shares.")
        fi, entropy, sharpness = (_number(features[name]) for name in FEATURES)
        features = StagerFeatures(fi, entropy, sharpness, *arrays.values())
    files = dict(checks.mapping(entry["files"], "files"))
    if files:
        scorings = checks.items(files["experts"], "files of experts", lambda value, _: value)
        if len(scorings) != n_scorers:
            raise InputError(f"got files of {len(scorings)} experts, expected {n_scorers}.")
        for described in (files["night"], *(each for each in scorings if each is not None)):
            checks.mapping(described, "a file")
    names = checks.text(entry["id"], "id"), checks.text(entry["person"], "person")
    return GradedNight(
        *(*names, scheme, seconds, MappingProxyType(statistics), scored_by, kappas, features, files)
    )


def _number(value: object) -> float:
    return NAN if value is None else checks.number(value, "a number of a card", low=-LARGEST, high=LARGEST)


def _without_nan(value: Any) -> Any:
    """Return plain JSON types, NaN and infinities as None."""
    if isinstance(value, Mapping):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None  # -0.0 is read back as 0.0
    return value
