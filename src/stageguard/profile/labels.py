"""Nights in the stages of a profile: labels as probabilities, columns in its order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.night.hypnodensity import Hypnodensity, merge_columns
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme, scheme_for
from stageguard.profile.profile import Profile


def density_of_labels(night: Hypnogram, profile: Profile) -> Hypnodensity:
    """Replace each label by what experts say where a stager gives it, in the profile's stages.

    The shares are the profile's: those of its own stager if it has them, else typical ones.
    """
    labels = profile.labels
    is_own = labels is not None and labels.own is not None
    shares = None if labels is None else labels.own if is_own else labels.shares
    if shares is None:
        why = (labels and labels.refused) or "it has no typical confusions (labels)."
        raise InputError(f"profile {profile.name!r} takes no labels without probabilities: {why}")
    merged = night.merge(profile.scheme)
    if (merged.labels < 0).all():
        raise InputError(f"labels: all {merged.n_epochs:,} epochs are unscored, expected one stage or more.")
    unknown = (np.nan,) * profile.scheme.n_stages  # the label of unscored epochs, -1, finds the last row
    rows = np.array((*shares, unknown))[merged.labels]
    return Hypnodensity(
        rows,
        profile.scheme,
        night.epoch_seconds,
        start=night.start,
        source=night.scorer,
        assumed=night.assumed,
        offset_seconds=night.offset_seconds,
        from_labels="own" if is_own else "typical",
    )


def in_profile_order(matrix: Floats, names: Sequence[str], profile: Profile, assumed: list[str]) -> Floats:
    """Bring columns into the profile's order by their names, summing finer stages where needed."""
    scheme = profile.scheme
    if tuple(names) == scheme.names:
        return matrix
    order = _columns(names, scheme)
    if order is not None:
        return np.ascontiguousarray(matrix[:, order])
    finer, columns = scheme_for(names)
    merged = merge_columns(matrix[:, columns], finer, scheme)
    assumed.append(
        f"stages {', '.join(finer.names)} are merged into {', '.join(scheme.names)}: the profile's"
    )
    return merged


def _columns(names: Sequence[str], scheme: StageScheme) -> list[int] | None:
    """Return the column of each of the scheme's stages, or None when they are not the same stages."""
    if len(names) != scheme.n_stages:
        return None
    try:
        indices = [scheme.index(name) for name in names]
    except InputError:
        return None
    if len(set(indices)) < len(indices):
        return None
    return [indices.index(stage) for stage in range(len(indices))]
