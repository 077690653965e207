"""`recount`: a profile with the transitions of other nights and all of its own rules, as in the paper."""

from __future__ import annotations

from typing import Any

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError, warn
from stageguard.fitting.fit import Experts
from stageguard.fitting.material import Material, read_material
from stageguard.profile.profile import Profile, as_profile
from stageguard.version import __version__

COUNTED_HERE = (
    "counted: pairs of adjacent scored epochs over all that begin with their first stage, unsmoothed"
)
# Keys counted on other nights that are no rules: experts' ranges, errors of nights decoded otherwise.
NO_LONGER_HOLDS = ("bands", "joint", "intervals")


def recount(experts: Experts, base: Profile | str, *, name: str | None = None) -> Profile:
    """Return a profile with its transitions counted on other nights, and every rule kept.

    A transition's probability is its share of the pairs of adjacent scored epochs that begin with its
    first stage, as in the paper. Rare pairs, minimum bouts, the stay rule and the flip-flop penalty stay.
    Expert ranges and errors of the nights counted before are dropped; `provenance` says what was counted.

    Parameters
    ----------
    experts : list of Hypnogram, of lists of Hypnogram, or of label arrays
        An expert's scoring of each night, or those of several experts, at the profile's epoch length.
    base : Profile or str
        The profile whose rules are kept.
    name : str, optional
        Name of the profile; by default the base's with "-recounted".

    Returns
    -------
    Profile
        The base with the counted matrix.

    Examples
    --------
    >>> import stageguard as sg
    >>> experts = [sg.simulate_night("human-psg-3", seed=seed).expert for seed in range(3)]
    >>> sg.recount(experts, "kdd2026-cardiorespiratory").name
    'kdd2026-cardiorespiratory-recounted'
    """
    base = as_profile(base)
    material = read_material(experts, None, base)
    if material.epoch_seconds != base.epoch_seconds:
        raise InputError(
            f"the nights have epochs of {material.epoch_seconds:g} s and profile {base.name!r} of "
            f"{base.epoch_seconds:g} s, expected the same: its other numbers were set at that length. Score "
            "the nights again, or start from a profile of theirs."
        )
    rows = _rows(material, base)
    named = f"{base.name}-recounted" if name is None else checks.text(name, "name", empty=False)
    return base.replace(
        name=named,
        transitions=rows,
        provenance=_provenance(material, base),
        **dict.fromkeys(NO_LONGER_HOLDS),
    )


def _rows(material: Material, base: Profile) -> dict[str, dict[str, float]]:
    """Return the matrix by stages; a stage with which no pair begins keeps the base profile's row."""
    pairs: Floats = material.counts().pairs
    totals = pairs.sum(axis=1, keepdims=True)
    # unsmoothed, as in the paper: what nobody scored is forbidden, and the warning says so
    matrix = np.where(totals > 0, pairs / np.where(totals > 0, totals, 1.0), base.transitions)
    names = base.scheme.names
    rare = {(pair.source, pair.target) for pair in base.rare}
    unseen = [
        f"{a} to {b}"
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i != j and totals[i] > 0 and not pairs[i, j] and (a, b) not in rare
    ]
    if unseen:
        warn(
            f"nobody scored {', '.join(unseen)}, so that the profile forbids it. Count more nights, or list "
            "it as rare."
        )
    return {a: dict(zip(names, row, strict=True)) for a, row in zip(names, matrix.tolist(), strict=True)}


def _provenance(material: Material, base: Profile) -> dict[str, Any]:
    """Return the base profile's provenance without facts about its nights, and what was counted here."""
    before = base.to_dict().get("provenance", {})
    about_nights = ("dataset", "n_nights", "n_subjects", "transitions", "counted_on", "script")
    counts = material.counts()
    pairs = zip(base.scheme.names, counts.pairs.sum(axis=1).tolist(), strict=True)
    return {
        **{key: value for key, value in before.items() if key not in about_nights},
        "base": {"name": base.name, "sha256": base.sha256},
        "stageguard": __version__,
        "transitions": COUNTED_HERE,
        "n_nights": len(material.nights),
        "n_scorings": sum(len(night.scorings) for night in material.nights),
        "n_scored_epochs": sum(night.n_scored for night in material.nights),
        "pairs_counted_from": {name: round(n, 3) for name, n in pairs},
        "nights_sha256": material.sha256(),
    }
