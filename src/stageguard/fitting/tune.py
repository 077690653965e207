"""`tune`: fit the strength of a profile to one stager's unscored nights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stageguard.base import checks
from stageguard.base.errors import InputError, StageGuardError, both_nights, message_of
from stageguard.base.schema import plain_table
from stageguard.base.version import __version__
from stageguard.guard import inputs
from stageguard.guard.evidence import features_of
from stageguard.guard.options import DEFAULTS, GuardOptions
from stageguard.profile.fingerprint import Fingerprint, StagerFeatures
from stageguard.profile.profile import Profile
from stageguard.profile.rules import write_rule
from stageguard.profile.rules.rule import StrengthRule
from stageguard.profile.rules.target import FEWEST_NIGHTS, TargetRule

_LOWEST_FI, _HIGHEST_FI = 1e-4, 1.0  # a night of a single stage has 0, and rules divide by the median


def tune(
    densities: Sequence[inputs.OneNight],
    base: Profile | str,
    *,
    stager: str | None = None,
    name: str | None = None,
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
    stages, epoch_seconds, logits, log
        How bare arrays are read, as in `decode`.

    Returns
    -------
    Profile
        The base with the stager's median index in ``strength``, and its ``fingerprint``, by which `decode`
        recognises nights of another stager. Its provenance says what was decided.

    Raises
    ------
    InputError
        There are fewer than ten nights, one of them cannot be read, or the base has no experts' fragmentation
        to aim at.

    Examples
    --------
    >>> import stageguard as sg
    >>> nights = [sg.simulate_night("human-psg-5", hours=1, seed=seed).density for seed in range(10)]
    >>> profile = sg.tune(nights, "human-psg-5", stager="YASA 0.8 C4-M1")
    >>> profile.provenance["decision"].partition(":")[0]
    'The stager flickers'
    """
    base = base if isinstance(base, Profile) else Profile.load(base)
    if not inputs.is_batch(densities):
        raise InputError(
            f"densities: got {checks.shown(densities)}, expected a list of {FEWEST_NIGHTS} nights or more."
        )
    check_base(base)
    options = GuardOptions(stages=stages, epoch_seconds=epoch_seconds, logits=logits, log=log)
    nights = []
    for i, density in enumerate(densities):
        try:
            nights.append(measure(density, base, options))
        except StageGuardError as error:
            raise type(error)(f"night {i}: " + message_of(error)) from None
    return tuned_profile(nights, base, stager, name)


def check_base(base: Profile) -> StrengthRule:
    """Return the strength rule of a profile that can be tuned; refuse others."""
    if base.strength is None:
        raise InputError(
            f"profile {base.name!r} has no fragmentation to aim at (strength.fi_target): it cannot be tuned. "
            "Take one whose strength is a rule, such as human-psg-5."
        )
    if base.prior_exponent or base.calibration.biases:
        raise InputError(
            f"profile {base.name!r} holds stage shares or biases that scored nights gave, and needs no "
            "tuning. Take the profile it was fitted from."
        )
    return base.strength


def measure(density: inputs.OneNight, base: Profile, options: GuardOptions = DEFAULTS) -> StagerFeatures:
    """Return the features of a night, by which stagers are compared."""
    night = inputs.night_of(density, base, options)
    return features_of(night, night.epoch_seconds / base.epoch_seconds)


def tuned_profile(
    nights: Sequence[StagerFeatures], base: Profile, stager: str | None = None, name: str | None = None
) -> Profile:
    """Return the base profile tuned to the stager of these nights."""
    rule = check_base(base)
    indices = [night.fragmentation_index for night in nights if not np.isnan(night.fragmentation_index)]
    if len(indices) < FEWEST_NIGHTS:
        raise InputError(
            f"got {len(indices)} nights with adjacent epochs, expected {FEWEST_NIGHTS} or more of one "
            "stager: on five or fewer a fragmented sleeper passes for a flickering stager, and tuning did "
            "harm. Decode with the profile as it is, or take more nights; they need no scoring."
        )
    _refuse_repeats(nights)
    for text, what in ((stager, "stager"), (name, "name")):
        if text is not None:
            checks.text(text, what, empty=False)
    rule = TargetRule.tuned(rule, fragmentation_aim(float(np.median(indices))))
    decided = " ".join(decision(rule))
    of_stager = "of one stager" if stager is None else f"of {stager}"
    return base.replace(
        name=name or f"{base.name}-tuned",
        summary=f"{base.name}, tuned on {len(nights)} unscored nights {of_stager}. {decided}",
        stager=stager,
        strength=write_rule(rule),
        fingerprint=plain_table(Fingerprint.of(nights, base.scheme)),
        provenance={
            "source": "stageguard.tune on unscored nights",
            "base": {"name": base.name, "sha256": base.sha256},
            "stageguard": __version__,
            "n_nights": len(nights),
            "flickers": rule.says_flicker,
            "decision": decided,
        },
    )


def fragmentation_aim(fi: float) -> float:
    """Return a fragmentation index as a strength rule takes it: four digits, above 0."""
    return float(f"{min(max(fi, _LOWEST_FI), _HIGHEST_FI):.4g}")


def _refuse_repeats(nights: Sequence[StagerFeatures]) -> None:
    """Refuse a night that is given twice, recognised by features that agree to the last digit."""
    seen: dict[tuple[float, ...], int] = {}
    for i, night in enumerate(nights):
        # two nights may agree in one number by chance, but not in all of them to the last digit
        exact = (night.fragmentation_index, night.entropy, night.sharpness, *night.shares.tolist())
        first = seen.setdefault(exact, i)
        if first != i and night.fragmentation_index > 0:
            raise InputError(
                both_nights(first, i) + " have the same probabilities: one night given twice. Leave one out."
            )


def decision(rule: StrengthRule | None) -> tuple[str, str]:
    """Return whether a tuned profile's stager flickers, and what is done about it, in a sentence each."""
    assert isinstance(rule, TargetRule) and rule.stager_fi is not None
    flickers = "flickers" if rule.says_flicker else "does not flicker"
    above = "above" if rule.says_flicker else "not above"
    finding = (
        f"The stager {flickers}: median fragmentation index of its argmax {rule.stager_fi:.3f}, "
        f"{above} {rule.act_above:g} times the experts' {rule.fi_target:.3f}."
    )
    if not rule.says_flicker:
        return finding, "Its nights are not smoothed."
    ratio = f"(its own / {rule.stager_fi:.3f}) to the power of {rule.exponent:g}"
    return finding, f"A night above it is brought to fragmentation index {rule.fi_target:.3f} x {ratio}."
