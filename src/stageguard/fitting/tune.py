"""`tune`: fit the strength and the stage shares of a profile to one stager's unscored nights.

A stager that was trained on a few people, or on people unlike these, gives too much of one stage. Stage
biases bring such shares to the range of experts; the epochs that it is least certain of go first.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError, StageGuardError
from stageguard.guard.night import DEFAULTS, GuardOptions, Night, OneNight, fragmentation_index, is_batch
from stageguard.profile.parts import Calibration, ShareRepair
from stageguard.profile.profile import Profile, as_profile
from stageguard.profile.rules import FEWEST_NIGHTS, StrengthRule, TargetRule
from stageguard.profile.stagers import Training
from stageguard.version import __version__

LEAST_SHARPNESS = 0.7  # mean highest probability: with less, stages are too uncertain to be moved by biases
LEAST_HOURS = 5.0  # median over nights: in shorter ones, REM is missing that experts score later
LARGEST_BIAS_NATS = 1.0
STEP = 0.3  # of the log ratio of shares, per round
LEAST_MOVE_NATS = 1e-3  # of a round that goes on
MOST_ROUNDS = 100
NO_SHARE = 0.001  # added to shares, which may be 0
_DIGITS = 4
_LOWEST_FI, _HIGHEST_FI = 1e-4, 1.0  # a night of a single stage has 0, and rules divide by the median

Outcome = Literal[
    "repaired", "in range", "unsure", "short nights", "named cohort", "labels alone", "lifted", "no range"
]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredNight:
    """What `tune` needs of a night: how it flickers and, if shares can be repaired, its evidence."""

    stager_fi: float  # fragmentation index of argmax, at the profile's epoch length; NaN without pairs
    sharpness: float  # mean over the epochs of the highest probability
    digest: bytes  # of the probabilities
    log_rows: npt.NDArray[np.float32] | None = None  # (n_epochs, n_stages) of the epochs measured, NaN: none
    epoch_ratio: float = 1.0  # of the night's epoch length to the profile's
    is_of_labels: bool = False  # it has labels alone, and every epoch of a stage is as certain
    is_lifted: bool = False  # the stager's training is natural, and the rule lifts rare stages for that

    @classmethod
    def of(cls, night: Night, profile: Profile) -> MeasuredNight:
        """Return what is needed of a night that is read under a profile."""
        ratio = night.epoch_seconds / profile.epoch_seconds
        measured = slice(*night.period) if night.period[0] < night.period[1] else slice(None)
        rows, is_of_labels, rule = night.probabilities[measured], bool(night.from_labels), profile.strength
        stager_fi = min(night.fragmentation_index(night.argmax) / ratio, 1.0)
        known = rows[night.argmax[measured] >= 0]
        sharpness = float((known / known.sum(axis=1, keepdims=True)).max(axis=1).mean())
        about = stager_fi, sharpness, hashlib.sha256(rows.tobytes()).digest()
        is_lifted = rule is not None and rule.asks_training and night.options.trained == "natural"
        if profile.shares is None or is_of_labels or is_lifted:
            return cls(*about, None, ratio, is_of_labels, is_lifted)
        return cls(*about, night.calibrated()[measured].astype(np.float32), ratio)

    def fragmentation_index(self, biases: Floats) -> float:
        """Return the index of the stages that biases lead to, at the profile's epoch length."""
        assert self.log_rows is not None
        known = ~np.isnan(self.log_rows[:, 0])
        labels = np.where(known, (self.log_rows + biases.astype(np.float32)).argmax(axis=1), -1)
        index = fragmentation_index(labels.astype(np.int8), ((0, len(labels)),))
        return min(index / self.epoch_ratio, 1.0)


class Repair(NamedTuple):
    """Whether shares are repaired, the reason if they are not, and otherwise how."""

    outcome: Outcome
    record: ShareRepair | None = None
    biases: tuple[float, ...] | None = None  # nats per stage


def tune(
    densities: Sequence[OneNight],
    base: Profile | str,
    *,
    stager: str | None = None,
    name: str | None = None,
    subjects: Sequence[Hashable] | None = None,
    cohort: str | None = None,
    trained: Training | None = None,
    stages: Sequence[str] | None = None,
    epoch_seconds: float | None = None,
    logits: bool = False,
    log: bool = False,
) -> Profile:
    """Tune a profile to a stager, from ten or more of its unscored nights.

    Flicker is a property of the stager, fragmentation one of the sleeper. Whether the stager flickers is
    decided once, by the median fragmentation index of its argmax: if that is more than ``act_above`` times
    the experts', every night is brought to the experts' index times the square root of its own index divided
    by the median, so that half of the differences between people are kept. Otherwise no night is smoothed.

    Shares of the stages that experts' scorings of as many people do not show, over cohorts and with a margin,
    are brought to the edge of that range by stage biases of at most 1 nat, unless the stager is too unsure or
    known to be trained on natural class frequencies, which the rule mends night by night.

    Parameters
    ----------
    densities : list of Hypnodensity or arrays (n_epochs, n_stages)
        The stager's probabilities, ten nights or more.
    base : Profile or str
        Profile to tune, whose strength aims at the experts' fragmentation, such as ``human-psg-5``.
    stager : str, optional
        Name of the stager, with version and channels: ``"YASA 0.8 C4-M1"``.
    name : str, optional
        Name of the profile; by default the base's with "-tuned".
    subjects : sequence, optional
        Whose each night is. By default every night is another subject's.
    cohort : str, optional
        Who was recorded. Stage shares are not repaired for a cohort that the base has a caution for, such as
        "insomnia", or that is not the base's own.
    trained : {"natural", "balanced"}, optional
        How the stager was trained, as in `decode`; by default as known of the format of its files.
    stages, epoch_seconds, logits, log
        How bare arrays are read, as in `decode`.

    Returns
    -------
    Profile
        The base with the stager's median index in ``strength``, the biases in ``calibration`` if its shares
        were repaired (and how in ``shares.repair``). Its provenance says what was decided. If the stager is
        named, what belongs to it is left out for nights of other stagers, and where none is named.

    Examples
    --------
    >>> import stageguard as sg
    >>> nights = [sg.simulate_night("human-psg-5", hours=1, seed=seed).density for seed in range(10)]
    >>> profile = sg.tune(nights, "human-psg-5", stager="YASA 0.8 C4-M1")
    >>> profile.provenance["decision"].partition(":")[0]
    'The stager flickers'
    """
    base = as_profile(base)
    if not is_batch(densities):
        raise InputError(f"densities: got {checks.shown(densities)}, expected {FEWEST_NIGHTS} or more.")
    check_base(base)
    options = GuardOptions(
        stages=stages, epoch_seconds=epoch_seconds, logits=logits, log=log, trained=trained
    )
    nights = []
    for i, density in enumerate(densities):
        try:
            nights.append(measure(density, base, options))
        except StageGuardError as error:
            raise type(error)(f"night {i}: " + str(error)) from None
    return tuned_profile(nights, base, stager, name, subjects=subjects, cohort=cohort)


def can_be_tuned(base: Profile) -> bool:
    """Whether a profile has a strength rule, and neither stage shares nor biases that scored nights gave."""
    return base.strength is not None and not _has_shares(base)


def _has_shares(base: Profile) -> bool:
    return bool(base.prior_exponent) or (bool(base.calibration.biases) and base.share_repair is None)


def check_base(base: Profile) -> StrengthRule:
    """Return the strength rule of a profile that can be tuned; refuse others."""
    if base.strength is None:
        wanted = "expected one whose strength is a rule, such as human-psg-5"
        raise InputError(f"profile {base.name!r} cannot be tuned, {wanted}: it has no strength.fi_target.")
    if _has_shares(base):
        found = f"profile {base.name!r} holds stage shares or biases that scored nights gave"
        raise InputError(f"{found}, expected the profile it was fitted from.")
    return base.strength


def measure(density: OneNight, base: Profile, options: GuardOptions = DEFAULTS) -> MeasuredNight:
    """Return what tuning needs of a night."""
    base = replace(_unrepaired(base), stager=None, cohort=None)  # all nights are its own
    return MeasuredNight.of(Night.read(density, base, options), base)


def _unrepaired(base: Profile) -> Profile:
    """Return the profile without what `tune` found about the shares of other nights."""
    if base.shares is None or base.shares.repair is None:
        return base
    temperature = Calibration(base.calibration.temperature)
    return replace(base, calibration=temperature, shares=replace(base.shares, repair=None))


def tuned_profile(
    nights: Sequence[MeasuredNight],
    base: Profile,
    stager: str | None = None,
    name: str | None = None,
    *,
    subjects: Sequence[Hashable] | None = None,
    cohort: str | None = None,
) -> Profile:
    """Return the base profile tuned to the stager of these nights."""
    check_base(base)
    n_usable = sum(not np.isnan(night.stager_fi) for night in nights)
    if n_usable < FEWEST_NIGHTS:
        # on five or fewer a fragmented sleeper passes for a flickering stager, and tuning did harm
        found = f"got {n_usable} nights with adjacent epochs"
        raise InputError(f"{found}, expected {FEWEST_NIGHTS} or more of one stager; they need no scoring.")
    _refuse_repeats(nights)
    if subjects is not None and len(subjects) != len(nights):
        raise InputError(f"subjects has {len(subjects)} entries for {len(nights)} nights, expected one each.")
    for text, what in ((stager, "stager"), (name, "name"), (cohort, "cohort")):
        if text is not None:
            checks.text(text, what, empty=False)
    tuned, outcome = tune_rules(nights, base, subjects, cohort)
    assert isinstance(tuned.strength, TargetRule)
    tuned = tuned.replace(
        name=name or f"{base.name}-tuned",
        stager=stager,
        provenance={
            "source": "stageguard.tune on unscored nights",
            "base": {"name": base.name, "sha256": _unrepaired(base).sha256},
            "stageguard": __version__,
            "n_nights": len(nights),
            "flickers": tuned.strength.flickers,
            "shares": outcome,
        },
    )
    decided = " ".join(decision(tuned))
    of_stager = "of one stager" if stager is None else f"of {stager}"
    return tuned.replace(
        summary=f"{base.name}, tuned on {len(nights)} unscored nights {of_stager}. {decided}",
        provenance={**tuned.provenance, "decision": decided},
    )


def tune_rules(
    nights: Sequence[MeasuredNight], base: Profile, subjects: Sequence[Hashable] | None, cohort: str | None
) -> tuple[Profile, Outcome]:
    """Return the base profile with the rule and biases for the stager of these nights; name and words stay.

    Also return whether its stage shares were repaired, or why not.
    """
    rule, base = check_base(base), _unrepaired(base)
    repair = repair_shares(nights, base, subjects, cohort)
    indices = [night.stager_fi for night in nights]
    changes: dict[str, Any] = {}
    if repair.biases is not None and base.shares is not None:
        indices = [night.fragmentation_index(np.array(repair.biases)) for night in nights]
        changes["calibration"] = Calibration(base.calibration.temperature, repair.biases)
        changes["shares"] = replace(base.shares, repair=repair.record)
    rule = TargetRule.tuned(rule, fragmentation_aim(float(np.nanmedian(indices))))
    # errors of scored nights were measured under the base's own rule
    return replace(base, strength=rule, intervals={}, **changes), repair.outcome


def fragmentation_aim(fi: float) -> float:
    """Return a fragmentation index as a strength rule takes it: four digits, above 0."""
    return float(f"{min(max(fi, _LOWEST_FI), _HIGHEST_FI):.4g}")


def repair_shares(
    nights: Sequence[MeasuredNight],
    profile: Profile,
    subjects: Sequence[Hashable] | None = None,
    cohort: str | None = None,
) -> Repair:
    """Find the biases that bring the shares of the stages to the nearest edge of the experts' range.

    The shares are means over people, `subjects` says whose each night is; without it, each is of another
    person. A cohort that the profile has a caution for, or that is not the profile's, may have shares
    of its own, and nothing is repaired. A stager trained on natural class frequencies gives rare stages too
    seldom, which the rule mends night by night: both together lift too much.
    """
    if profile.shares is None:
        return Repair("no range")
    is_own = cohort is None or profile.is_for(profile.stager, cohort)
    if not is_own or (cohort is not None and profile.caution_for(cohort) is not None):
        return Repair("named cohort")
    if any(night.is_of_labels for night in nights):
        return Repair("labels alone")
    if any(night.is_lifted for night in nights):
        return Repair("lifted")
    rows = [night.log_rows for night in nights if night.log_rows is not None]
    lengths = [len(own) * night.epoch_ratio for own, night in zip(rows, nights, strict=True)]
    if np.median(lengths) * profile.epoch_seconds / 3600 < LEAST_HOURS:
        return Repair("short nights")
    whose = range(len(nights)) if subjects is None else subjects
    n_nights_of = Counter(whose)
    weights = np.array([1 / (n_nights_of[subject] * len(n_nights_of)) for subject in whose])
    rows = [own[~np.isnan(own[:, 0])] for own in rows]
    joined = np.concatenate(rows)  # (n_known, n_stages)
    per_epoch = np.concatenate([np.full(len(o), w / len(o)) for o, w in zip(rows, weights, strict=True)])

    def shares_under(biases: Floats) -> Floats:
        labels = (joined + biases.astype(np.float32)).argmax(axis=1)
        return np.asarray(np.bincount(labels, weights=per_epoch, minlength=len(biases)), dtype=np.float64)

    low, high = np.round(np.array(profile.shares.ranges(len(n_nights_of))).T, _DIGITS)
    shares = shares_under(np.zeros(len(low)))
    if np.array_equal(shares, shares.clip(low, high)):
        return Repair("in range")
    if float(weights @ [night.sharpness for night in nights]) < LEAST_SHARPNESS:
        return Repair("unsure")
    biases = np.zeros(len(low))
    for _ in range(MOST_ROUNDS):
        now = shares_under(biases)
        step = STEP * np.log((now.clip(low, high) + NO_SHARE) / (now + NO_SHARE))
        moved = (biases + step).clip(-LARGEST_BIAS_NATS, LARGEST_BIAS_NATS)
        if np.abs(moved - biases).max() < LEAST_MOVE_NATS:
            break
        biases = moved
    biases = np.round(biases, _DIGITS)
    if not biases.any():  # the shares are outside by less than a round moves
        return Repair("in range")
    columns = (np.round(each, _DIGITS).tolist() for each in (shares, low, high, shares_under(biases)))
    return Repair("repaired", ShareRepair(len(n_nights_of), *map(tuple, columns)), tuple(biases.tolist()))


def _refuse_repeats(nights: Sequence[MeasuredNight]) -> None:
    """Refuse a night that is given twice, recognised by its probabilities."""
    seen: dict[bytes, int] = {}
    for i, night in enumerate(nights):
        first = seen.setdefault(night.digest, i)
        if first != i and night.stager_fi > 0:
            raise InputError(f"nights {first} and {i} have the same probabilities: one night given twice.")


def decision(tuned: Profile) -> tuple[str, ...]:
    """Return what was decided about a tuned profile's stager, and what follows, in a few sentences."""
    rule = tuned.strength
    assert isinstance(rule, TargetRule) and rule.stager_fi is not None
    flickers, above = ("flickers", "above") if rule.flickers else ("does not flicker", "not above")
    finding = (
        f"The stager {flickers}: median fragmentation index of its argmax {rule.stager_fi:.3f}, "
        f"{above} {rule.acts_above:g} times the experts' {rule.fi_target:.3f}."
    )
    follows = "Its nights are not smoothed."
    if tuned.provenance["shares"] == "labels alone" and not tuned.smooths_labels:
        follows = "Nights of labels alone are not smoothed."
    elif rule.flickers:
        ratio = f"(its own / {rule.stager_fi:.3f}) to the power of {rule.exponent:g}"
        follows = f"A night above it is brought to fragmentation index {rule.fi_target:.3f} x {ratio}."
    return finding, follows, *_about_shares(tuned)


_NOT_REPAIRED: dict[Outcome, str] = {
    "in range": "Its stage shares are within what experts score.",
    "unsure": "Its stage shares are outside what experts score, but with a mean highest probability under "
    f"{LEAST_SHARPNESS:g} they are left as they are.",
    "short nights": f"Its stage shares were not compared with experts': nights are under {LEAST_HOURS:g} h.",
    "named cohort": "Its stage shares were not compared with experts': the cohort may have its own.",
    "lifted": "Its stage shares were not compared with experts': it was trained on natural class "
    "frequencies, and the rule lifts rare stages night by night.",
    "labels alone": "Its stage shares were not compared with experts': labels alone give no probabilities.",
}


def _about_shares(tuned: Profile) -> tuple[str, ...]:
    """Say what was done about the stage shares; nothing, if the profile has no range of them."""
    repair, names = tuned.share_repair, tuned.scheme.names
    if repair is None:
        outcome = tuned.provenance["shares"]
        return (_NOT_REPAIRED[outcome],) if outcome in _NOT_REPAIRED else ()
    biases = zip(names, tuned.calibration.biases or (), strict=True)
    nats = ", ".join(f"{stage} {bias:+.2f}" for stage, bias in biases if bias)
    return (
        f"Its stage shares over {repair.n_people} people are outside what experts score and were repaired: "
        f"{repair.describe(names)}, by biases of {nats} nats.",
    )
