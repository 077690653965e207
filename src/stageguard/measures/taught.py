"""Nights that taught a profile: a comparison with their experts is no test of it, and says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stageguard.errors import warn
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import ScoredNight, hypnogram_before
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import REPORTED
from stageguard.profile.profile import Profile

NO_TEST = "agreement on other nights may be lower"


@dataclass(frozen=True, slots=True)
class Taught:
    """The profile that a night taught."""

    profile: str
    held_out: str  # its own figures, on nights held out when it was fitted


def taught_by(profile: Profile | None, *scorings: Hypnogram | None) -> Taught | None:
    """Return what to say of a profile if a night with one of these scorings taught it, else None."""
    if profile is None or not profile.was_taught_by(*scorings):
        return None
    return Taught(profile.name, held_out_words(profile))


def taught_words(taught: Sequence[Taught | None], tests: str = "no p is given") -> str:
    """Return the first line of a comparison of nights with their experts; empty if none taught a profile.

    `tests` says what the comparison leaves out for it.
    """
    teaching = [each for each in taught if each is not None]
    if not teaching:
        return ""
    nights = f"These {len(taught):,} nights" if len(taught) > 1 else "This night"
    # some of the nights are a test, but the sum is not
    if len(teaching) < len(taught):
        nights = f"{len(teaching):,} of these {len(taught):,} nights"
    names = " and ".join(dict.fromkeys(repr(each.profile) for each in teaching))
    return f"{nights} taught profile {names}: this is no test of it, and {tests}. {teaching[0].held_out}"


def held_out_words(profile: Profile) -> str:
    """Return a fitted profile's own figures on nights that did not teach it."""
    errors = ", ".join(_errors(profile))
    found = [*_kappa(profile), *([f"mean absolute errors {errors}"] if errors else [])]
    if not found:
        return "It holds no figures on other nights: compare it on nights that did not teach it."
    n_nights = profile.provenance.get("n_nights", "its")
    return f"Cross-validated on {n_nights} nights when it was fitted: {'; '.join(found)}."


def _kappa(profile: Profile) -> Iterator[str]:
    rows = profile.provenance.get("cross_validation", {}).get("rows", ())
    kappa = {row[0]: row[1] for row in rows}
    chosen = profile.provenance.get("chosen")
    if chosen in kappa and "argmax" in kappa:
        yield f"κ {kappa[chosen]:.3f} (argmax {kappa['argmax']:.3f})"


def _errors(profile: Profile) -> Iterator[str]:
    """Yield the mean absolute errors on held-out nights of what studies report."""
    errors = profile.intervals.get("errors", {})
    for quantity in REPORTED:
        if quantity.key in errors:
            unit = f" {quantity.short_unit}" if quantity.short_unit else ""
            mean = float(np.mean(np.abs(np.concatenate(errors[quantity.key]))))
            yield f"{quantity.abbreviation or quantity.title.lower().replace('rem', 'REM')} {mean:.1f}{unit}"


def warn_of_taught(nights: Sequence[ScoredNight], experts: Sequence[Sequence[Hypnogram]]) -> None:
    """Warn the caller's caller if nights taught the profile they were decoded with."""
    taught = [
        taught_by(night.profile, hypnogram_before(night), *panel) if isinstance(night, Decoding) else None
        for night, panel in zip(nights, experts, strict=True)
    ]
    if words := taught_words(taught, "no p of it holds"):
        warn(words)
