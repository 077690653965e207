"""`fit` and `fit_report`: a profile fitted to scored nights."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ParamSpec, TypeVar

import numpy.typing as npt

from stageguard import checks
from stageguard.errors import InputError, StageGuardWarning, warn
from stageguard.fitting.calibration import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from stageguard.fitting.candidates import (
    FEW_SUBJECTS_GAIN,
    FEWEST_SUBJECTS,
    FEWEST_TUNED_SUBJECTS,
    STRENGTH_RULES,
    Scope,
)
from stageguard.fitting.cross_validation import (
    Choosing,
    Folds,
    HeldOut,
    Selection,
    can_nest,
    held_out,
    select,
    split,
)
from stageguard.fitting.document import FitChoice, FitNames, Fitted, default_words, fitted_document
from stageguard.fitting.endpoints import Kind
from stageguard.fitting.judging import LEAST_KAPPA, Criterion, Status
from stageguard.fitting.label_shares import across_groups
from stageguard.fitting.learning_curve import LearningCurve, learning_curve, sizes_below
from stageguard.fitting.material import Material, read_material
from stageguard.fitting.report import FitReport
from stageguard.fitting.training import FitBase, Training, train
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.guard.options import GuardOptions, set_signature
from stageguard.night.hypnodensity import FromLabels, Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.known_stagers import Training as Trained
from stageguard.profile.profile import Profile, as_profile
from stageguard.profile.rules.rule import MANY_NIGHTS

Nights = Sequence[Hypnodensity | Hypnogram | npt.NDArray[Any]]
Experts = Sequence[Hypnogram | Sequence[Hypnogram] | npt.NDArray[Any]]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

MANY_IMPOSSIBLE = 0.01  # of scored epochs: rounding does not give more true stages probability 0


@dataclass(frozen=True, slots=True)
class FitProgress:
    """Progress of a fit: rounds of cross-validation done, and their total."""

    done: int
    total: int
    what: str


def fit_report(
    experts: Experts,
    densities: Nights | None = None,
    *,
    base: Profile | str,
    groups: Sequence[Hashable] | None = None,
    subjects: Sequence[Hashable] | None = None,
    cohort: str | None = None,
    stager: str | None = None,
    trained: Trained | None = None,
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
    learning_curve: bool = True,
    seed: int = 0,
    progress: Callable[[FitProgress], None] | None = None,
    executor: Executor | None = None,
) -> FitReport:
    """Fit a profile and return everything that was learned: see `fit` for the parameters.

    Returns
    -------
    FitReport
        `profile`, `table()` of the candidates, `gains()` on nights it did not see, `learning_curve`.
    """
    profile = as_profile(base)
    criterion = Criterion(
        checks.number(fragmentation_weight, "fragmentation_weight", low=0.0),
        checks.number(statistics_weight, "statistics_weight", low=0.0),
        checks.flag(keep_accuracy, "keep_accuracy"),
    )
    with_curve = checks.flag(learning_curve, "learning_curve")
    n_folds, seed = checks.count(n_folds, "n_folds", low=2), checks.count(seed, "seed", low=0)
    for text, what in ((cohort, "cohort"), (name, "name"), (stager, "stager")):
        if text is not None:
            checks.text(text, what, empty=False)
    if trained is not None:
        checks.choice(trained, "trained", ("natural", "balanced"))
    if statistics is not None:
        checks.choice(statistics, "statistics", ("night", "day"))
    if progress is not None and not callable(progress):
        raise InputError(
            f"progress is {checks.shown(progress)}, expected a function that takes a FitProgress."
        )
    if executor is not None and not callable(getattr(executor, "map", None)):
        raise InputError(f"executor is {checks.shown(executor)}, expected a concurrent.futures.Executor.")
    options = GuardOptions(
        stages=stages, epoch_seconds=epoch_seconds, logits=logits, log=log, trained=trained
    )
    material = read_material(
        experts,
        densities,
        profile,
        options=options,
        groups=groups,
        subjects=subjects,
        statistics=statistics,
    )
    material = across_groups(material)
    fit_base = FitBase(profile, material.epoch_seconds, cohort=cohort, stager=stager)
    names = FitNames(name or f"{profile.name}-fitted", cohort, seed, material.assumed, stager)
    # without probabilities nothing can be decoded, so that there is nothing to choose among
    if not material.has_probabilities:
        return _fit_hypnograms_alone(material, fit_base, names, n_folds)
    _check_enough(material)
    choosing = Choosing(fit_base, criterion, n_folds, seed, executor=executor)
    return _fit_by_cross_validation(material, choosing, names, progress, with_curve=with_curve)


def _takes_the_arguments_of(
    function: Callable[Arguments, object],
) -> Callable[[Callable[..., Result]], Callable[Arguments, Result]]:
    """Give a function another's signature, for type checkers and `help`."""

    def decorate(wrapper: Callable[..., Result]) -> Callable[Arguments, Result]:
        returns = inspect.signature(wrapper, eval_str=True).return_annotation
        set_signature(wrapper, inspect.signature(function, eval_str=True).replace(return_annotation=returns))
        return wrapper

    return decorate


@_takes_the_arguments_of(fit_report)
def fit(*nights: Any, **options: Any) -> Profile:
    """Fit a profile to nights that both a stager and an expert scored.

    Counts transitions and bouts, calibrates the probabilities, and chooses how to guard by cross-validation
    in which no subject is on both sides. Each candidate is compared with the default, which needs no scored
    nights: the base profile, with its clock, tuned to the stager if there are ten nights. If none is better,
    the fitted profile steps aside: it is the default.

    Parameters
    ----------
    experts : list of Hypnogram, of lists of Hypnogram, or of label arrays
        An expert's scoring of each night, or those of several experts.
    densities : list of Hypnodensity, Hypnogram or arrays (n_epochs, n_stages), optional
        The stager's probabilities, or its labels if it gives labels alone: then its confusions are counted,
        those of each person on the others. Without them the profile is fitted to the experts alone:
        transitions, durations and bands.
    base : Profile or str
        The profile to start from: stages, rare stages' transitions, bands, cautions.
    groups : sequence, optional
        The group of each night, which is kept together when nights are split: its subject, litter or family.
        Without groups, every night is taken as a subject of its own.
    subjects : sequence, optional
        The subject of each night, if groups are larger than subjects.
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
        Folds of every cross-validation, at most as many as there are groups.
    learning_curve : bool
        Whether to find out how many scored nights are enough; takes about as long as all the rest.
    seed : int
        The same nights and seed give the same folds and profile, whatever the order of the nights.
    progress : callable, optional
        Called with a `FitProgress` after every round.
    executor : concurrent.futures.Executor, optional
        Runs the folds of the outer cross-validation and of the learning curve; by default they run here, one
        after the other. The profile is the same.

    Returns
    -------
    Profile
        Its provenance holds the cross-validation table. `fit_report` returns that and more.

    Raises
    ------
    InputError
        The two lists are swapped; a night is given twice, does not fit its scoring, or overlaps with another
        of its subject; there is only one subject; an option does not fit the nights.

    Examples
    --------
    >>> import stageguard as sg
    >>> nights = [sg.simulate_night("human-actigraphy-2", hours=1, seed=seed) for seed in range(5)]
    >>> densities, experts = [night.density for night in nights], [night.expert for night in nights]
    >>> sg.fit(experts, densities, base="human-actigraphy-2", name="ours", learning_curve=False).name
    'ours'
    """
    return fit_report(*nights, **options).profile


def _fit_by_cross_validation(
    material: Material,
    choosing: Choosing,
    names: FitNames,
    progress: Callable[[FitProgress], None] | None,
    *,
    with_curve: bool,
) -> FitReport:
    """Choose, check the choice, and write the profile."""
    folds = split(material, choosing.n_folds, choosing.seed)
    # with two subjects a fold trains on one, which cannot be split again
    nests = can_nest(folds)
    n_rounds = _n_rounds(material, folds, choosing.n_folds, with_curve=with_curve)
    if progress is not None:
        rounds = count(1)

        def tick() -> None:
            progress(FitProgress(min(next(rounds), n_rounds), n_rounds, "cross-validating"))

        choosing = replace(choosing, tick=tick)
    # an outer fold has fewer nights, but must try what all nights allow: the choice itself is checked
    scope = Scope.of(material)
    selection = select(material, choosing)
    nested = held_out(folds, material, replace(choosing, scope=scope)) if nests else None
    curve = None
    if nested is not None and with_curve:
        curve = learning_curve(folds, material, nested, choosing)
    choice = decide(selection, nested, curve, choosing.criterion)
    # all nights teach the profile that is returned; the folds only chose it
    training = selection.train(choice.candidate, material)
    names = replace(names, notes=(*names.notes, *_notes(material, scope, selection, training)))
    fitted = Fitted(training, names, choice)
    if nested is not None:
        fitted = replace(fitted, decoded=held_out_decodings(nested, by_default=choice.steps_aside))
    return _report(fitted)


def held_out_decodings(held_out: HeldOut, *, by_default: bool) -> list[Decoding]:
    """Return every night decoded by the profile fitted without it, or by the default."""
    material, decoded = held_out.nights, []
    profiles = held_out.default_profiles if by_default else held_out.profiles
    for night, profile in zip(material.nights, profiles, strict=True):
        assert night.matrix is not None
        # the coverage of intervals depends on what the stager gives
        from_labels: FromLabels | None = None if night.said is None else "own"
        about = (material.scheme, material.epoch_seconds)
        density = Hypnodensity(night.matrix, *about, from_labels=from_labels)
        if by_default:
            density = night.unscored(material)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)  # a fit may change many epochs
            decoded.append(decode(density, profile, trained=night.trained))
    return decoded


def _n_rounds(material: Material, folds: Folds, n_folds: int, *, with_curve: bool) -> int:
    """Return how many folds will be evaluated in all."""
    total = min(n_folds, len(material.groups))
    if not can_nest(folds):
        return total
    sizes = [len(train.groups) for train, _ in folds]
    total += sum(min(n_folds, size) for size in sizes)
    if with_curve:
        total += sum(len(folds) * min(n_folds, size) for size in sizes_below(min(sizes)))
    return total


def _notes(material: Material, scope: Scope, selection: Selection, training: Training) -> list[str]:
    """Return notes on what was left out and what looks wrong; warn of what most likely is wrong."""
    notes = []
    for rule in STRENGTH_RULES if scope.tuned else ():
        if not scope.allows(rule):
            n, fewest = scope.n_nights, rule.fewest_nights
            notes.append(f"{rule.rule} was not compared: {n} scored nights, it takes {fewest}")
    if material.endpoints.kind == "day":
        notes.append("minutes and bouts of every stage are weighed, as of recordings around the clock")
    temperature = training.temperature.temperature
    # a search that ends at its bound has found no optimum
    if not LOWEST_TEMPERATURE * 1.001 < temperature < HIGHEST_TEMPERATURE * 0.999:
        notes.append(f"the temperature {temperature:.3g} is at its bound: the probabilities say little")
    impossible = training.impossible_share
    if impossible > MANY_IMPOSSIBLE:
        notes.append(
            f"{impossible:.1%} of the experts' stages have probability 0, which no temperature "
            "can soften: these look like votes or rounded numbers. Mix in a little of the uniform "
            "distribution first"
        )
        warn(f"{notes[-1]}.")
    kappa = selection.rows[0].kappa
    # columns in another order are the commonest mistake, and no fit can repair them
    if kappa < LEAST_KAPPA:
        warn(
            f"kappa of argmax is {kappa:.3f}, expected well above 0. Are the columns in the right order, and "
            "the nights paired with their own scorings?"
        )
    return notes


def _report(fitted: Fitted) -> FitReport:
    material, choice = fitted.training.material, fitted.choice
    profile = Profile.from_dict(fitted_document(fitted))
    report = FitReport(
        profile=profile,
        base=fitted.training.base.profile.name,
        n_nights=len(material.nights),
        n_subjects=len(material.subjects),
        n_scored_epochs=sum(night.n_scored for night in material.nights),
        criterion=None if choice is None else choice.criterion,
        rows=() if choice is None else choice.selection.rows,
        chosen=None if choice is None else choice.candidate,
        steps_aside=choice is not None and choice.steps_aside,
        reason=profile.summary if choice is None else choice.reason,
        nested=None if choice is None or choice.nested is None else choice.nested.in_callers_order(),
        learning_curve=None if choice is None else choice.curve,
        n_complete_bouts=material.counts().n_complete_bouts(),
        notes=fitted.names.notes,
    )
    if report.steps_aside:
        does = default_words(fitted.training)
        warn(f"profile {profile.name!r} does {does}, as without scored nights. {report.reason}")
    return report


def _fit_hypnograms_alone(material: Material, base: FitBase, names: FitNames, n_folds: int) -> FitReport:
    """Return the report of a fit to hypnograms alone."""
    if len(material.groups) >= FEWEST_SUBJECTS:
        # tables of bout lengths must predict other people's bouts, which one subject cannot show
        base = base.with_supported_durations(split(material, n_folds, names.seed))
    return _report(Fitted(train(base, material), names))


def _check_enough(material: Material) -> None:
    n_groups = len(material.groups)
    if n_groups < FEWEST_SUBJECTS:
        raise InputError(
            f"the nights are of {n_groups} subject, expected {FEWEST_SUBJECTS} or more to cross-validate, "
            f"better {MANY_NIGHTS}. Hypnograms alone, without densities, can be counted on one."
        )
    if n_groups < FEWEST_TUNED_SUBJECTS:
        compared = ", ".join(rule.rule for rule in STRENGTH_RULES if not rule.fewest_nights)
        needy = [rule for rule in STRENGTH_RULES if rule.fewest_nights]
        later = "".join(f", from {rule.fewest_nights} nights on {rule.rule}" for rule in needy)
        warn(
            f"{n_groups} subjects are few: only argmax, the default, {compared}, the clock and stage biases "
            f"(if kappa gains {FEW_SUBJECTS_GAIN:g}) are compared. From "
            f"{FEWEST_TUNED_SUBJECTS} subjects on weights, minimum bouts and bout lengths are chosen{later}."
        )


def _not_confirmed(nested: HeldOut, criterion: Criterion) -> str:
    """Return why nights held out from the choosing do not show that it is better than the default, if so."""
    for name, judged_by, n_errors in (("kappa", None, -1.0), ("the criterion", criterion, 1.0)):
        gain, error = nested.gain(judged_by, over="default")
        # the best of many candidates is better by chance: choosing so must gain, and not at kappa's expense
        if not gain >= n_errors * error:
            return (
                f"on nights held out from the choosing {name} changes, from the default's, by {gain:+.3f} "
                f"(error {error:.3f})"
            )
    return ""


_DROPPED: dict[Status, str] = {
    "no kappa to judge by": "have no kappa, the experts' nights being of one stage",
    "agrees by chance": "agree with the experts hardly more than by chance",
    "kappa below the default": "fall below its cross-validated kappa",
    "accuracy below the default": "below its accuracy",
    "errors above the default": "make larger errors of sleep statistics",
    "gain within its error": "do not surely gain",
    "kappa not surely gained": "shift evidence between stages without a sure gain of kappa",
    "not surely better": "are not surely better",
}


def decide(
    selection: Selection, nested: HeldOut | None, curve: LearningCurve | None, criterion: Criterion
) -> FitChoice:
    """Take the choice, unless held-out nights show that choosing so does harm."""
    chosen, why, default = selection.chosen, "", selection.base.default
    if chosen == default:
        rest = [row.status for row in selection.rows if row.candidate != default]
        counted = (f"{rest.count(status)} {words}" for status, words in _DROPPED.items() if status in rest)
        why = f"against the default, of {len(rest)} candidates {', '.join(counted) or 'none can be judged'}"
    elif nested is not None:
        why = _not_confirmed(nested, criterion)
    if why:
        return FitChoice(default, f"It steps aside: {why}.", selection, nested, curve, criterion)
    best, usual = (next(row for row in selection.rows if row.candidate == one) for one in (chosen, default))
    reason = (
        f"{chosen.name[0].upper()}{chosen.name[1:]}: cross-validated kappa {best.kappa:.3f} against "
        f"{usual.kappa:.3f} of the default, distance to the experts' fragmentation index "
        f"{best.fi_distance:.3f} against {usual.fi_distance:.3f}, errors of sleep statistics "
        f"{best.error:.2f} times argmax's against {usual.error:.2f}."
    )
    return FitChoice(chosen, reason, selection, nested, curve, criterion)
