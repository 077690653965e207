"""`fit` and `fit_report`: a profile fitted to scored nights, and checked on nights held out."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import ComparedByValue, Floats
from stageguard.errors import InputError, StageGuardWarning, warn
from stageguard.fitting.calibration import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from stageguard.fitting.candidates import (
    ARGMAX,
    DEFAULT,
    FEWEST_MATCHED_SUBJECTS,
    FEWEST_SUBJECTS,
    MANY_NIGHTS,
    Candidate,
    FitBase,
    Lesson,
    candidates_for,
    learn,
)
from stageguard.fitting.document import counted_document, fitted_document
from stageguard.fitting.judging import (
    COLUMNS,
    KAPPA,
    LEAST_KAPPA,
    Criterion,
    JudgedCandidate,
    Status,
    judge,
    paired_error,
    score,
    statistics_of,
)
from stageguard.fitting.nights import Kind, Nights, read_nights, with_confusions
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.guard.night import GuardOptions
from stageguard.lazy import ShownInNotebooks
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile, as_profile
from stageguard.profile.stagers import Training

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Output = Literal["argmax", "default", "fitted"]
OUTPUTS: tuple[Output, ...] = get_args(Output)  # of held-out nights, in this order

MANY_IMPOSSIBLE = 0.01  # of scored epochs: rounding does not give more true stages probability 0


@dataclass(frozen=True, slots=True)
class FitProgress:
    """Progress of a fit: rounds of cross-validation done, and their total."""

    done: int
    total: int
    what: str


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Every night decoded by profiles learned without its subject, in the caller's order."""

    subjects: tuple[str, ...]
    decoded: Mapping[Output, tuple[Decoding, ...]]
    scores: Floats  # (n_outputs, n_nights, n_metrics), outputs as in `OUTPUTS`
    chosen: tuple[Candidate, ...]  # in each round

    def gain(self, criterion: Criterion | None = None, *, over: Output = "argmax") -> tuple[float, float]:
        """Return the gain of the fit, in kappa or in the criterion: mean over subjects, standard error."""
        values = self.scores[:, :, KAPPA] if criterion is None else criterion.of(self.scores)
        fitted, other = (values[OUTPUTS.index(name)] for name in ("fitted", over))
        return paired_error(fitted, other, self.subjects)


@dataclass(frozen=True, slots=True, eq=False)
class FitReport(ComparedByValue, ShownInNotebooks):
    """Everything that a fit found."""

    profile: Profile  # its provenance holds what is below, rounded
    base: str  # name of the profile it started from
    n_nights: int
    n_subjects: int
    n_scored_epochs: int
    criterion: Criterion | None = None  # how candidates were ranked; None for hypnograms alone
    rows: tuple[JudgedCandidate, ...] = ()  # cross-validated scores of all, argmax and the default first
    chosen: Candidate | None = None  # what the profile does; the default when it steps aside
    reason: str = ""  # why, in one sentence
    nested: HeldOut | None = field(default=None, repr=False)  # None with fewer than three subjects
    notes: tuple[str, ...] = ()  # what was assumed, and what was left out for lack of nights

    @property
    def steps_aside(self) -> bool:
        """Whether the profile is the default: what is done without scored nights."""
        return self.chosen == DEFAULT

    def table(self) -> list[dict[str, Any]]:
        """Return the candidates' scores as plain rows, the chosen one included."""
        return [dict(zip(COLUMNS, row.cells(), strict=True)) for row in self.rows]

    def gains(self, over: Output = "argmax") -> dict[str, tuple[float, float]]:
        """Return the gain over argmax, or over the ``default``, on nights the fit did not see.

        Each is a mean over subjects and its standard error.
        """
        # cross-validated rows are no gain: the best of many looks better than it is
        if self.nested is None or self.criterion is None:
            return {}
        judged_by = {"kappa": None, "criterion": self.criterion}
        return {name: self.nested.gain(by, over=over) for name, by in judged_by.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        keys = ("mean", "standard_error")
        gains = {
            over: {name: dict(zip(keys, gain, strict=True)) for name, gain in self.gains(over).items()}
            for over in OUTPUTS[:2]
        }
        return {
            "profile": {"name": self.profile.name, "sha256": self.profile.sha256},
            "base": self.base,
            "cohort": self.profile.cohort,
            "n_nights": self.n_nights,
            "n_subjects": self.n_subjects,
            "n_scored_epochs": self.n_scored_epochs,
            "criterion": None if self.criterion is None else str(self.criterion),
            "chosen": None if self.chosen is None else self.chosen.name,
            "steps_aside": self.steps_aside,
            "reason": self.reason,
            "candidates": self.table(),
            "held_out_gain": gains["argmax"],
            "held_out_gain_over_default": gains["default"],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        """Return the nights, the chosen candidate and its gains."""
        chosen = "nothing to choose from" if self.chosen is None else f"chosen: {self.chosen.name}"
        held_out = [f"; {name} {m:+.3f} ± {error:.3f} held out" for name, (m, error) in self.gains().items()]
        nights = f"{self.n_nights} nights of {self.n_subjects} subjects, base {self.base}"
        return f"<FitReport {self.profile.name!r}: {nights}, {chosen}{''.join(held_out)}>"


@dataclass(frozen=True, slots=True)
class Choosing:
    """How candidates are compared, the same in every round of cross-validation."""

    base: FitBase
    candidates: tuple[Candidate, ...]  # that all nights allow: a choice on part of them is made as on all
    criterion: Criterion
    trained: Training | None
    n_folds: int
    seed: int


def fit_report(
    experts: Sequence[Hypnogram | Sequence[Hypnogram] | npt.NDArray[Any]],
    densities: Sequence[Hypnodensity | Hypnogram | npt.NDArray[Any]] | None = None,
    *,
    base: Profile | str,
    subjects: Sequence[Hashable] | None = None,
    cohort: str | None = None,
    stager: str | None = None,
    trained: Training | None = None,
    name: str | None = None,
    stages: Sequence[str] | None = None,
    epoch_seconds: float | None = None,
    logits: bool = False,
    log: bool = False,
    keep_accuracy: bool = False,
    fragmentation_weight: float = 2.0,
    statistics_weight: float = 0.3,
    statistics: Kind | None = None,
    n_folds: int = 5,
    seed: int = 0,
    progress: Callable[[FitProgress], None] | None = None,
    executor: Executor | None = None,
) -> FitReport:
    """Fit a profile and return everything that was learned: see `fit` for the parameters.

    Returns
    -------
    FitReport
        `profile`, `table()` of the candidates, `gains()` on nights it did not see.
    """
    profile = as_profile(base)
    criterion = Criterion(
        checks.number(fragmentation_weight, "fragmentation_weight", low=0.0),
        checks.number(statistics_weight, "statistics_weight", low=0.0),
        checks.flag(keep_accuracy, "keep_accuracy"),
    )
    n_folds, seed = checks.count(n_folds, "n_folds", low=2), checks.count(seed, "seed", low=0)
    for text, what in ((cohort, "cohort"), (name, "name"), (stager, "stager")):
        if text is not None:
            checks.text(text, what, empty=False)
    if trained is not None:
        checks.choice(trained, "trained", ("natural", "balanced"))
    if statistics is not None:
        checks.choice(statistics, "statistics", ("night", "day"))
    options = GuardOptions(
        stages=stages, epoch_seconds=epoch_seconds, logits=logits, log=log, trained=trained
    )
    nights = read_nights(experts, densities, profile, options=options, subjects=subjects, kind=statistics)
    fit_base = FitBase(profile, nights.epoch_seconds, cohort, stager)
    names = {"name": name or f"{profile.name}-fitted", "cohort": cohort, "stager": stager}
    n_subjects = len(nights.subjects)
    n_epochs = sum(int(np.count_nonzero(night.truth >= 0)) for night in nights)
    counts = (profile.name, len(nights), n_subjects, n_epochs)
    lesson = learn(fit_base, nights)
    if densities is None:  # nothing can be decoded, so that there is nothing to choose among
        counted = Profile.from_dict(counted_document(lesson, nights, names))
        return FitReport(counted, *counts, reason=counted.summary, notes=nights.assumed)
    _check_enough(n_subjects)
    candidates = candidates_for(len(nights), n_subjects, nights.scheme)
    choosing = Choosing(fit_base, candidates, criterion, trained, n_folds, seed)
    rows = _select(choosing, nights)
    nested = _held_out(choosing, nights, progress, executor)
    chosen, reason = _decide(rows, nested, criterion)
    notes = (*nights.assumed, *_notes(nights, choosing, rows, lesson))
    evidence: dict[str, Any] = {
        "chosen": chosen.name,
        "steps_aside": chosen == DEFAULT,
        "reason": reason,
        "statistics": list(statistics_of(nights.kind, nights.scheme)),
        "criterion": str(criterion),
        "temperature": lesson.temperature.temperature,
        "cross_validation": {"columns": list(COLUMNS), "rows": [list(row.cells()) for row in rows]},
    }
    decoded: tuple[Decoding, ...] = ()
    if nested is not None:
        evidence["nested"] = {"chosen_in_each_fold": [one.name for one in nested.chosen]}
        for over in OUTPUTS[:2]:
            for what, by in (("kappa", None), ("criterion", criterion)):
                key = f"{what}_gain" + "_over_default" * (over == "default")
                gain = nested.gain(by, over=over)
                evidence["nested"] |= {key: gain[0], f"{key}_error": gain[1]}
        decoded = nested.decoded["default" if chosen == DEFAULT else "fitted"]
    evidence |= {"seed": seed, "notes": list(notes)}
    document = fitted_document(lesson, nights, chosen, names, decoded, evidence)
    fitted = Profile.from_dict(document)
    if chosen == DEFAULT:
        warn(f"profile {fitted.name!r} does what {profile.name} does without scored nights. {reason}")
    return FitReport(fitted, *counts, criterion, rows, chosen, reason, nested, notes)


def _takes_the_arguments_of(
    function: Callable[Arguments, object],
) -> Callable[[Callable[..., Result]], Callable[Arguments, Result]]:
    """Give a function another's signature, for type checkers and `help`."""

    def decorate(wrapper: Callable[..., Result]) -> Callable[Arguments, Result]:
        returns = inspect.signature(wrapper, eval_str=True).return_annotation
        listed = inspect.signature(function, eval_str=True).replace(return_annotation=returns)
        wrapper.__signature__ = listed  # type: ignore[attr-defined]
        types = {name: parameter.annotation for name, parameter in listed.parameters.items()}
        wrapper.__annotations__ = {**types, "return": returns}
        return wrapper

    return decorate


@_takes_the_arguments_of(fit_report)
def fit(*nights: Any, **options: Any) -> Profile:
    """Fit a profile to nights that both a stager and an expert scored.

    Counts transitions, calibrates the probabilities, and chooses how to guard by cross-validation in which no
    subject is on both sides. Each candidate is compared with the default, which needs no scored nights: the
    base profile, with its clock, tuned to the stager if there are ten nights. If none is surely better, the
    fitted profile steps aside: it is the default.

    Parameters
    ----------
    experts : list of Hypnogram, of lists of Hypnogram, or of label arrays
        An expert's scoring of each night, or those of several experts.
    densities : list of Hypnodensity, Hypnogram or arrays (n_epochs, n_stages), optional
        The stager's probabilities, or its labels if it gives labels alone: then its confusions are counted,
        those of each person on the others. Without them the profile is fitted to the experts alone:
        transitions and bands.
    base : Profile or str
        The profile to start from: stages, bands, cautions.
    subjects : sequence, optional
        Whose each night is; nights of a subject are kept together when nights are split. For litters or
        families that must not be split, name those. By default every night is another subject's.
    cohort : str, optional
        Who was recorded. Other cohorts are decoded by the base profile.
    stager : str, optional
        Name of the stager, with version and channels. Nights of others are decoded by the base profile.
    trained : {"natural", "balanced"}, optional
        How the stager was trained, as in `decode`: whether the default lifts minority stages.
    name : str, optional
        Name of the profile; by default the base's with "-fitted".
    stages, epoch_seconds, logits, log
        How bare arrays are read, as in `decode`.
    keep_accuracy : bool
        Also drop candidates whose cross-validated accuracy is below the default's.
    fragmentation_weight : float
        How many points of kappa a point of distance to the expert's fragmentation index is worth.
    statistics_weight : float
        How many points of kappa the errors of sleep statistics are worth, where argmax's errors count as 1:
        kappa must not be gained at the expense of minutes of sleep and wake.
    statistics : {"night", "day"}, optional
        Which statistics. ``night``: TST, SE, SOL, REM latency, WASO, awakenings, bouts. ``day``: minutes and
        bouts of every stage. By default ``day`` if epochs are shorter than 15 s or a recording has 20 h.
    n_folds : int
        Folds of every cross-validation, at most as many as there are subjects.
    seed : int
        The same nights and seed give the same folds and profile, whatever the order of the nights.
    progress : callable, optional
        Called with a `FitProgress` after every round of the outer cross-validation.
    executor : concurrent.futures.Executor, optional
        Runs the folds of the outer cross-validation; by default they run here, one after the other.

    Returns
    -------
    Profile
        Its provenance holds the cross-validation table. `fit_report` returns that and more.

    Examples
    --------
    >>> import stageguard as sg
    >>> nights = [sg.simulate_night("human-actigraphy-2", hours=1, seed=seed) for seed in range(5)]
    >>> densities, experts = [night.density for night in nights], [night.expert for night in nights]
    >>> sg.fit(experts, densities, base="human-actigraphy-2", name="ours").name
    'ours'
    """
    return fit_report(*nights, **options).profile


def split(nights: Nights, n_folds: int, seed: int) -> list[tuple[Nights, Nights]]:
    """Return training and held-out nights of folds of whole subjects, the same for the same seed.

    Folds have about equally many nights. What stands for labels is counted on the training nights alone.
    """
    subjects, sizes = nights.subjects, Counter(nights.whose)
    order = [subjects[i] for i in np.random.default_rng(seed).permutation(len(subjects))]
    parts: list[list[str]] = [[] for _ in range(min(n_folds, len(subjects)))]
    # those with most nights first, so that the others even out the folds
    for subject in sorted(order, key=lambda subject: -sizes[subject]):
        min(parts, key=lambda part: (sum(sizes[s] for s in part), len(part))).append(subject)
    folds = []
    for part in parts:
        train, test = nights.of(set(subjects) - set(part)), nights.of(part)
        folds.append((with_confusions(train), with_confusions(train, test)))
    return folds


def decode_by(
    lesson: Lesson, candidate: Candidate, nights: Nights, trained: Training | None
) -> list[Decoding]:
    """Return nights decoded by a candidate; by the default as they are without scored nights."""
    given = [night.unscored if candidate == DEFAULT else night.density for night in nights]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)  # a fit may change many epochs
        return decode([each for each in given if each], lesson.profile(candidate), trained=trained)


def _no_scores(outputs: Sequence[object], nights: Nights) -> Floats:
    """Return an array of scores to be filled, (n_outputs, n_nights, n_metrics)."""
    return np.full((len(outputs), len(nights), 4 + len(statistics_of(nights.kind, nights.scheme))), np.nan)


def _scores(nights: Nights, decoded: Sequence[Decoding]) -> list[list[float]]:
    return [score(night, one.hypnogram, nights.kind) for night, one in zip(nights, decoded, strict=True)]


def _select(choosing: Choosing, nights: Nights) -> tuple[JudgedCandidate, ...]:
    """Cross-validate every candidate, and choose one."""
    scores = _no_scores(choosing.candidates, nights)
    place, lesson = {night.number: i for i, night in enumerate(nights)}, None
    for train, test in split(nights, choosing.n_folds, choosing.seed):
        lesson = learn(choosing.base, train, like=lesson)
        for i, candidate in enumerate(choosing.candidates):
            decoded = decode_by(lesson, candidate, test, choosing.trained)
            scores[i, [place[night.number] for night in test]] = _scores(test, decoded)
    return judge(choosing.candidates, scores, nights.whose, choosing.criterion, DEFAULT)


def _chosen(rows: Sequence[JudgedCandidate]) -> Candidate:
    return next(row.candidate for row in rows if row.status == "chosen")


def _held_out(
    choosing: Choosing,
    nights: Nights,
    progress: Callable[[FitProgress], None] | None,
    executor: Executor | None,
) -> HeldOut | None:
    """Choose and fit on each fold's training nights, and decode the nights held out.

    With two subjects a fold trains on one, which cannot be split again.
    """
    folds = split(nights, choosing.n_folds, choosing.seed)
    if min(len(train.subjects) for train, _ in folds) < FEWEST_SUBJECTS:
        return None
    results = (map if executor is None else executor.map)(partial(_outer_round, choosing), folds)
    scores, chosen = _no_scores(OUTPUTS, nights), []
    decoded: dict[Output, dict[int, Decoding]] = {name: {} for name in OUTPUTS}
    for (_, test), (candidate, outputs) in zip(folds, results, strict=True):
        numbers = [night.number for night in test]
        chosen.append(candidate)
        for i, (name, own) in enumerate(zip(OUTPUTS, outputs, strict=True)):
            scores[i, numbers] = _scores(test, own)
            decoded[name] |= dict(zip(numbers, own, strict=True))
        if progress is not None:
            progress(FitProgress(len(chosen), len(folds), "cross-validating"))
    subjects = {night.number: night.subject for night in nights}
    in_order = {name: tuple(own[i] for i in range(len(nights))) for name, own in decoded.items()}
    return HeldOut(tuple(subjects[i] for i in range(len(nights))), in_order, scores, tuple(chosen))


def _outer_round(choosing: Choosing, fold: tuple[Nights, Nights]) -> tuple[Candidate, list[list[Decoding]]]:
    """Return what one fold's training nights choose, and its other nights decoded in each of `OUTPUTS`."""
    train, test = fold
    candidate, lesson = _chosen(_select(choosing, train)), learn(choosing.base, train)
    return candidate, [
        decode_by(lesson, each, test, choosing.trained) for each in (ARGMAX, DEFAULT, candidate)
    ]


def _check_enough(n_subjects: int) -> None:
    if n_subjects < FEWEST_SUBJECTS:
        wanted = f"expected {FEWEST_SUBJECTS} or more to cross-validate, better {MANY_NIGHTS}"
        raise InputError(f"the nights are of {n_subjects} subject, {wanted}.")
    if n_subjects < FEWEST_MATCHED_SUBJECTS:
        warn(f"{n_subjects} subjects are few: hardly any gain over the default is sure.")


def _notes(nights: Nights, choosing: Choosing, rows: Sequence[JudgedCandidate], lesson: Lesson) -> list[str]:
    """Return notes on what was left out and what looks wrong; warn of what most likely is wrong."""
    notes = []
    if not any(one.rule == "match" for one in choosing.candidates):
        found = f"{len(nights)} scored nights of {len(nights.subjects)} subjects"
        needed = f"expected {MANY_NIGHTS} of {FEWEST_MATCHED_SUBJECTS} or more"
        notes.append(f"rule 'match' was not compared: {found}, {needed}")
    if nights.kind == "day":
        notes.append("minutes and bouts of every stage are weighed, as of recordings around the clock")
    temperature = lesson.temperature.temperature
    # a search that ends at its bound has found no optimum
    if not LOWEST_TEMPERATURE * 1.01 < temperature < HIGHEST_TEMPERATURE * 0.99:
        notes.append(f"the temperature {temperature:.3g} is at its bound: the probabilities say little")
    if lesson.impossible_share > MANY_IMPOSSIBLE:
        notes.append(
            f"{lesson.impossible_share:.1%} of the experts' stages have probability 0, which no temperature "
            "can soften: these look like votes or rounded numbers. Mix in a little of the uniform "
            "distribution first"
        )
        warn(f"{notes[-1]}.")
    # columns in another order are the commonest mistake, and no fit can repair them
    if rows[0].kappa < LEAST_KAPPA:
        warn(
            f"kappa of argmax is {rows[0].kappa:.3f}, expected well above 0. Are the columns in the right "
            "order, and the nights paired with their own scorings?"
        )
    return notes


_DROPPED: dict[Status, str] = {
    "no kappa to judge by": "have no kappa, the experts' nights being of one stage",
    "agrees by chance": "agree with the experts hardly more than by chance",
    "kappa below the default": "lower the cross-validated kappa",
    "accuracy below the default": "lower the accuracy",
    "errors above the default": "enlarge the errors of sleep statistics",
    "gain not sure": "do not gain reliably",
}
KEPT = "No candidate reliably beat the default; the default is kept"


def _decide(
    rows: Sequence[JudgedCandidate], nested: HeldOut | None, criterion: Criterion
) -> tuple[Candidate, str]:
    """Take the choice, unless held-out nights show that choosing so does harm; and say why."""
    chosen, default = (next(row for row in rows if row.status == "chosen"), rows[1])
    if chosen == default:
        rest = [row.status for row in rows if row != default]
        counted = [f"{rest.count(status)} {words}" for status, words in _DROPPED.items() if status in rest]
        return DEFAULT, f"{KEPT} (of {len(rest)}: {', '.join(counted)})."
    for what, judged_by, n_errors in (("kappa", None, -1.0), ("the criterion", criterion, 1.0)):
        gain, error = (np.inf, 0.0) if nested is None else nested.gain(judged_by, over="default")
        # the best of many candidates is better by chance: choosing so must gain, and not at kappa's expense
        if not gain >= n_errors * error:
            return DEFAULT, (
                f"{KEPT} (on held-out nights, the choice changes {what} by {gain:+.3f}, SE {error:.3f})."
            )
    name = chosen.candidate.name
    return chosen.candidate, (
        f"{name[0].upper()}{name[1:]}: cross-validated kappa {chosen.kappa:.3f} against "
        f"{default.kappa:.3f} of the default, distance to the experts' fragmentation index "
        f"{chosen.fi_distance:.3f} against {default.fi_distance:.3f}, errors of sleep statistics "
        f"{chosen.error:.2f} times argmax's against {default.error:.2f}."
    )
