"""What a profile does, as sentences of a Methods paragraph and as rows of a table.

Each part of a profile that can change a stage has its sentence here; a test switches every part on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stageguard.base.version import __version__
from stageguard.guard.decoding import Decoding
from stageguard.measures.estimates import (
    EXPECTED_REM_SECONDS,
    LITTLE_REM,
    N_DRAWS,
    default_of_rem_latency,
)
from stageguard.measures.statistics import FIRST_REM_SECONDS
from stageguard.profile.estimators import REM_LATENCY
from stageguard.profile.profile import Profile
from stageguard.profile.rules.band import BandRule
from stageguard.profile.rules.match import MatchRule
from stageguard.profile.rules.target import YIELDING_WEIGHT, TargetRule
from stageguard.report.numbers import and_list, count

FI = "fragmentation index (stage changes per pair of adjacent scored epochs)"
_ONSET = "REM latency is the time from sleep onset to"
_LASTING = f"the first REM bout of {FIRST_REM_SECONDS / 60:g} min or longer"
_EXPECTED = f"{EXPECTED_REM_SECONDS / 60:g} min"
REM_LATENCIES = {
    "path": f"{_ONSET} the first epoch of REM.",
    "bout": f"{_ONSET} {_LASTING}.",
    "clock": f"{_ONSET} {_LASTING}, in the night decoded under the full clock (weight 1).",
    "expected": f"{_ONSET} the moment by which {_EXPECTED} of REM are expected under the full clock.",
    "draws": f"REM latency is the median, over {N_DRAWS} draws from the posterior, of the time from sleep "
    "onset to the first epoch of REM.",
}


def opening(profile: Profile, seconds: float, stager: str | None) -> str:
    """Name stages, stager, software and profile."""
    stages = ", ".join(profile.scheme.names)
    who = "an automatic stager" if stager is None else stager
    converted = ""
    if seconds != profile.epoch_seconds:
        converted = f", whose numbers were converted from {profile.epoch_seconds:g}-s epochs"
    method = "the published method, " if profile.reproduces_paper else ""
    return (
        f"Sleep was staged in {seconds:g}-s epochs ({stages}) from the stage probabilities of {who}, "
        "decoded with "
        f"StageGuard {__version__} ({method}profile {profile.name}, SHA-256 "
        f"{profile.sha256[:12]}{converted})."
    )


def origin(profile: Profile) -> Iterator[str]:
    """Say on which nights the profile was fitted, tuned or counted."""
    provenance: Mapping[str, Any] = profile.provenance
    nights = _nights(provenance)
    base = provenance.get("base")
    start = f", starting from {base['name']}" if isinstance(base, Mapping) and "name" in base else ""
    rows = provenance.get("cross_validation", {})
    if "cross_validation" in provenance:
        candidates = (
            f" of {len(rows['rows'])} candidates" if isinstance(rows, Mapping) and "rows" in rows else ""
        )
        chosen = f" ({provenance['chosen']})" if "chosen" in provenance else ""
        yield (
            f"The profile had been fitted to {nights or 'scored nights'}{start}; its settings{chosen} "
            "were chosen by "
            f"cross-validation{candidates}."
        )
    elif "flickers" in provenance:
        yield f"The profile had been tuned to {nights or 'nights'} without scorings{start}."
    elif nights:
        scorings = provenance.get("n_scorings")
        of = f"{count(scorings, 'expert scoring')} of " if isinstance(scorings, int) else ""
        yield f"Its numbers had been counted on {of}{nights}{start}."
    if profile.cohort is not None:
        yield f"It was fitted on the cohort “{profile.cohort}”."
    if profile.stager is not None:
        yield f"It belongs to the stager “{profile.stager}”."


def _nights(provenance: Mapping[str, Any]) -> str:
    n_nights, n_subjects = provenance.get("n_nights"), provenance.get("n_subjects")
    if not isinstance(n_nights, int):
        return ""
    people = "" if not isinstance(n_subjects, int) else f" of {n_subjects:,} sleeper{'s' * (n_subjects != 1)}"
    return count(n_nights, "night") + people


def weights(profile: Profile) -> Iterator[str]:
    """Say what moves the evidence of every epoch alike."""
    calibration, names = profile.calibration, profile.scheme.names
    if calibration.temperature != 1.0:
        yield f"Log-probabilities were divided by a temperature of {calibration.temperature:.3g}."
    if calibration.biases:
        yield f"Stage biases were added to them: {_stage_values(names, calibration.biases, '+.3g')} nats."
    if profile.prior_exponent and profile.prior is not None:
        yield (
            "The evidence for each stage was divided by the stage's share "
            f"({_stage_values(names, profile.prior, '.3g')}) to the power of {profile.prior_exponent:.3g}."
        )


def _stage_values(names: Sequence[str], values: Sequence[float], form: str) -> str:
    pairs = zip(names, values, strict=True)
    return ", ".join(f"{name} {format(value, form).replace('-', '−')}" for name, value in pairs)


def strength_rule(profile: Profile, *, lifts: bool) -> Iterator[str]:
    """Say how the profile sets the strength of a recording, and that of stages if `lifts`."""
    rule = profile.strength
    if rule is None:
        return
    experts = f"the mean of expert scorings, {rule.fi_target:g}"
    smooth = "by the smallest transition weight that does so"
    if isinstance(rule, MatchRule):
        yield (f"The transition weight of each night was the one whose {FI} came nearest to {experts}.")
    elif isinstance(rule, BandRule):
        yield (
            f"Nights with a {FI} above {rule.cap:g} times {experts}, were smoothed to that limit {smooth}."
        )
    elif not isinstance(rule, TargetRule):
        yield f"The strength was set {rule.describe()}."
    elif rule.stager_fi is None:
        yield (
            f"Nights with a {FI} above {rule.act_above:g} times {experts}, were smoothed "
            "to that mean "
            f"{smooth}, provided that a transition weight of {YIELDING_WEIGHT:g} left less than "
            f"{100 * rule.soft:.0f} % of "
            "the index; other nights were not smoothed."
        )
    elif rule.says_flicker:
        yield (
            f"The stager's median {FI}, {rule.stager_fi:.3g}, is more than "
            f"{rule.act_above:g} times "
            f"{experts}. Nights were therefore smoothed {smooth}, to that mean times the "
            f"{rule.exponent:g}-th power of "
            "their own index relative to the median."
        )
    else:
        yield (
            f"The stager's median {FI}, {rule.stager_fi:.3g}, is not above "
            f"{rule.act_above:g} times "
            f"{experts}; its nights were not smoothed."
        )
    if lifts and isinstance(rule, BandRule | TargetRule):
        yield (
            f"In nights with an index below {rule.floor:g} times this mean, minority stages were weighted up."
        )


def path_rules(profile: Profile, seconds: float) -> Iterator[str]:
    """Say what the sequence of stages was scored by."""
    stay = "" if profile.stay == "self" else "; staying in a stage was not scored"
    yield (
        "The sequence of stages maximises the sum of the evidence and of the log transition "
        "probabilities, times the "
        f"transition weight{stay}."
    )
    if profile.durations:
        yield f"Bouts of {and_list(profile.durations)} were scored by the distribution of their lengths."
    if profile.rare:
        listed = ", ".join(
            f"{pair.source} to {pair.target} ({pair.probability:.3g} per epoch)" for pair in profile.rare
        )
        yield f"Rare transitions were discouraged: {listed}."
    if profile.min_bout_seconds:
        listed = ", ".join(f"{stage} {length:g} s" for stage, length in profile.min_bout_seconds.items())
        ends = "the last may be shorter" if profile.ends == "paper" else "the first and last may be shorter"
        yield f"Bouts had minimum lengths ({listed}; {ends})."
    flip = profile.flip_flop
    if flip.penalty_nats:
        how = " by a greedy search" if flip.is_greedy else ""
        yield (
            f"A return to a stage left within {count(flip.window_epochs, 'epoch')} cost "
            f"{flip.penalty_nats:g} nats{how}."
        )


def clock_evidence(profile: Profile, *, ran: bool) -> Iterator[str]:
    """Say how the time since sleep onset weighs stages."""
    clock = profile.clock
    if clock is None:
        return
    if not ran:
        yield "The profile's evidence from the time since sleep onset was not used."
        return
    spared = (
        "" if math.isinf(clock.spare_minutes) else f", bouts of {clock.spare_minutes:g} min or more spared"
    )
    held_back = [stage for stage, curve in clock.curves.items() if curve[0] < 0]  # also before sleep onset
    before = f", and before sleep onset {and_list(held_back)} as at onset" if held_back else ""
    stages = and_list(clock.curves)
    are, them = ("was", "it") if len(clock.curves) == 1 else ("were", "them")
    yield (
        f"In the first {clock.horizon_minutes:g} min of sleep, {stages} {are} weighted by how "
        f"often experts score {them} at that time since sleep onset (weight {clock.weight:.3g}{spared})"
        f"{before}; {clock.restart_wake_minutes:g} min of wake restart this clock."
    )


def rem_latency(profile: Profile, decoding: Decoding | None = None) -> Iterator[str]:
    """Define the REM latency that tables report, of one night or of any."""
    if profile.scheme.rem is None:
        return
    estimator = profile.estimators.get(REM_LATENCY)
    if estimator is None and decoding is not None:
        estimator = default_of_rem_latency(decoding, slice(None))
    is_open = estimator is None  # then each night decides
    yield REM_LATENCIES[estimator or ("bout" if profile.clock is None else "clock")]
    if is_open and profile.clock is not None:
        yield (
            f"In nights with less than {100 * LITTLE_REM:.0f} % of sleep scored as REM, it is the time to "
            f"the moment by which {_EXPECTED} of REM are expected."
        )


def not_results(profile: Profile, is_steered: bool) -> Iterator[str]:
    """Say which statistics the method itself sets."""
    if is_steered:
        yield "Fragmentation, awakenings and bout lengths are set by the strength rule and are not results."
    if profile.calibration.biases or profile.prior_exponent:
        yield "Total sleep time and the time in each stage depend on the stage biases and weights."


def settings(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield the settings of the profile, by name."""
    yield "Stages", ", ".join(profile.scheme.names)
    yield "Epoch length", f"{profile.epoch_seconds:g} s"
    rule = profile.strength
    if rule is None:
        yield "Strength", f"fixed transition weight {profile.transition_weight:g}"
    else:
        yield "Strength", rule.describe()
    yield "Clock", "off" if profile.clock is None else profile.clock.describe()
    minimum = ", ".join(f"{stage} {seconds:g} s" for stage, seconds in profile.min_bout_seconds.items())
    yield "Minimum bouts", minimum or "none"
    discouraged = ", ".join(f"{pair.source}→{pair.target} ({pair.probability:g})" for pair in profile.rare)
    yield "Discouraged transitions", discouraged or "none"
    yield "Transitions counted by TVR", ", ".join(f"{a}→{b}" for a, b in profile.tvr_pairs) or "none"
    flip = profile.flip_flop
    quick = f"{flip.penalty_nats:g} nats within {flip.window_epochs} epochs, {flip.method}"
    yield "Penalty on quick returns", quick if flip.penalty_nats else "none"
    temperature, biases = profile.calibration.temperature, profile.calibration.biases
    if temperature != 1.0 or biases is not None:
        shown = "" if biases is None else f", biases {', '.join(f'{bias:g}' for bias in biases)} nats"
        yield "Calibration", f"temperature {temperature:g}{shown}"


def provenance_rows(provenance: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested provenance as flat rows of name and text."""
    for key, value in provenance.items():
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, Mapping) and {"columns", "rows"} <= value.keys():
            size = f"Table of {len(value['rows'])} rows in the profile."
            yield name, f"{value['finding']} {size}" if "finding" in value else size
        elif isinstance(value, Mapping):
            yield from provenance_rows(value, f"{name} · ")
        else:
            yield name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
