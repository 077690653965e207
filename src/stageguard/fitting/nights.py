"""Scored nights to fit on, checked for whatever would make cross-validation misleading."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations
from typing import Any, Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats, Labels
from stageguard.errors import InputError, StageGuardError, warn
from stageguard.fitting.tune import MeasuredNight, measure
from stageguard.guard.night import DEFAULTS, GuardOptions, per_night, read_night
from stageguard.measures.experts import consensus
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, SHORT_EPOCH_SECONDS
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.period import Period
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile

Kind = Literal["night", "day"]

SAME_NIGHT_EPOCHS = 50  # two scorings of this many epochs and several bouts are not the same by chance
_LEAD = 1.001  # a label stays the likeliest stage of its row, however often it is wrong


@dataclass(frozen=True, slots=True, eq=False)
class FitNight:
    """One scored night."""

    number: int  # its index in the caller's list
    subject: str  # whose nights are kept together in cross-validation
    density: Hypnodensity | None  # what candidates decode; None if only the scoring is known
    unscored: Hypnodensity | None  # what is decoded if nobody scored a night: of labels, typical confusions
    said: Labels | None  # (n_epochs,) of a stager that gives labels alone
    measured: MeasuredNight | None  # for tuning; None of labels that the base profile does not take
    expert: Hypnogram  # the expert's scoring, or the consensus of several
    experts: tuple[Hypnogram, ...]  # the scorings of all
    period: Period  # of the expert's night, that the base profile measures
    sha256: str  # of probabilities and scorings

    @property
    def truth(self) -> Labels:
        """The labels of the expert's scoring."""
        return self.expert.labels


@dataclass(frozen=True, slots=True, eq=False)
class Nights:
    """All nights to fit on, in one scheme and epoch length; sorted, whatever the caller's order."""

    nights: tuple[FitNight, ...]
    scheme: StageScheme
    epoch_seconds: float
    kind: Kind  # whether the statistics of a night or those of a day are reported
    assumed: tuple[str, ...]

    def __iter__(self) -> Iterator[FitNight]:
        """Yield each night."""
        return iter(self.nights)

    def __len__(self) -> int:
        """Return the number of nights."""
        return len(self.nights)

    @property
    def subjects(self) -> list[str]:
        """The subjects, sorted."""
        return list(dict.fromkeys(self.whose))

    @property
    def whose(self) -> list[str]:
        """The subject of each night."""
        return [night.subject for night in self]

    def of(self, subjects: Iterable[str]) -> Nights:
        """Return the nights of some subjects."""
        chosen = set(subjects)
        return replace(self, nights=tuple(night for night in self if night.subject in chosen))

    def sha256(self) -> str:
        """Return a fingerprint of probabilities, scorings and subjects."""
        told = "".join(f"{night.subject}\0{night.sha256}\0" for night in self)
        return hashlib.sha256(told.encode()).hexdigest()


def read_nights(
    experts: Sequence[Any],
    densities: Sequence[Any] | None,
    base: Profile,
    *,
    options: GuardOptions = DEFAULTS,
    subjects: Sequence[Hashable] | None = None,
    kind: Kind | None = None,
) -> Nights:
    """Return all nights in the base profile's stages.

    Refuses lists that do not belong together, a night that does not fit its scoring, and a
    night given twice.
    """
    n_nights = _n_nights(experts, densities)
    names = None if subjects is None else _names(subjects, n_nights)
    assumed = [] if names else ["subjects are not given: every night is taken as a subject of its own"]
    nights = []
    for i, scoring in enumerate(experts):
        density = None if densities is None else densities[i]
        with _errors_name_night(i):
            nights.append(_read(i, scoring, density, base, options, assumed))
    if len({night.said is None for night in nights}) > 1:
        raise InputError("some nights are labels and some probabilities, expected one kind. Fit to each.")
    # by content, so that the order of the nights changes nothing; a number tells equal nights apart
    digests = [night.sha256 for night in nights]
    unnamed = [f"{digest} {digests[:i].count(digest)}" for i, digest in enumerate(digests)]
    nights = [replace(night, subject=name) for night, name in zip(nights, names or unnamed, strict=True)]
    seconds = _one_epoch_length([night.expert.epoch_seconds for night in nights])
    _refuse_overlaps(nights)
    _refuse_repeats(nights)
    # folds, sums and draws follow this order, so that a fit does not depend on the caller's
    nights.sort(key=lambda night: (night.subject, night.sha256))
    # such recordings have no bedtime, so that latencies and efficiency do not exist
    is_long = max(len(night.truth) for night in nights) * seconds >= LONGEST_NIGHT_HOURS * 3600.0
    is_day = is_long or seconds < SHORT_EPOCH_SECONDS or base.scheme.wake is None
    kind = kind or ("day" if is_day else "night")
    read = Nights(tuple(nights), base.scheme, seconds, kind, tuple(dict.fromkeys(assumed)))
    _warn_of_missing_stages(read, base)
    return with_confusions(read)


def _read(
    number: int, scoring: Any, given: Any, base: Profile, options: GuardOptions, assumed: list[str]
) -> FitNight:
    """Return one night, of nobody in particular."""
    density = said = unscored = measured = None
    if given is not None:
        density, said = _density_of(given, base, options, assumed)
        unscored = density if said is None else _typical(density, said, base)
        if unscored is not None:
            measured = measure(unscored, base, GuardOptions(trained=options.trained))
    is_bare = density is not None and not isinstance(given, Hypnodensity | Hypnogram)
    panel = _panel(scoring, density, base, options)
    if density is not None and is_bare:  # an array begins with its scoring
        density = replace(density, offset_seconds=panel[0].offset_seconds)
    if density is not None:
        about = (base.scheme, density.epoch_seconds, density.start)
        night = Hypnogram(np.minimum(density.argmax, 0), *about, offset_seconds=density.offset_seconds)
        panel = [on_epochs_of(night, each) for each in panel]
    # several experts: each counts for transitions, their consensus for agreement
    expert = consensus(panel) if len(panel) > 1 else panel[0]
    if (expert.labels == UNSCORED).all():
        raise InputError("no epoch is scored, expected an expert's stages. Leave the night out.")
    if density is not None and not ((expert.labels != UNSCORED) & (density.argmax >= 0)).any():
        raise InputError("no epoch has both a stage and probabilities, expected some. Leave the night out.")
    period = base.period_in(expert.labels, expert.epoch_seconds)
    told = _digest(density, panel)
    return FitNight(number, "", density, unscored, said, measured, expert, tuple(panel), period, told)


def _density_of(
    given: Any, base: Profile, options: GuardOptions, assumed: list[str]
) -> tuple[Hypnodensity, Labels | None]:
    """Return a night's probabilities in the base profile's stages, and its labels if they are all it has."""
    if isinstance(given, Hypnogram):
        merged = given.merge(base.scheme)
        rows = _rows(np.eye(base.scheme.n_stages), merged.labels)
        about = (base.scheme, given.epoch_seconds, given.start, given.scorer, given.assumed)
        return Hypnodensity(rows, *about, given.offset_seconds, "own"), merged.labels
    night = read_night(given, base, options)
    assumed += night.assumed
    density = night.density
    return density, None if night.from_labels is None else density.argmax


def _panel(given: Any, density: Hypnodensity | None, base: Profile, options: GuardOptions) -> list[Hypnogram]:
    """Return the scorings of one night as hypnograms in the base profile's stages."""
    several = isinstance(given, list | tuple) and len(given) > 0 and checks.n_dimensions(given[0]) != 0
    panel = []
    for scoring in given if several else [given]:
        if scoring is None:
            raise InputError("there is no scoring, expected an expert's. Leave the night out.")
        if isinstance(scoring, Hypnodensity) or checks.n_dimensions(scoring) == 2:
            raise InputError("probabilities stand where an expert's scoring is expected: experts come first.")
        if not isinstance(scoring, Hypnogram) and density is None:
            scoring = Hypnogram(scoring, base.scheme, options.epoch_seconds or base.epoch_seconds)
        elif not isinstance(scoring, Hypnogram) and density is not None:
            about = (base.scheme, density.epoch_seconds, density.start)
            scoring = Hypnogram(scoring, *about, offset_seconds=density.offset_seconds)
            if scoring.n_epochs != density.n_epochs:  # nothing says at which end one is missing
                got = f"{scoring.n_epochs} labels for {density.n_epochs} rows of probabilities"
                raise InputError(f"got {got}, expected one for each.")
        panel.append(scoring.merge(base.scheme))
    return panel


def _n_nights(experts: Any, densities: Any) -> int:
    """Return how many nights there are; refuse what is no list of them, and lists of different lengths."""
    for what, nights in (("experts", experts), ("densities", densities)):
        if what == "densities" and nights is None:
            continue
        is_list = isinstance(nights, list | tuple) or (isinstance(nights, np.ndarray) and nights.ndim > 1)
        is_one = is_list and len(nights) > 0 and checks.n_dimensions(nights[0]) == 0
        if not is_list or is_one:
            raise InputError(f"{what}: got {checks.shown(nights)}, expected a list of nights.")
    if not len(experts):
        raise InputError("experts are empty, expected an expert's scoring of every night.")
    if densities is not None and len(densities) != len(experts):
        found = f"{len(densities)} densities and scorings of {len(experts)} nights"
        raise InputError(f"got {found}, expected an expert's scoring of every night.")
    return len(experts)


def _names(values: Any, n_nights: int) -> list[str]:
    """Return names without blanks around them; 3 and 3.0 are the same name."""
    names = []
    values = values.tolist() if hasattr(values, "tolist") else values
    for i, name in enumerate(per_night(values, n_nights, "subjects")):
        is_whole = isinstance(name, float | np.floating) and float(name).is_integer()
        names.append(str(int(name) if is_whole else name).strip())
        if names[-1].casefold() in ("", "nan", "none", "<na>", "nat"):
            raise InputError(f"subjects: night {i} has none ({checks.shown(name)}), expected a name.")
    return names


def _digest(density: Hypnodensity | None, panel: Sequence[Hypnogram]) -> str:
    """Return a fingerprint of one night; processors differ in digits of probabilities beyond the ninth."""
    digest = hashlib.sha256()
    if density is not None:
        digest.update(np.ascontiguousarray(density.probabilities.round(9), dtype="<f8").tobytes())
    for scoring in panel:
        digest.update(np.ascontiguousarray(scoring.labels).tobytes())
    return digest.hexdigest()


@contextmanager
def _errors_name_night(number: int) -> Iterator[None]:
    try:
        yield
    except StageGuardError as error:
        raise InputError(f"night {number}: {error}") from None


def _one_epoch_length(seconds: Sequence[float]) -> float:
    for i, length in enumerate(seconds):
        if length != seconds[0]:
            found = f"{seconds[0]:g} s in night 0 and {length:g} s in night {i}"
            raise InputError(f"epochs last {found}, expected one length.")
    return seconds[0]


def _warn_of_missing_stages(nights: Nights, base: Profile) -> None:
    found = {label for night in nights for scoring in night.experts for label in np.unique(scoring.labels)}
    for label, name in enumerate(nights.scheme.names):
        if label not in found:
            warn(
                f"stage {name!r} occurs in none of the {len(nights)} scored nights: what is known about it "
                f"stays that of the base profile {base.name!r}."
            )


def _refuse_overlaps(nights: Sequence[FitNight]) -> None:
    """Refuse two nights of one subject at the same time, by the clock."""
    for night, other in combinations([night for night in nights if night.expert.start is not None], 2):
        begins = [each.expert.start.replace(tzinfo=None) for each in (night, other) if each.expert.start]
        ends = [
            begin + timedelta(seconds=each.expert.n_epochs * each.expert.epoch_seconds)
            for begin, each in zip(begins, (night, other), strict=True)
        ]
        shared = min(ends) - max(begins)
        if night.subject == other.subject and shared > timedelta(seconds=night.expert.epoch_seconds / 2):
            raise InputError(
                f"nights {night.number} and {other.number} of subject {night.subject!r} overlap: they "
                f"begin at {begins[0]} and at {begins[1]}. Leave one out; several experts' scorings of a "
                "night go into one list."
            )


def _refuse_repeats(nights: Sequence[FitNight]) -> None:
    """Refuse a night that is given twice: it would be on both sides of a split, or count double."""
    seen: dict[bytes, int] = {}
    for night in nights:
        heads: list[Floats | Labels] = [night.truth] if np.count_nonzero(np.diff(night.truth)) >= 3 else []
        if night.density is not None:
            rows = night.density.probabilities[:SAME_NIGHT_EPOCHS]
            # many nights may begin with the same votes or constants
            heads += [rows] if len(np.unique(rows, axis=0)) >= SAME_NIGHT_EPOCHS // 2 else []
        for head in heads:
            first = seen.setdefault(head.tobytes(), night.number)
            if len(head) >= SAME_NIGHT_EPOCHS and first != night.number:
                both = f"nights {first} and {night.number} have the same probabilities or expert stages"
                raise InputError(f"{both}: one night given twice. Leave one out.")


def confusion_shares(nights: Iterable[FitNight], n_stages: int) -> Floats:
    """Return rows of experts' stages by stage said; 1 is added to every count, so that no share is 0."""
    counts = np.ones((n_stages, n_stages))
    for night in nights:
        assert night.said is not None
        for scoring in night.experts:
            both = (night.said >= 0) & (scoring.labels >= 0)
            np.add.at(counts, (night.said[both], scoring.labels[both]), 1.0)
    others = counts - np.diag(counts.diagonal())
    np.fill_diagonal(counts, np.maximum(counts.diagonal(), _LEAD * others.max(axis=1)))
    return np.asarray(np.round(counts / counts.sum(axis=1, keepdims=True), 6))


def with_confusions(train: Nights, held_out: Nights | None = None) -> Nights:
    """Return nights of labels with what experts say in place of each label, counted on other people.

    Shares for training nights are those of the other subjects; those for nights held out are of all of them.
    """
    if train.nights[0].said is None:
        return train if held_out is None else held_out
    n_stages, shares = train.scheme.n_stages, dict[str, Floats]()
    for subject in train.subjects if held_out is None else held_out.subjects:
        others = [night for night in train if night.subject != subject] or train.nights
        shares[subject] = confusion_shares(others, n_stages)
    return replace(train, nights=tuple(_with_rows(n, shares[n.subject]) for n in held_out or train))


def _with_rows(night: FitNight, shares: Floats) -> FitNight:
    assert night.density is not None and night.said is not None
    density = night.density.with_rows(_rows(shares, night.said), from_labels="own")
    is_typical = night.measured is not None
    return replace(night, density=density, unscored=night.unscored if is_typical else density)


def _typical(density: Hypnodensity, said: Labels, base: Profile) -> Hypnodensity | None:
    """Return what experts typically say where stagers give these labels, if the base profile knows it."""
    if base.labels is None or base.labels.shares is None:
        return None
    return density.with_rows(_rows(np.array(base.labels.shares), said), from_labels="typical")


def _rows(shares: Floats, said: Labels) -> Floats:
    unknown = np.full((1, len(shares)), np.nan)  # the label of unscored epochs, -1, finds the last row
    return np.asarray(np.concatenate((shares, unknown))[said])
