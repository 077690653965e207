"""Nights in the stages of a profile; where they do not fit, the error names the profile that does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.night.hypnodensity import Hypnodensity, merge_columns
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import SCHEMES, StageScheme, canonical_name, scheme_for
from stageguard.night.timing import AnyNight
from stageguard.profile.profile import Profile, profiles


def in_stages_of(profile: Profile, night: AnyNight) -> AnyNight:
    """Return a night in a profile's stages; an error names the profile that fits the night's."""
    with naming_profile_for(night.scheme.names, profile):
        return night.merge(profile.scheme)


def density_of_labels(night: Hypnogram, profile: Profile) -> Hypnodensity:
    """Replace each label by what experts say where a stager gives it, in the profile's stages.

    The shares are the profile's: those of its own stager if it has them, else typical ones.
    """
    labels = profile.labels
    is_own = labels is not None and labels.own is not None
    shares = None if labels is None else labels.own if is_own else labels.shares
    if shares is None:
        raise _labels_refused(profile)
    merged = in_stages_of(profile, night)
    if (merged.labels < 0).all():
        raise InputError(
            f"labels: all {merged.n_epochs:,} epochs are unscored, expected a stage for one or more."
        )
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


def _labels_refused(profile: Profile) -> InputError:
    """Return the error for labels under a profile that has no shares for them."""
    own = "" if profile.base is None else f" Only those of the stager {profile.stager!r}: name it."
    if profile.labels is not None and profile.labels.refused:
        return InputError(
            f"profile {profile.name!r} takes no labels without probabilities: {profile.labels.refused}{own}"
        )
    able = [name for name in profiles() if (one := Profile.load(name).labels) is not None and one.shares]
    return InputError(
        f"profile {profile.name!r} takes no labels without probabilities: it has no typical confusions "
        f"(labels). Built-in profiles that have: {', '.join(able)}."
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
    with naming_profile_for(names, profile):
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


@contextmanager
def naming_profile_for(stages: Sequence[str] | int, profile: Profile) -> Iterator[None]:
    """Add to an error which profile has these stages, or as many as this, if the given profile has others."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}{profile_words(stages, profile)}") from None


def profile_words(stages: Sequence[str] | int, profile: Profile) -> str:
    """Return the advice to use the built-in profile of these stages whose name is most alike, else empty.

    Stages are compared by their meaning. A profile of another species, or of a paper, is not meant.
    """
    if isinstance(stages, int):
        stages = next((scheme.names for scheme in SCHEMES.values() if scheme.n_stages == stages), ())
    wanted = _meanings(stages)
    if wanted == _meanings(profile.scheme.names):
        return ""
    known = (each for each in map(Profile.load, profiles()) if not each.reproduces_paper)
    fitting = [
        each.name
        for each in known
        if each.species == profile.species and _meanings(each.scheme.names) == wanted
    ]
    if not fitting:
        return ""
    nearest = max(fitting, key=lambda name: SequenceMatcher(None, name, profile.name).ratio())
    return f" Use a profile of these stages: {nearest}."


def _meanings(stages: Sequence[str]) -> set[str]:
    return {canonical_name(stage) or stage for stage in stages}
