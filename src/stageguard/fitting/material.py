"""Scored nights to fit on, checked for whatever would make cross-validation misleading."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats, Labels
from stageguard.errors import (
    InputError,
    Message,
    NightNumber,
    StageGuardError,
    both_nights,
    message_of,
    warn,
)
from stageguard.fitting.counts import CohortCounts, ScoringCounts, count_night
from stageguard.fitting.endpoints import Kind, SleepEndpoints
from stageguard.fitting.share_repair import MeasuredNight
from stageguard.guard import inputs
from stageguard.guard.decoding import Decoding
from stageguard.guard.evidence import Night, best_stages, fragmentation_index
from stageguard.guard.options import DEFAULTS, GuardOptions, per_night
from stageguard.measures.experts import consensus
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnodensity import FromLabels, Hypnodensity, check_probabilities
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.period import Period
from stageguard.night.stages import StageScheme
from stageguard.profile.known_stagers import Training
from stageguard.profile.night_stages import in_stages_of
from stageguard.profile.profile import Profile


@dataclass(frozen=True, slots=True, eq=False)
class FitNight:
    """One scored night."""

    number: int  # its index in the caller's list
    subject: str
    group: str  # nights of a group are kept together in cross-validation
    matrix: Floats | None  # (n_epochs, n_stages) in the profile's order; None if only the scoring is known
    logs: Floats | None  # (n_epochs, n_stages) log of the matrix, -inf for 0
    said: Labels | None  # (n_epochs,) of a stager that gives labels alone, for which `matrix` stands
    typical: Floats | None  # (n_epochs, n_stages) what the base profile takes such labels for, if anything
    trained: Training | None  # how the stager was trained, if that is known
    measured: MeasuredNight | None  # for tuning; None if the base profile cannot be tuned to it
    stager_fi: float  # fragmentation index of the stager's argmax in its period, NaN without pairs
    stager_period: Period  # that the base profile measures
    expert_period: Period
    truth: Labels  # (n_epochs,) the expert's labels, or the consensus of several experts
    hypnograms: tuple[Hypnogram, ...]  # of every expert
    counts: ScoringCounts
    start: datetime | None
    sha256: str  # of probabilities and scorings

    @property
    def unscored_rows(self) -> Floats:
        """The rows of `unscored`."""
        rows = self.matrix if self.typical is None else self.typical
        assert rows is not None
        return rows

    def unscored(self, material: Material) -> Hypnodensity:
        """Return what would be decoded if nobody had scored any night."""
        from_labels: FromLabels | None = None if self.typical is None else "typical"
        if self.said is not None and self.typical is None:
            from_labels = "own"
        about = (material.scheme, material.epoch_seconds)
        return Hypnodensity(self.unscored_rows, *about, from_labels=from_labels)

    @property
    def seed(self) -> int:
        """Seed of this night's draws, whatever its place in the list."""
        return int(self.sha256[:8], 16)

    @property
    def scorings(self) -> tuple[Labels, ...]:
        """The labels of every expert."""
        return tuple(hypnogram.labels for hypnogram in self.hypnograms)

    @property
    def n_scored(self) -> int:
        """Number of scored epochs."""
        return int(np.count_nonzero(self.truth != UNSCORED))


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """All nights to fit on, in one scheme and epoch length; sorted, whatever the caller's order."""

    nights: tuple[FitNight, ...]
    scheme: StageScheme
    epoch_seconds: float
    assumed: tuple[str, ...]
    endpoints: SleepEndpoints

    @property
    def groups(self) -> list[str]:
        """The groups, sorted."""
        return list(dict.fromkeys(night.group for night in self.nights))

    @property
    def subjects(self) -> list[str]:
        """The subjects, in the order of their groups."""
        return list(dict.fromkeys(night.subject for night in self.nights))

    @property
    def has_probabilities(self) -> bool:
        """Whether there are probabilities to decode."""
        return self.nights[0].matrix is not None

    @property
    def is_of_labels(self) -> bool:
        """Whether the stager gave labels alone."""
        return self.nights[0].said is not None

    def of_groups(self, groups: Iterable[str]) -> Material:
        """Return the nights of some groups."""
        chosen = set(groups)
        nights = tuple(night for night in self.nights if night.group in chosen)
        return replace(self, nights=nights)

    def counts(self) -> CohortCounts:
        """Return the counts of the experts' scorings."""
        return CohortCounts(tuple(night.counts for night in self.nights), self.scheme)

    def sha256(self) -> str:
        """Return a fingerprint of probabilities, scorings, subjects and groups."""
        digest = hashlib.sha256()
        for night in self.nights:
            digest.update(f"{night.subject}\0{night.group}\0{night.sha256}\0".encode())
        return digest.hexdigest()


def read_material(
    experts: Sequence[Any],
    densities: Sequence[Any] | None,
    base: Profile,
    *,
    options: GuardOptions = DEFAULTS,
    groups: Sequence[Hashable] | None = None,
    subjects: Sequence[Hashable] | None = None,
    statistics: Kind | None = None,
) -> Material:
    """Return all nights in the base profile's stages.

    Refuses lists that do not belong together, a night that does not fit its scoring, a subject in two groups,
    and a night given twice.
    """
    n_nights = _n_nights(experts, densities)
    if densities is None and (options.stages is not None or options.logits or options.log):
        raise InputError(
            "stages, logits and log say how probabilities are to be read, and there are none. Leave them out."
        )
    names = _who(groups, subjects, n_nights)
    assumed = [] if names else ["groups are not given: every night is taken as a subject of its own"]
    panels, stagers = _read_nights(experts, densities, base, options)
    digests = [_digest(stager, panel) for stager, panel in zip(stagers, panels, strict=True)]
    # by content, so that the order of the nights changes nothing; a number tells equal nights apart
    unnamed = [f"{digest} {digests[:i].count(digest)}" for i, digest in enumerate(digests)]
    group_of, subject_of = names or (unnamed, unnamed)
    scorers = _numbered_scorers(panels)
    nights = [
        _fit_night(i, subject_of[i], group_of[i], stagers[i], panels[i], scorers[i], digests[i], base)
        for i in range(n_nights)
    ]
    seconds = _one_epoch_length([panel[0].epoch_seconds for panel in panels])
    refuse_overlaps(nights, seconds)
    refuse_repeats(nights)
    # folds, sums and draws follow this order, so that a fit does not depend on the caller's
    nights.sort(key=lambda night: (night.group, night.subject, night.sha256))
    for stager in (stagers[night.number] for night in nights):
        assumed += [text for text in (stager.assumed if stager else ()) if text not in assumed]
    lengths = [len(night.truth) for night in nights]
    endpoints = SleepEndpoints.for_nights(base.scheme, seconds, lengths, statistics)
    material = Material(tuple(nights), base.scheme, seconds, tuple(assumed), endpoints)
    _warn_of_missing_stages(material, base)
    return material


def _read_nights(
    experts: Sequence[Any], densities: Sequence[Any] | None, base: Profile, options: GuardOptions
) -> tuple[list[list[Hypnogram]], list[Night | None]]:
    """Return the scorings and the probabilities of every night; None without probabilities."""
    panels = [_panel(scoring, i, base, options) for i, scoring in enumerate(experts)]
    if densities is None:
        return panels, [None] * len(panels)
    stagers = [_read(density, i, base, options) for i, density in enumerate(densities)]
    for i, (density, stager) in enumerate(zip(densities, stagers, strict=True)):
        if not isinstance(density, Hypnodensity | Hypnogram):  # an array has the epochs of its scoring
            stager.offset_seconds = panels[i][0].offset_seconds
        if (stager.from_labels is None) != (stagers[0].from_labels is None):
            raise InputError("some nights are labels and some probabilities, expected one kind. Fit to each.")
        scorings = experts[i]
        first = scorings[0] if isinstance(scorings, list | tuple) and len(scorings) else scorings
        if not isinstance(first, Hypnogram):  # labels have the epochs of their density
            _refuse_other_number(i, panels[i], len(stager.probabilities))
            panels[i] = [replace(scoring, offset_seconds=stager.offset_seconds) for scoring in panels[i]]
    return panels, list(stagers)


def _fit_night(
    number: int,
    subject: str,
    group: str,
    stager: Night | None,
    panel: Sequence[Hypnogram],
    scorers: Sequence[int],
    sha256: str,
    base: Profile,
) -> FitNight:
    with _errors_name_night(number):
        panel, truth, start = _align(stager, panel)
    scorings = tuple(scoring.labels for scoring in panel)
    length = panel[0].epoch_seconds
    periods = [base.period_in(labels, length) for labels in scorings]
    matrix = logs = None
    argmax, stager_fi = truth, np.nan
    stager_period = base.period_in(truth, length)
    if stager is not None:
        matrix = stager.probabilities
        with np.errstate(divide="ignore"):  # rounding may have put a probability just below 0
            logs = np.log(np.maximum(matrix, 0.0))
        argmax = best_stages(matrix, None, None)
        stager_period = base.period_in(argmax, length)
        stager_fi = fragmentation_index(argmax, [stager_period])
    said = argmax if stager is not None and stager.from_labels is not None else None
    typical = None if said is None else _typical_rows(said, base)
    return FitNight(
        number=number,
        subject=subject,
        group=group,
        matrix=matrix,
        logs=logs,
        said=said,
        typical=typical,
        trained=None if stager is None else stager.options.trained,
        measured=None if stager is None else _measured(stager, said, typical, base),
        stager_fi=stager_fi,
        stager_period=stager_period,
        expert_period=base.period_in(truth, length),
        truth=truth,
        hypnograms=tuple(panel),
        counts=count_night(scorings, scorers, base.scheme.n_stages, periods),
        start=start,
        sha256=sha256,
    )


def _typical_rows(said: Labels, base: Profile) -> Floats | None:
    """Return what experts say where stagers give these labels, if the base profile has shares of it."""
    if base.labels is None or base.labels.shares is None:
        return None
    unknown = (np.nan,) * base.scheme.n_stages  # the label of unscored epochs, -1, finds the last row
    return np.asarray(np.array((*base.labels.shares, unknown))[said])


def _measured(
    stager: Night, said: Labels | None, typical: Floats | None, base: Profile
) -> MeasuredNight | None:
    """Return what tuning needs of a night; None for labels that the base profile does not take."""
    if said is not None and typical is None:
        return None
    rows = stager.probabilities if typical is None else typical
    density = Hypnodensity(
        rows, base.scheme, stager.epoch_seconds, from_labels=None if said is None else "typical"
    )
    options = GuardOptions(trained=stager.options.trained)
    base = replace(base, stager=None, cohort=None)  # all nights are its own
    return MeasuredNight.of(inputs.night_of(density, base, options), base)


def _n_nights(experts: Any, densities: Any) -> int:
    if experts is None:
        raise InputError("experts are missing, expected an expert's scoring of every night.")
    for what, nights, dimensions in (("experts", experts, 2), ("densities", densities, 3)):
        if nights is None:
            continue
        is_night = isinstance(nights, Hypnodensity | Hypnogram | Decoding)
        if not is_night and not isinstance(nights, list | tuple | np.ndarray):
            raise InputError(
                f"{what}: got {checks.shown(nights)}, expected a list of nights. Put them in one: list(...)."
            )
        if is_night or _is_one_array(nights, dimensions):
            raise InputError(f"{what}: got one night, expected a list of nights. Put it in a list.")
    if not len(experts):
        raise InputError("experts are empty, expected an expert's scoring of every night.")
    _refuse_swapped(experts, densities)
    if densities is not None and len(densities) != len(experts):
        raise InputError(
            f"got {len(densities)} densities and scorings of {len(experts)} nights, "
            "expected an expert's scoring of every night. Leave out the nights nobody scored."
        )
    return len(experts)


def _refuse_swapped(experts: Sequence[Any], densities: Sequence[Any] | None) -> None:
    """Refuse probabilities where scorings are expected, and a panel's scorings where one stager's are."""
    for i, given in enumerate(experts):
        first = given[0] if isinstance(given, list | tuple) and len(given) else given
        is_matrix = isinstance(given, np.ndarray) and given.ndim == 2
        if is_matrix or isinstance(first, Hypnodensity | Decoding):
            got = "a matrix" if is_matrix else f"a {type(first).__name__}"
            raise InputError(
                f"experts: night {i} is {got}, expected an expert's Hypnogram. Are experts and densities "
                "swapped?"
            )
    for i, given in enumerate(() if densities is None else densities):
        if isinstance(given, list | tuple) and len(given) and isinstance(given[0], Hypnogram):
            raise InputError(
                f"densities: night {i} is a list of {len(given)} hypnograms, expected one stager's output. "
                "Are experts and densities swapped?"
            )


def _is_one_array(values: Any, dimensions: int) -> bool:
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values.ndim < dimensions
    return len(values) > 0 and checks.n_dimensions(values[0]) == 0


def _digest(stager: Night | None, panel: Sequence[Hypnogram]) -> str:
    """Return a fingerprint of one night's probabilities and scorings.

    The ninth digit is the last that counts: processors differ in the last bits of what they compute, and
    folds and draws that follow from the fingerprint should not.
    """
    digest = hashlib.sha256()
    if stager is not None:
        digest.update(np.ascontiguousarray(stager.probabilities.round(9), dtype="<f8").tobytes())
    for scoring in panel:
        digest.update(np.ascontiguousarray(scoring.labels).tobytes())
    return digest.hexdigest()


def _who(
    groups: Sequence[Hashable] | None, subjects: Sequence[Hashable] | None, n_nights: int
) -> tuple[list[str], list[str]] | None:
    """Return the group and the subject of every night; None if neither is passed."""
    if groups is None and subjects is None:
        return None
    of_group = _names(groups if groups is not None else subjects, "groups", n_nights)
    of_subject = _names(subjects if subjects is not None else groups, "subjects", n_nights)
    home: dict[str, str] = {}
    for subject, group in zip(of_subject, of_group, strict=True):
        # a subject on both sides of a split would be known from its other night
        if home.setdefault(subject, group) != group:
            raise InputError(
                f"subject {subject!r} is in groups {home[subject]!r} and {group!r}, expected one group for "
                "every subject: whoever is on both sides of a split makes cross-validation look better than "
                "it is. Put both nights into one group."
            )
    return of_group, of_subject


def _names(values: Any, what: str, n_nights: int) -> list[str]:
    """Return names without blanks around them; 3 and 3.0 are the same name."""
    names = []
    values = values.tolist() if hasattr(values, "tolist") else values
    for i, name in enumerate(per_night(values, n_nights, what)):
        if isinstance(name, float | np.floating) and float(name).is_integer():
            name = int(name)
        names.append(str(name).strip())
        is_blank = names[-1].casefold() in ("", "nan", "none", "<na>", "nat")
        if checks.n_dimensions(name) not in (0, None) or name is None or is_blank:
            raise InputError(
                f"{what}: night {i} has none ({checks.shown(name)}), expected the name of whom it belongs to."
            )
    return names


def _panel(given: Any, i: int, base: Profile, options: GuardOptions) -> list[Hypnogram]:
    """Return the scorings of one night as hypnograms in the base profile's stages."""
    several = isinstance(given, list | tuple) and len(given) > 0 and checks.n_dimensions(given[0]) != 0
    panel = []
    for scoring in given if several else [given]:
        with _errors_name_night(i):
            if scoring is None:
                raise InputError("there is no scoring, expected an expert's. Leave the night out.")
            if isinstance(scoring, Hypnogram):
                _refuse_other_epochs(scoring, options, "scoring")
            else:
                seconds = base.epoch_seconds if options.epoch_seconds is None else options.epoch_seconds
                scoring = Hypnogram(scoring, base.scheme, seconds)
            panel.append(scoring.merge(base.scheme))
    return panel


def _refuse_other_epochs(night: Hypnodensity | Hypnogram, options: GuardOptions, what: str) -> None:
    """Refuse an option `epoch_seconds`, meant for bare arrays, that contradicts the night's own."""
    if options.epoch_seconds is None:
        return
    seconds = checks.epoch_seconds(options.epoch_seconds)
    if seconds != night.epoch_seconds:
        raise InputError(
            f"epoch_seconds is {seconds:g}, and the {what} says {night.epoch_seconds:g} s of itself. "
            "Leave it out."
        )


def _read(density: Any, i: int, base: Profile, options: GuardOptions) -> Night:
    with _errors_name_night(i):
        if isinstance(density, Hypnodensity):
            _refuse_other_epochs(density, options, "density")
            options = replace(options, epoch_seconds=None)  # it is meant for bare labels
        if isinstance(density, Hypnogram):
            _refuse_other_epochs(density, options, "hypnogram")
            density, options = _one_hot(density, base), replace(options, epoch_seconds=None)
        stager = inputs.read_night(density, base, options)
        check_probabilities(stager.probabilities, base.scheme.names)
    return stager


def _one_hot(said: Hypnogram, base: Profile) -> Hypnodensity:
    """Return labels as certainties, until the confusions of their stager have been counted."""
    merged, n_stages = in_stages_of(base, said), base.scheme.n_stages
    certain = np.vstack((np.eye(n_stages), np.full(n_stages, np.nan)))[merged.labels]
    about = (base.scheme, said.epoch_seconds, said.start, said.scorer, said.assumed, said.offset_seconds)
    return Hypnodensity(certain, *about, from_labels="own")


def _refuse_other_number(number: int, panel: Sequence[Hypnogram], n_rows: int) -> None:
    """Refuse bare labels that are not as many as the rows: nothing says at which end one is missing."""
    for scoring in panel:
        if scoring.n_epochs != n_rows:
            raise InputError(
                f"night {number}: got {scoring.n_epochs} labels for {n_rows} rows of probabilities, expected "
                "one for each. A Hypnogram says when it begins."
            )


def _align(
    output: Night | None, panel: Sequence[Hypnogram]
) -> tuple[list[Hypnogram], Labels, datetime | None]:
    """Return the experts' scorings on the stager's epochs, their consensus, and when the night began."""
    night = panel[0]
    if output is not None:
        night = Hypnogram(
            np.where(np.isnan(output.probabilities[:, 0]), UNSCORED, 0).astype(np.int8),
            night.scheme,
            output.epoch_seconds,
            start=output.start,
            offset_seconds=output.offset_seconds,
        )
    matched = [on_epochs_of(night, scoring) for scoring in panel]
    # several experts: each counts for transitions and bouts, their consensus for agreement
    expert = consensus(matched) if len(matched) > 1 else matched[0]
    is_scored = expert.labels != UNSCORED
    if not is_scored.any():
        raise InputError("no epoch is scored, expected an expert's stages. Leave the night out.")
    if output is not None and not np.any(is_scored & ~np.isnan(output.probabilities[:, 0])):
        raise InputError("no epoch has both a stage and probabilities, expected some. Leave the night out.")
    return matched, expert.labels, expert.start


@contextmanager
def _errors_name_night(number: int) -> Iterator[None]:
    def say(part: object) -> object:  # "the expert" is no night of the list
        return str(part) if isinstance(part, NightNumber) else part

    try:
        yield
    except StageGuardError as error:
        night = NightNumber(number + 1, f"night {number}")
        raise InputError(Message(night, ": ", message_of(error).replace_parts(say))) from None


def _numbered_scorers(panels: Sequence[Sequence[Hypnogram]]) -> list[list[int]]:
    """Return a number for each scoring's scorer, who is known by name, else by index in the night's list."""
    number_of: dict[str, int] = {}
    return [
        [number_of.setdefault(scoring.scorer or f"\0{i}", len(number_of)) for i, scoring in enumerate(panel)]
        for panel in panels
    ]


def _one_epoch_length(seconds: Sequence[float]) -> float:
    # counts per epoch, such as transitions, mean something else at another length
    for i, length in enumerate(seconds):
        if length != seconds[0]:
            raise InputError(
                f"epochs last {seconds[0]:g} s in night 0 and {length:g} s in night {i}, expected one "
                "length. Fit a profile to each."
            )
    return seconds[0]


def _warn_of_missing_stages(material: Material, base: Profile) -> None:
    n = len(material.nights)
    for name, n_epochs in zip(material.scheme.names, material.counts().stage_epochs, strict=True):
        if not n_epochs:
            warn(
                f"stage {name!r} occurs in none of the {n} scored night{'s' * (n != 1)}: what is known about "
                f"it stays that of the base profile {base.name!r}."
            )


SAME_NIGHT_EPOCHS = 50  # two scorings of this many epochs and several bouts are not the same by chance


def refuse_overlaps(nights: Sequence[FitNight], epoch_seconds: float) -> None:
    """Refuse two nights of one subject at the same time; if only one has a time zone, by the clock."""
    by_subject: dict[str, list[FitNight]] = {}
    for night in nights:
        if night.start is not None:
            by_subject.setdefault(night.subject, []).append(night)
    for subject, recorded in by_subject.items():
        for night, other in combinations(recorded, 2):
            begins = [each.start for each in (night, other) if each.start is not None]
            is_mixed = (begins[0].tzinfo is None) != (begins[1].tzinfo is None)
            # a time zone cannot be compared with none
            clocks = [begin.replace(tzinfo=None) if is_mixed else begin for begin in begins]
            lengths = [timedelta(seconds=len(each.truth) * epoch_seconds) for each in (night, other)]
            ends = [clock + length for clock, length in zip(clocks, lengths, strict=True)]
            if min(ends) - max(clocks) <= timedelta(seconds=epoch_seconds / 2):
                continue
            first, later = (night, other) if clocks[0] <= clocks[1] else (other, night)
            if is_mixed:
                naive, zoned = (night, other) if begins[0].tzinfo is None else (other, night)
                raise InputError(
                    both_nights(naive.number, zoned.number) + f" of subject {subject!r} overlap by the "
                    f"clock: one begins at {naive.start} without a time zone, the other at {zoned.start}. "
                    "Leave one out, or give both their time zone."
                )
            raise InputError(
                both_nights(first.number, later.number) + f" of subject {subject!r} overlap: one lasts until "
                f"{ends[first is other]}, the other begins at {later.start}. Leave one out; several experts' "
                "scorings of a night go into one list."
            )


def refuse_repeats(nights: Sequence[FitNight]) -> None:
    """Refuse a night that is given twice: it would be on both sides of a split, or count double."""
    seen: dict[bytes, int] = {}
    for night in nights:
        changes = np.count_nonzero(np.diff(night.truth))
        if len(night.truth) < SAME_NIGHT_EPOCHS or changes < 3:
            continue
        first = seen.setdefault(night.truth.tobytes(), night.number)
        if first != night.number:
            raise InputError(
                both_nights(first, night.number) + " have the same expert stages, epoch for epoch: one night "
                "given twice. Leave one out."
            )
    _refuse_same_probabilities(nights)
    _refuse_same_expert(nights)


def _refuse_same_probabilities(nights: Sequence[FitNight]) -> None:
    """Refuse nights with the same probabilities, whoever scored them and however long they are."""
    seen: dict[bytes, FitNight] = {}
    for night in nights:
        if night.matrix is None or len(night.matrix) < SAME_NIGHT_EPOCHS:
            continue
        head = np.ascontiguousarray(night.matrix[:SAME_NIGHT_EPOCHS])
        if len(np.unique(head, axis=0)) < SAME_NIGHT_EPOCHS // 2:
            continue  # votes, constants: many nights may begin so
        first = seen.setdefault(head.tobytes(), night)
        if first is night:
            continue
        assert first.matrix is not None
        both = min(len(first.matrix), len(night.matrix))
        if np.array_equal(first.matrix[:both], night.matrix[:both], equal_nan=True):
            raise InputError(
                both_nights(first.number, night.number) + " have the same probabilities: one night given "
                "twice. Leave one out; several experts' scorings of a night go into one list."
            )


def _refuse_same_expert(nights: Sequence[FitNight]) -> None:
    """Refuse one expert's scorings given as those of two experts, which would count double.

    Two experts may agree completely on a short night, but not on all nights.
    """
    panels = [night.scorings for night in nights if len(night.scorings) > 1]
    changes = sum(np.count_nonzero(np.diff(panel[0])) for panel in panels)
    n_epochs = sum(len(panel[0]) for panel in panels)
    if n_epochs < SAME_NIGHT_EPOCHS or changes < 3:
        return
    for i, j in combinations(range(min(len(panel) for panel in panels)), 2):
        if all(np.array_equal(panel[i], panel[j]) for panel in panels):
            raise InputError(
                f"experts {i} and {j} have scored every night the same, epoch for epoch: one given twice. "
                "Leave one out."
            )
