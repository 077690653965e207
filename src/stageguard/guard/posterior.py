"""`posterior` and `sample`: how probable each stage of a night is, and draws of whole nights.

`decode` returns the path with the highest score. Here every path counts, in proportion to the exponential of
its score: `posterior` adds them up, `sample` draws from them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from stageguard.base import checks
from stageguard.base.arrays import Labels
from stageguard.base.errors import InputError, StageGuardWarning
from stageguard.guard.decode import decode_all
from stageguard.guard.decoding import Decoding
from stageguard.guard.inputs import BatchKeywords, GuardOptions, NightKeywords, Training, per_night
from stageguard.guard.smoother import Smoothed, Smoother, smoother_for
from stageguard.guard.solver import Job
from stageguard.guard.strength import chosen_trial
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.profile.profile import Profile

MOST_DRAWS = 10_000_000
EXACT_WINDOW = "the flip-flop window is exact: the profile's greedy one exists for decode alone"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Posterior(Hypnodensity):
    """Probability of each stage in each epoch, given the whole night and the profile.

    A `Hypnodensity`: it can be merged and passed on as one. Its `argmax` is the most probable stage of each
    epoch by itself, which need not be a path the profile allows; that path is `decode`'s.

    Attributes
    ----------
    probabilities : array, shape (n_epochs, n_stages)
        Marginals; NaN where there is no evidence for more than five minutes.
    log_evidence : float
        Log of the sum over all paths of exp(score), in nats, stretches added up.
    transition_weight, prior_exponent : float
        How strongly the profile acted: what `decode` uses on this night.
    profile : Profile
        What it was computed under.
    assumed : tuple of str
        What had to be assumed about the input, and how it was computed.
    """

    log_evidence: float = float("nan")
    transition_weight: float = float("nan")
    prior_exponent: float = 0.0
    profile: Profile | None = None

    def __eq__(self, other: object) -> bool:
        """Compare all fields but `assumed` by content."""
        if not isinstance(other, Posterior):
            return False if isinstance(other, Hypnodensity) else NotImplemented
        return self._is_equal(other)

    def __hash__(self) -> int:
        """Hash as a density."""
        return Hypnodensity.__hash__(self)

    def _facts(self) -> list[str]:
        name = "unknown" if self.profile is None else repr(self.profile.name)
        return [*Hypnodensity._facts(self), f"profile {name}", f"log-evidence {self.log_evidence:.1f} nats"]


@overload
def posterior(
    density: Hypnodensity | npt.NDArray[Any],
    profile: Profile | str,
    **options: Unpack[NightKeywords],
) -> Posterior: ...


@overload
def posterior(
    density: Sequence[Hypnodensity | npt.NDArray[Any]],
    profile: Profile | str,
    **options: Unpack[BatchKeywords],
) -> list[Posterior]: ...


def posterior(
    density: Any,
    profile: Profile | str,
    *,
    stages: Sequence[str] | None = None,
    epoch_seconds: float | None = None,
    quality: Any = None,
    pins: Any = None,
    segments: Any = None,
    cohort: str | None = None,
    trained: Training | None = None,
    logits: bool = False,
    log: bool = False,
) -> Posterior | list[Posterior]:
    """Probability of each stage in each epoch, given the whole night and the profile.

    Sums over every path the profile allows, exactly. A path counts in proportion to exp(score), the score
    being the one `decode` maximises, so that minimum bouts, bout lengths, ends, quality, pins, gaps and
    segments count as they do there. A rule that sets the strength per recording sets it as in `decode`, and
    the flip-flop window is always the exact one; `.assumed` says so.

    Parameters
    ----------
    density, profile, stages, epoch_seconds, quality, pins, segments, cohort, trained, logits, log
        As in `stageguard.decode`. A list of nights gives a list.

    Returns
    -------
    Posterior or list of Posterior
        A `Hypnodensity` of marginals with `.log_evidence`.

    Examples
    --------
    >>> import stageguard as sg
    >>> smooth = sg.posterior([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]], "kdd2026-actigraphy")
    >>> smooth.probabilities.round(2).tolist()
    [[0.96, 0.04], [0.89, 0.11], [0.85, 0.15]]
    """
    options = GuardOptions(
        stages=stages,
        epoch_seconds=epoch_seconds,
        logits=logits,
        log=log,
        quality=quality,
        pins=pins,
        segments=segments,
        cohort=cohort,
        trained=trained,
    )
    results, batch = decode_all(density, profile, options)
    posteriors = _smooth(results)
    return posteriors if batch else posteriors[0]


@overload
def sample(
    density: Hypnodensity | npt.NDArray[Any],
    profile: Profile | str,
    *,
    n: int,
    seed: int = 0,
    **options: Unpack[NightKeywords],
) -> Labels: ...


@overload
def sample(
    density: Sequence[Hypnodensity | npt.NDArray[Any]],
    profile: Profile | str,
    *,
    n: int,
    seed: int | Sequence[int] = 0,
    **options: Unpack[BatchKeywords],
) -> list[Labels]: ...


def sample(
    density: Any,
    profile: Profile | str,
    *,
    n: int,
    seed: int | Sequence[int] = 0,
    stages: Sequence[str] | None = None,
    epoch_seconds: float | None = None,
    quality: Any = None,
    pins: Any = None,
    segments: Any = None,
    cohort: str | None = None,
    trained: Training | None = None,
    logits: bool = False,
    log: bool = False,
) -> Labels | list[Labels]:
    """Whole nights drawn from the paths a profile allows, each with its probability.

    Exact joint draws, not epoch by epoch: minimum bouts, forbidden switches and pins hold in each of them,
    and the share of draws with a stage in an epoch tends to `posterior`'s probability. They spread as far as
    the stager's own doubt, and no further. The strength is `decode`'s, and the flip-flop window is always the
    exact one, with a warning where the profile's is greedy.

    Parameters
    ----------
    density, profile, stages, epoch_seconds, quality, pins, segments, cohort, trained, logits, log
        As in `stageguard.decode`. A list of nights gives a list.
    n : int
        Number of draws.
    seed : int, or one int per night
        The same seed gives the same draws, whatever else is in the list and however many threads there are,
        and the first draws do not depend on `n`. One seed serves each night of a list alike; for draws that
        are independent between nights give one seed per night.

    Returns
    -------
    int8 array (n, n_epochs), or a list of them
        Labels in the profile's stage order, -1 where there is no evidence for more than five minutes.

    Examples
    --------
    >>> import stageguard as sg
    >>> profile = sg.Profile.load("human-psg-3").replace(transition_weight=0.3)
    >>> sg.sample([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1]], profile, n=1000, seed=1).shape
    (1000, 2)
    """
    n_draws = _count(n)
    options = GuardOptions(
        stages=stages,
        epoch_seconds=epoch_seconds,
        logits=logits,
        log=log,
        quality=quality,
        pins=pins,
        segments=segments,
        cohort=cohort,
        trained=trained,
    )
    results, batch = decode_all(density, profile, options)
    seeds = _seeds(seed, len(results), batch)
    if any(_is_greedy(result.profile) for result in results):
        warnings.warn(f"sample: {EXACT_WINDOW}.", StageGuardWarning, stacklevel=2)
    drawn = _draw(results, n_draws, seeds)
    return drawn if batch else drawn[0]


def sample_like(result: Decoding, *, n: int, seed: int = 0) -> Labels:
    """Draw `n` nights (n, n_epochs) at the strength a night was decoded with; see `sample`."""
    return _draw([result], _count(n), _seeds(seed, 1, False))[0]


def posterior_like(result: Decoding) -> Posterior:
    """Return the posterior of a night at the strength it was decoded with; see `posterior`."""
    return _smooth([result])[0]


def _smooth(results: Sequence[Decoding]) -> list[Posterior]:
    smoothed: dict[int, Smoothed] = {}
    for smoother, members in _by_smoother(results):
        sums = smoother.smooth([_job(results[i]) for i in members])
        smoothed.update(zip(members, sums, strict=True))
    return [_posterior(result, smoothed[i]) for i, result in enumerate(results)]


def _draw(results: Sequence[Decoding], n_draws: int, seeds: Sequence[int]) -> list[Labels]:
    by_night: dict[int, Labels] = {}
    for smoother, members in _by_smoother(results):
        jobs = [_job(results[i]) for i in members]
        drawn = smoother.draw(jobs, n_draws, [seeds[i] for i in members])
        by_night.update(zip(members, drawn, strict=True))
    return [by_night[i] for i in range(len(results))]


def _by_smoother(results: Sequence[Decoding]) -> list[tuple[Smoother, list[int]]]:
    """Group nights of one epoch length; all were decoded under one profile."""
    by_length: dict[float, list[int]] = {}
    for i, result in enumerate(results):
        by_length.setdefault(result.epoch_seconds, []).append(i)
    return [(smoother_for(results[at[0]].profile, seconds), at) for seconds, at in by_length.items()]


def _job(result: Decoding) -> Job:
    """Return the night with the strength it was decoded with."""
    return Job(result.night, chosen_trial(result.profile, result.night, result.strength))


def _is_greedy(profile: Profile) -> bool:
    return profile.flip_flop.penalty_nats > 0 and profile.flip_flop.method == "greedy"


def _posterior(result: Decoding, smoothed: Smoothed) -> Posterior:
    assumed = list(result.assumed)
    if _is_greedy(result.profile):
        assumed.append(EXACT_WINDOW)
    if result.strength.rule != "fixed":
        assumed.append(f"the strength is what decode chooses on this night: {result.strength}")
    return Posterior(
        smoothed.marginals,
        result.profile.scheme,
        result.epoch_seconds,
        start=result.hypnogram.start,
        source=result.source,
        log_evidence=smoothed.log_sum,
        transition_weight=result.strength.transition_weight,
        prior_exponent=result.strength.prior_exponent,
        profile=result.profile,
        assumed=tuple(assumed),
        offset_seconds=result.hypnogram.offset_seconds,
    )


def _count(n: object) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= MOST_DRAWS:
        raise InputError(
            f"n is {checks.shown(n)}, expected the number of draws, a whole number from 1 to {MOST_DRAWS:,}."
        )
    return int(n)


def _seeds(seed: Any, n_nights: int, batch: bool) -> list[int]:
    """Return one seed per night."""
    given = [seed] * n_nights
    if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
        if not batch:
            raise InputError("seed is a list, expected one whole number for one night.")
        given = per_night(seed, n_nights, "seed")
    for number in given:
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
            raise InputError(f"seed is {checks.shown(number)}, expected a whole number from 0.")
    return [int(number) for number in given]
