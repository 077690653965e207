"""Which numbers of a stager are as good as an expert's: its errors in units of one expert's error.

For night i and expert j the reference is the consensus of the *other* experts, once for the stager and once
for expert j, so that neither is judged by itself. With s the statistic of the stager, x that of expert j and
c that of the consensus without j:

    a_ij = |s_i - c_ij|        e_ij = |x_ij - c_ij|        R = sum a_ij / sum e_ij

R is 1 for a stager that could be exchanged for one of the experts. The stager's distances from the consensus
of all would flatter it, since a consensus of five is nearer to everybody than one of four. Nights of one
person are averaged first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, Floats
from stageguard.errors import InputError, StageGuardError
from stageguard.guard.decoding import Decoding
from stageguard.guard.evidence import StagerFeatures, features_of, fragmentation_index
from stageguard.measures.agreement import cohen_kappa, common_scheme
from stageguard.measures.bouts import ScoredNight, contingency, expert_of, hypnogram_before, hypnogram_of
from stageguard.measures.experts import consensus, refuse_copies
from stageguard.measures.grade_card import (
    GradeCard,
    GradedNight,
    GradeFacts,
    PanelValues,
    refuse_repeated,
)
from stageguard.measures.statistics import AASM, SleepStatistics, StatisticsOptions
from stageguard.night.align import on_epochs_of, where_scored
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.period import period_of
from stageguard.night.quantities import ALL_BOUTS, STAGE, WITH_INTERVAL


def grade(
    experts: Sequence[Hypnogram] | Sequence[Sequence[Hypnogram | None]],
    nights: Sequence[ScoredNight],
    *,
    people: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    scorers: Sequence[str] | None = None,
    stager: str | None = None,
    cohort: str | None = None,
) -> GradeCard:
    """Hold a stager's sleep statistics to experts who scored the same nights.

    Parameters
    ----------
    experts : sequence of sequence of Hypnogram, or sequence of Hypnogram
        For every night the scorings of the same epochs, the experts always in the same order, None where one
        did not score. Or one scoring of each night.
    nights : sequence of Hypnogram or Decoding
        The stager's nights.
    people : sequence of str, optional
        Who slept each night; nights of one person count once. Default: everybody slept once.
    ids, scorers : sequence of str, optional
        Names of the nights and of the experts.
    stager, cohort : str, optional
        The stager with its version and channels, and whom the nights are of. Default: as in the decodings.

    Returns
    -------
    GradeCard
        Verdicts need three scorers on 25 people. With one scorer, errors are compared with those between two
        experts of the shipped table, without a verdict.

    Raises
    ------
    InputError
        Nights and experts do not belong together or are swapped.

    Examples
    --------
    >>> import stageguard as sg
    >>> experts = [sg.read_hypnogram(list(stages)) for stages in ("WNNNRR", "WWNNRR", "WWWWNR")]
    >>> card = sg.grade([experts], [sg.read_hypnogram(list("WWWNRR"))])
    >>> card["tst_minutes"].mean.value, card["tst_minutes"].verdict
    (1.0, None)
    """
    panels = _panels(experts, nights)
    n = len(nights)
    for given, what in ((stager, "stager"), (cohort, "cohort")):
        if given is not None:
            checks.text(given, what)
    names = [f"night {number}" for number in range(1, n + 1)] if ids is None else texts_of(ids, "ids", n)
    refuse_repeated(names, "nights")
    persons = names if people is None else texts_of(people, "people", n)
    measured = []
    for name, person, night, panel in zip(names, persons, nights, panels, strict=True):
        try:
            before = hypnogram_before(night) if isinstance(night, Decoding) else None
            refuse_copies(panel, hypnogram_of(night), before)
            features = features_of_night(night)
            measured.append(measure_panel(name, person, night, panel, features=features))
        except StageGuardError as error:
            raise InputError(f"{name}: {error}") from None
    who = _scorers(panels) if scorers is None else tuple(texts_of(scorers, "scorers", len(panels[0])))
    return GradeCard(tuple(measured), who, _facts(nights, stager, cohort))


def measure_panel(
    name: str,
    person: str,
    night: ScoredNight,
    panel: Sequence[Hypnogram | None],
    options: StatisticsOptions = AASM,
    features: StagerFeatures | None = None,
) -> GradedNight:
    """Measure one night by the stager, the experts and their consensus.

    `features` are left out where they are not in the stages of the comparison.
    """
    scored = hypnogram_of(night)
    scorings = {
        j: on_epochs_of(scored, hypnogram_of(each)) for j, each in enumerate(panel) if each is not None
    }
    if not scorings:
        raise InputError("no expert scored it, expected one or more.")
    scheme = scored.scheme
    for scoring in scorings.values():
        scheme = common_scheme(scheme, scoring.scheme)
    scorings = {j: scoring.merge(scheme) for j, scoring in scorings.items()}
    everyone = _consensus(list(scorings.values()))
    assert everyone is not None
    # epochs that no expert scored say nothing of the stager
    own = where_scored(everyone, scored.merge(scheme))
    if not np.any(own.labels >= 0):
        raise InputError("no epoch has a stage both of the stager and of an expert, expected one or more.")
    others = {j: _consensus([scorings[k] for k in scorings if k != j]) for j in scorings}
    values = graded_values(own, options)
    by_expert = [
        None if j not in scorings else graded_values(scorings[j], options) for j in range(len(panel))
    ]
    by_others = [graded_values(each, options) if (each := others.get(j)) else None for j in range(len(panel))]
    by_everyone = graded_values(everyone, options)
    return GradedNight(
        id=name,
        person=person,
        scheme=scheme,
        epoch_seconds=scored.epoch_seconds,
        statistics=MappingProxyType(
            {
                key: PanelValues(
                    value,
                    by_everyone[key],
                    *(_of_key(found, key) for found in (by_expert, by_others)),
                )
                for key, value in values.items()
            }
        ),
        scored_by=tuple(j in scorings for j in range(len(panel))),
        kappas=tuple(
            (_kappa(others.get(j) or everyone, own), _kappa(others.get(j), scorings.get(j)))
            if j in scorings
            else (NAN, NAN)
            for j in range(len(panel))
        ),
        features=features if features is not None and len(features.shares) == scheme.n_stages else None,
    )


def _of_key(found: Sequence[Mapping[str, float] | None], key: str) -> tuple[float, ...]:
    return tuple(NAN if values is None else values[key] for values in found)


def _consensus(scorings: Sequence[Hypnogram]) -> Hypnogram | None:
    """Return the consensus; of one scoring itself, of none None."""
    if len(scorings) > 1:
        return consensus(scorings)
    return scorings[0] if scorings else None


def _kappa(reference: Hypnogram | None, scoring: Hypnogram | None) -> float:
    if reference is None or scoring is None:
        return NAN
    return cohen_kappa(contingency(reference.labels, scoring.labels, reference.scheme.n_stages))


def features_of_night(night: ScoredNight) -> StagerFeatures | None:
    """Return how a stager's night looks: its probabilities if it was decoded, else its labels."""
    if isinstance(night, Decoding):
        return features_of(night.night, night.epoch_seconds / night.profile.epoch_seconds)
    return features_of_labels(hypnogram_of(night))


def features_of_labels(night: Hypnogram, rows: Floats | None = None) -> StagerFeatures | None:
    """Return the features of labels and of the probabilities behind them, of 0 and 1 if there are none.

    None without a label.
    """
    if not np.any(night.labels >= 0):
        return None
    if rows is None:
        rows = (night.labels[:, None] == np.arange(night.scheme.n_stages)).astype(np.float64)
    # as of decoded nights, wake around the sleep does not count
    first, stop = period_of(night.labels, night.scheme.wake_index, night.epoch_seconds)
    first, stop = (first, stop) if first < stop else (0, night.n_epochs)
    index = fragmentation_index(night.labels, [(first, stop)])
    return StagerFeatures.of(rows[first:stop], night.labels[first:stop], index)


def graded_values(night: Hypnogram, options: StatisticsOptions = AASM) -> dict[str, float]:
    """Return the statistics that are graded; sleep or REM that never comes counts as coming at the end.

    On a night without sleep, whatever else does not exist counts as 0.
    """
    statistics = options.measure(night)
    values = {quantity.key: float(getattr(statistics, quantity.key)) for quantity in WITH_INTERVAL}
    for quantity in WITH_INTERVAL:
        if quantity.is_latency and math.isnan(values[quantity.key]) and _may_come(statistics, quantity.needs):
            values[quantity.key] = statistics.tib_minutes
    values[ALL_BOUTS.key] = float(sum(statistics.bouts.values()))
    asleep = [name for name in night.scheme.names if name != night.scheme.wake]
    for quantity in STAGE:
        # minutes of wake follow from those of sleep, and so do those of the only stage of sleep
        stages = night.scheme.names if quantity.key == "bouts" else asleep if len(asleep) > 1 else ()
        by_stage = getattr(statistics, quantity.key)
        values |= {f"{quantity.key}_{stage}": float(by_stage[stage]) for stage in stages}
    if statistics.tst_minutes == 0:  # without sleep there is none to be disturbed, and that may be an error
        values = {key: 0.0 if math.isnan(value) else value for key, value in values.items()}
    return values


def _may_come(statistics: SleepStatistics, needs: Sequence[str]) -> bool:
    """Whether a latency could exist on such a night: with bedtime and scored epochs, for REM also REM."""
    scheme = statistics.scheme
    if not statistics.has_bedtime or scheme.wake is None:
        return False
    is_of_rem = "REM" in needs or "REM bout" in needs
    return sum(statistics.stage_epochs) > 0 and (scheme.rem is not None or not is_of_rem)


def _panels(
    experts: Sequence[Hypnogram] | Sequence[Sequence[Hypnogram | None]], nights: Sequence[ScoredNight]
) -> list[list[Hypnogram | None]]:
    """Return a list of scorings per night, all of one length."""
    given: list[tuple[object, str]] = [(experts, "experts"), (nights, "nights")]
    for value, what in given:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise InputError(f"{what} are {checks.shown(value)}, expected a list with an entry per night.")
    if len(nights) != len(experts) or not nights:
        raise InputError(
            f"got {len(nights)} nights and experts of {len(experts)}, expected scorings of every night."
        )
    panels: list[list[Hypnogram | None]] = []
    for number, panel in enumerate(experts, start=1):
        what = f"night {number}: the expert"
        if isinstance(panel, Sequence) and not isinstance(panel, str) and panel:
            panels.append([None if each is None else expert_of(each, what) for each in panel])
        else:
            panels.append([expert_of(panel, what)])
    lengths = {len(panel) for panel in panels}
    if len(lengths) > 1:
        raise InputError(
            f"nights have {min(lengths)} to {max(lengths)} scorings, expected the same experts in the same "
            "order on every night, and None where one did not score."
        )
    return panels


def texts_of(values: Sequence[str], what: str, n: int) -> list[str]:
    """Return a text for each of n nights or experts."""
    texts = [checks.text(value, what, empty=False) for value in checks.items(values, what, lambda v, _: v)]
    if len(texts) != n:
        raise InputError(f"got {len(texts)} {what}, expected {n}.")
    return texts


def _scorers(panels: Sequence[Sequence[Hypnogram | None]]) -> tuple[str, ...]:
    """Return the experts' names, where every night says the same ones; else their numbers."""
    numbered = tuple(f"expert {number}" for number in range(1, len(panels[0]) + 1))
    columns = [{each.scorer for each in column if each is not None} for column in zip(*panels, strict=True)]
    names = tuple(next(iter(column)) or "" for column in columns if len(column) == 1)
    return names if len(set(names) - {""}) == len(columns) else numbered


def _facts(nights: Sequence[ScoredNight], stager: str | None, cohort: str | None) -> GradeFacts:
    """Return whose nights these are; refuse nights of several profiles or stagers."""
    decoded = [night for night in nights if isinstance(night, Decoding)]
    if decoded and len(decoded) < len(nights):
        raise InputError(f"{len(decoded)} of {len(nights)} nights are decoded, expected all or none.")
    profile = one_of("profile", [night.profile.name for night in decoded])
    sha256 = one_of("profile", [night.profile.sha256 for night in decoded])
    stager = stager or one_of("stager", [night.stager for night in decoded])
    cohort = cohort or one_of("cohort", [night.cohort for night in decoded])
    return GradeFacts(stager, cohort, profile, sha256)


def one_of(what: str, values: Sequence[str | None]) -> str | None:
    """Return the one value that all nights have, None without any; refuse several."""
    found = list(dict.fromkeys(values))
    if len(found) > 1:
        shown = " and ".join(repr(value) for value in found[:2])
        raise InputError(f"nights are of more than one {what} ({shown}), expected one card for each.")
    return found[0] if found else None
