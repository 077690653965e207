"""Review to a target: which stretch to look at next, and when the numbers of a night are right enough.

A target of 10 min for total sleep time means: the number of the decoded night is within 10 min of what the
scorer would get by scoring every epoch. It is met when the 90 % interval of the statistic lies within 10 min
of that number.

**Draws.** Both come from one set of draws of the posterior, each of which lets the stager err in its own way
all night (`guard.posterior`). Offsets are drawn in proportion to how probable they make the scorer's answers,
so that the draws learn how this stager errs on this night.

**What to look at.** Epochs that nobody has seen are cut into stretches as a scorer looks at them: one decoded
stage, at most `LONGEST_LOOK` epochs, all of them sure or none. The value of a stretch is by how much its true
stages bring the number nearer to the truth, were a draw the truth: the mean, over draws, of what they do in
the night as it is decoded and in a night where all else is right already. The first alone would overlook
errors that count only once others are corrected, such as the second of two false epochs of REM. It is divided
by the root of the length, since more epochs take longer. Values of several statistics are added in units of
their targets; without targets, in units of one expert's error.

**When to stop.** Intervals are quantiles of the same draws. Sleep or REM that never comes counts as coming at
the end of time in bed.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, Floats, Indices, Labels, Mask
from stageguard.errors import InputError
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import Offsets, draw_night, random_offsets, smooth_night, uncut
from stageguard.measures.expert_errors import TABLE_EPOCH_SECONDS, expert_errors
from stageguard.measures.statistics import MINUTES_OF_STAGE, statistics_of_many
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.quantities import REPORTED, Quantity, quantity_of
from stageguard.night.stages import StageScheme
from stageguard.review.corrections import corrected_statistics

LONGEST_LOOK = 10  # epochs: what a scorer takes in at once
SURE = 0.9  # share of draws with the decoded stage
N_DRAWS = 240
LEVEL = 0.9  # of intervals
LEAST_EFFECTIVE = 40.0  # draws: answers count less where they would leave fewer
SAME_AS = {"se_percent": "tst_minutes"}  # in other units: of no value of its own beside it


@dataclass(frozen=True, slots=True)
class Answers:
    """A decoded night with a scorer's answers."""

    decoding: Decoding  # with the answers as pins
    labels: Labels  # a stage per epoch; answers always hold
    seen: Mask  # which epochs the scorer has decided
    bed: tuple[int, int]  # first epoch of time in bed, and first epoch after it

    @property
    def scheme(self) -> StageScheme:
        """The stages."""
        return self.decoding.profile.scheme

    def statistics(self, labels: Labels) -> dict[str, Floats]:
        """Return statistics of scorings (n, n_epochs); what never comes is as late as the end."""
        first, stop = self.bed
        seconds = self.decoding.epoch_seconds
        values = statistics_of_many(labels[:, first:stop], self.scheme, seconds)
        never = (stop - first) * seconds / 60.0
        for key, of_each in values.items():
            if quantity_of(key).is_latency:
                values[key] = np.where(np.isnan(of_each), never, of_each)
        return values

    def draws(self, *, seed: int = 0) -> Labels:
        """Return draws (N_DRAWS, n_epochs) given the answers; offsets that explain them come more often."""
        night, profile = uncut(self.decoding), self.decoding.profile
        offsets = random_offsets(profile, N_DRAWS, seed)
        if night.pins:
            before = copy(night)
            before.pins = {}
            fit = smooth_night(profile, night, offsets)[1] - smooth_night(profile, before, offsets)[1]
            chosen = resample(tempered(fit))
            offsets = Offsets(offsets.nats[chosen], offsets.weights[chosen])
        drawn = draw_night(profile, night, offsets, seed)
        drawn[:, self.decoding.hypnogram.labels == UNSCORED] = UNSCORED
        return self._hold(drawn)

    def _hold(self, drawn: Labels) -> Labels:
        """Put the answers into draws, which lack them where the profile does not allow them."""
        drawn[:, self.seen] = self.labels[self.seen]
        return drawn


def tempered(log_weights: Floats) -> Floats:
    """Return weights (n,) with sum 1, flattened until `LEAST_EFFECTIVE` draws carry them."""
    centred = log_weights - log_weights.max()
    low, high = 0.0, 1.0  # exponents that flatten enough, and that may not
    weights = _normalised(centred)
    while not _is_carried(weights) and high - low > 1e-3 * high:
        middle = (low + high) / 2
        is_enough = _is_carried(_normalised(middle * centred))
        low, high = (middle, high) if is_enough else (low, middle)
    return weights if _is_carried(weights) else _normalised(low * centred)


def _normalised(logs: Floats) -> Floats:
    weights: Floats = np.exp(logs)
    weights /= weights.sum()
    return weights


def _is_carried(weights: Floats) -> bool:
    return 1.0 / float(weights @ weights) >= LEAST_EFFECTIVE


def resample(weights: Floats) -> Indices:
    """Return as many places as there are weights, each in proportion to its weight; the same every time."""
    n = len(weights)
    steps = (np.arange(n) + 0.5) / n
    return np.minimum(np.searchsorted(np.cumsum(weights), steps), n - 1)


@dataclass(frozen=True, slots=True)
class Look:
    """A stretch to look at."""

    first: int
    last: int
    value: float  # by how much the answer lowers the expected error, in units of the targets, per root epoch
    moves: str  # the statistic whose expected error it lowers most
    lowers: float  # by how much, in its unit


def stretches(labels: Labels, sure: Mask, unseen: Mask) -> Indices:
    """Return first epoch and end (n, 2) of stretches of unseen epochs, as a scorer looks at them."""
    breaks = np.ones(len(labels) + 1, dtype=bool)
    breaks[1:-1] = False
    for by_epoch in (labels, sure, unseen):
        breaks[1:-1] |= by_epoch[1:] != by_epoch[:-1]
    edges = np.flatnonzero(breaks)
    pieces = []
    for first, end in pairwise(edges.tolist()):
        if unseen[first]:
            n_parts = -(-(end - first) // LONGEST_LOOK)
            cuts = np.linspace(first, end, n_parts + 1).round().astype(int)
            pieces += list(pairwise(cuts))
    return np.array(pieces, dtype=np.intp).reshape(-1, 2)


def looks_of(answers: Answers, drawn: Labels, units: Mapping[str, float]) -> tuple[Look, ...]:
    """Return the stretches that are worth a look by draws (n_draws, n_epochs), the most valuable first.

    `units` are the targets, or one expert's errors, by statistic.
    """
    first_in_bed, stop = answers.bed
    unseen = ~answers.seen & (answers.labels != UNSCORED)
    unseen[:first_in_bed] = unseen[stop:] = False
    sure = (drawn == answers.labels).mean(axis=0) >= SURE
    pieces = stretches(answers.labels, sure, unseen)
    gains = gains_of(answers, drawn, pieces, units)  # (n_stretches, n_statistics)
    total, keys = gains.sum(axis=1) / np.sqrt(pieces[:, 1] - pieces[:, 0]), list(units)
    looks = []
    for place in np.argsort(-total, kind="stable").tolist():
        if total[place] <= 0:
            break
        most = int(gains[place].argmax())
        first, end = pieces[place].tolist()
        lowers = float(gains[place, most]) * units[keys[most]]
        looks.append(Look(first, end - 1, float(total[place]), keys[most], lowers))
    return tuple(looks)


def gains_of(answers: Answers, drawn: Labels, pieces: Indices, units: Mapping[str, float]) -> Floats:
    """Return by how much each look lowers the expected error of each statistic, in its units.

    It is the mean of what the look saves as the first one and as the last one.
    """
    first, stop = answers.bed
    labels, draws = answers.labels[None, first:stop], drawn[:, first:stop]
    about = pieces - first, answers.scheme, answers.decoding.epoch_seconds
    truth, now = answers.statistics(drawn), answers.statistics(answers.labels[None])
    looked_at_alone = corrected_statistics(labels, draws, *about)
    left_alone = corrected_statistics(draws, labels, *about)
    gains = np.zeros((len(pieces), len(units)))
    for place, (key, unit) in enumerate(units.items()):
        before, after = np.abs(truth[key] - now[key]), np.abs(truth[key] - looked_at_alone[key])
        remaining = np.abs(truth[key] - left_alone[key])
        gains[:, place] = np.nan_to_num(before - after + remaining).mean(axis=1) / (2.0 * unit)
    return gains


@dataclass(frozen=True, slots=True)
class Reach:
    """How near a statistic is to its target."""

    key: str
    value: float  # in the decoded night; NaN if it does not exist
    low: float  # its interval; NaN if it does not exist in most draws
    high: float
    target: float | None = None  # how far the value may be from the truth
    is_met: bool = False


def reach_of(answers: Answers, drawn: Labels, targets: Mapping[str, float]) -> dict[str, Reach]:
    """Return value, interval and target of every statistic by draws (n_draws, n_epochs)."""
    found, of_night = answers.statistics(drawn), answers.statistics(answers.labels[None])
    reached = {}
    for key in targetable(answers.scheme):
        value, column, target = float(of_night[key][0]), found[key], targets.get(key)
        if np.isnan(column).mean() > 0.5:
            reached[key] = Reach(key, value, NAN, NAN, target)
            continue
        low, high = np.nanquantile(column, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
        is_met = target is not None and value - target <= low and high <= value + target
        reached[key] = Reach(key, value, low, high, target, is_met)
    return reached


@cache
def targetable(scheme: StageScheme) -> Mapping[str, Quantity]:
    """Return the statistics that can have a target, by key."""
    of_stages = [MINUTES_OF_STAGE.of(stage) for stage in scheme.names if stage != scheme.wake]
    rem_names = () if scheme.rem is not None else ("rem_latency_minutes",)
    return {each.key: each for each in (*REPORTED, *of_stages) if each.key not in rem_names}


def default_units(scheme: StageScheme, epoch_seconds: float) -> dict[str, float]:
    """Return one expert's error by statistic, the mean over cohorts; nothing where it is not known."""
    tables = expert_errors(scheme.name) if epoch_seconds == TABLE_EPOCH_SECONDS else ()
    keys = [key for key in targetable(scheme) if key not in SAME_AS]
    return {
        key: float(np.mean([table.errors[key] for table in tables]))
        for key in keys
        if tables and all(key in table.errors for table in tables)
    }


def title_of(key: str) -> str:
    """Return what a statistic is called in a line: ``TST``."""
    return quantity_of(key).abbreviation or quantity_of(key).title


def unit_of(key: str) -> str:
    """Return the unit of a statistic with a space before it, if it has one."""
    unit = quantity_of(key).short_unit
    return f" {unit}" if unit else ""


def short_name(key: str) -> str:
    """Return how a target is named on the command line: ``tst``, ``rem_latency``, ``N3``."""
    stage = key.removeprefix(f"{MINUTES_OF_STAGE.key}_")
    return stage if stage != key else key.removesuffix("_minutes").removesuffix("_percent")


def check_targets(document: object, scheme: StageScheme) -> dict[str, float]:
    """Return targets by key, after checking names and numbers that come from outside."""
    if not isinstance(document, Mapping):
        raise InputError(f"the targets are {checks.shown(document)}, expected a number for each statistic.")
    keys = {short_name(key): key for key in targetable(scheme)}
    keys |= {key: key for key in keys.values()}
    targets = {}
    for name, value in document.items():
        if name not in keys:
            shown = ", ".join(map(short_name, targetable(scheme)))
            raise InputError(f"there is no target {checks.shown(name)}, expected one of {shown}.")
        if keys[name] in targets:
            raise InputError(f"the target {short_name(keys[name])} is given twice, expected it once.")
        targets[keys[name]] = _tolerance(value, name)
    return {key: targets[key] for key in targetable(scheme) if key in targets}


MOST_TARGET = 10_000.0


def _tolerance(value: object, name: str) -> float:
    number = checks.number(value, f"the target {name}", low=0.0, high=MOST_TARGET)
    if number <= 0:
        raise InputError(f"the target {name} is {number:g}, expected minutes (or a count) above 0.")
    return number


def parse_targets(text: str) -> dict[str, float]:
    """Return targets by the names given in a text such as ``tst=10,rem_latency=5``."""
    targets: dict[str, float] = {}
    for part in map(str.strip, text.split(",")):
        name, _, number = map(str.strip, part.partition("="))
        try:
            value = float(number)
        except ValueError:
            value = NAN
        if not name or name in targets or not 0 < value <= MOST_TARGET:
            raise InputError(
                f"the target is {checks.shown(part)}, expected a statistic, once, and its minutes: tst=10."
            )
        targets[name] = value
    return targets
