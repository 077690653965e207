"""Draws and marginals of a night on which the stager may be wrong in the same way all night.

A stager's errors are shared by a whole night, so that paths drawn at one setting agree with each other, and
with the stager, far too well. Under a profile's `posterior` rules each draw m has its own offset of the
stages and its own transition weight, and a path the score

    x[m, s] = sd[s] · z,    w[m] = weight · exp(weight_sd · z),    z standard normal
    Σ_t (log max(p[t, s_t], floor) + c[t] · x[m, s_t]) + w[m] · (transitions)

where c[t] = 1 - quality is how far epoch t has evidence of the stager, 0 where it is bridged. Calibration,
prior, quality, clock and pins count as in `decode`; how strongly the path was smoothed does not. Wake before
the first sleep is a state of its own. All offsets count alike, however well they fit the night.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Ints32, Labels
from stageguard.errors import InputError
from stageguard.guard import kernels as kernels_module
from stageguard.guard.automaton import Automaton, Presleep, compile_automaton
from stageguard.guard.night import Night
from stageguard.guard.solver import NO_PATH, Solver, prior_nats, solver_for
from stageguard.profile.profile import Profile

N_FIXED = 32  # offsets of which a posterior is the mean
_OF_OFFSETS = (0, 0)  # key of their random numbers; a night's stretches have the keys (0,), (1,), ...

Streams = npt.NDArray[np.uint64]  # (n_draws,)


class Offsets(NamedTuple):
    """How each of several draws differs from what the stager and the profile say."""

    nats: Floats  # (n_draws, n_stages) added to the stager's evidence in every epoch
    weights: Floats  # (n_draws,) of the transitions


def random_offsets(profile: Profile, n_draws: int, seed: int, *, scale: float = 1.0) -> Offsets:
    """Return the offsets of draws; the first do not depend on their number.

    `scale` multiplies both standard deviations: with 0, all draws have one setting.
    """
    return _spread(profile, scale * _normals(seed, n_draws, profile.scheme.n_stages + 1))


def fixed_offsets(profile: Profile) -> Offsets:
    """Return the offsets of which a posterior is the mean: random ones and their opposites."""
    half = _normals(0, N_FIXED // 2, profile.scheme.n_stages + 1)
    return _spread(profile, np.concatenate([half, -half]))


def _spread(profile: Profile, normals: Floats) -> Offsets:
    rules = profile.posterior
    assert rules is not None
    spreads = np.array([rules.stage_sd[stage] for stage in profile.scheme.names])
    return Offsets(normals[:, :-1] * spreads, rules.weight * np.exp(rules.weight_sd * normals[:, -1]))


def _normals(seed: int, n: int, width: int) -> Floats:
    """Return standard normal numbers (n, width), the same with every version of NumPy (Box and Muller)."""
    n_pairs = (width + 1) // 2
    words = np.random.SeedSequence(seed, spawn_key=_OF_OFFSETS).generate_state(2 * n * n_pairs, np.uint64)
    uniforms = ((words >> np.uint64(11)) * 2.0**-53).reshape(n, 2, n_pairs)
    radius, angle = np.sqrt(-2.0 * np.log1p(-uniforms[:, 0])), 2.0 * np.pi * uniforms[:, 1]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :width]


def streams_of(seed: int, stretch: int, n_draws: int) -> Streams:
    """Return one random stream per draw of a stretch; the first streams do not depend on `n_draws`."""
    words = np.random.SeedSequence(seed, spawn_key=(stretch,)).generate_state(n_draws, np.uint64)
    return words.astype(np.uint64, copy=False)


def draw_night(profile: Profile, night: Night, offsets: Offsets, seed: int) -> Labels:
    """Return labels (n_draws, n_epochs), -1 in gaps; each draw has one offset, each stretch its streams."""
    labels = np.full((len(offsets.weights), len(night.argmax)), -1, dtype=np.int8)
    for number, stretch in enumerate(_stretches(profile, night)):
        streams = streams_of(seed, number, len(labels))
        labels[:, stretch.first : stretch.end] = stretch.draw(offsets, streams)
    return labels


def smooth_night(profile: Profile, night: Night, offsets: Offsets) -> tuple[Floats, float]:
    """Return marginals (n_epochs, n_stages), NaN in gaps, and the log-sum over paths: means over offsets."""
    marginals, log_sums = np.full(night.probabilities.shape, np.nan), np.zeros(len(offsets.weights))
    for stretch in _stretches(profile, night):
        marginals[stretch.first : stretch.end] = 0.0
        for i, (nats, weight) in enumerate(zip(*offsets, strict=True)):
            found, log_sum = stretch.smooth(nats, weight)
            marginals[stretch.first : stretch.end] += found / len(log_sums)
            log_sums[i] += log_sum
    # the mean of the sums themselves would be that of the one offset that lifts every stage most
    return marginals, float(log_sums.mean())


def log_sums(profile: Profile, night: Night, offsets: Offsets) -> Floats:
    """Return the log-sum over paths at each offset (n_draws,), stretches added up."""
    sums = np.zeros(len(offsets.weights))
    for stretch in _stretches(profile, night):
        for i, (nats, weight) in enumerate(zip(*offsets, strict=True)):
            sums[i] += stretch.smooth(nats, weight)[1]
    return sums


class States:
    """Rules at one epoch length, by state: the stages, then wake before sleep where that is a state."""

    def __init__(self, solver: Solver, presleep: Presleep | None) -> None:
        tables, n = solver.tables, solver.n_stages
        self.solver, self.presleep = solver, presleep
        self.stay, self.change, self.minimum = tables.stay, tables.change, tables.minimum_epochs
        if presleep is not None:
            self.stay = np.append(tables.stay, presleep.stay)  # (n_states,)
            self.change = np.full((n + 1, n + 1), -np.inf)  # (n_states, n_states)
            self.change[:n, :n], self.change[n, :n] = tables.change, presleep.leave
            self.minimum = np.append(tables.minimum_epochs, 1).astype(np.int32)
        self._automaton: Automaton | None = None

    @property
    def automaton(self) -> Automaton:
        """The same rules, and those that need one."""
        if self._automaton is None:
            profile, epoch_seconds = self.solver.profile, self.solver.epoch_seconds
            self._automaton = compile_automaton(profile, epoch_seconds, presleep=self.presleep)
        return self._automaton

    def bouts(self, weights: Floats) -> tuple[Floats, Floats, Ints32, bool]:
        """Return stays and changes as products, a row per transition weight, minima and how ends count."""
        stay = np.exp(weights[:, None] * self.stay)
        change = np.exp(weights[:, None] * self.change.ravel())
        return stay, change, self.minimum, self.solver.profile.ends == "censored"

    def columns(self, rows: Floats) -> Floats:
        """Return values by state (n, n_states) from values by stage: wake before sleep has those of wake."""
        if self.presleep is None:
            return np.ascontiguousarray(rows)
        wake = rows[:, self.presleep.wake : self.presleep.wake + 1]
        return np.concatenate([rows, wake], axis=1)


def _states(profile: Profile, epoch_seconds: float, *, with_presleep: bool) -> States:
    solver = solver_for(profile, epoch_seconds)
    presleep = Presleep.of(profile, solver.tables, epoch_seconds) if with_presleep else None
    return States(solver, presleep)


def _stretches(profile: Profile, night: Night) -> list[Stretch]:
    """Return the stretches of a night as sums take them; in the first, wake before sleep is a state."""
    assert profile.posterior is not None
    evidence = night.evidence(prior_nats(profile), profile.posterior.floor)
    trust = None
    if night.quality is not None or night.filled is not None:
        trust = np.ones(len(evidence)) if night.quality is None else 1.0 - night.quality
        trust = np.where(np.isnan(night.probabilities[:, 0]), 0.0, trust)
    stretches = []
    for number, (first, end) in enumerate(night.spans):
        key = ("states", night.epoch_seconds, kernels_module.active.NAME, number == 0)
        states = profile._once(
            key, lambda n=number: _states(profile, night.epoch_seconds, with_presleep=n == 0)
        )
        own = None if trust is None else trust[first:end]
        stretches.append(Stretch(states, first, end, evidence[first:end], own))
    return stretches


class Stretch:
    """One stretch of a night: its log-evidence without offsets, and how far they count in each epoch."""

    def __init__(self, states: States, first: int, end: int, logs: Floats, trust: Floats | None) -> None:
        self.states, self.first, self.end, self.logs, self.trust = states, first, end, logs, trust
        top = logs.max(axis=1, keepdims=True)  # an epoch's likelihoods may all be tiny
        self.rows = states.columns(np.exp(logs - top))  # (n_epochs, n_states)
        if states.presleep is not None:
            self.rows[0, states.presleep.wake] = 0.0  # a night that begins awake begins before sleep
        self.shift = float(top.sum())

    def draw(self, offsets: Offsets, streams: Streams) -> Labels:
        """Return one path per offset and stream (n_draws, n_epochs)."""
        states, threads = self.states, kernels_module.threads_for(len(streams))
        lost, drawn = list(range(len(streams))), np.empty((len(streams), len(self.logs)), dtype=np.int8)
        if states.solver.sums_bouts:
            stay, change, *ends = states.bouts(offsets.weights)
            if self.trust is None:
                factors = states.columns(np.exp(offsets.nats))
                drawn, lost = kernels_module.active.draw_tables(
                    self.rows, factors, stay, change, *ends, streams, threads
                )
            else:
                found = [
                    kernels_module.active.draw_tables(
                        *self._faded(offsets.nats[i]),
                        stay[i : i + 1],
                        change[i : i + 1],
                        *ends,
                        streams[i : i + 1],
                        1,
                    )
                    for i in range(len(streams))
                ]
                drawn = np.concatenate([labels for labels, _ in found])
                lost = [i for i, (_, own) in enumerate(found) if own]
            if states.presleep is not None:
                drawn = np.where(drawn == states.solver.n_stages, np.int8(states.presleep.wake), drawn)
        for i in lost:
            drawn[i] = self._draw_states(offsets.nats[i], float(offsets.weights[i]), streams[i : i + 1])
        return drawn

    def smooth(self, nats: Floats, weight: float) -> tuple[Floats, float]:
        """Return marginals (n_epochs, n_stages) and the log-sum at one offset."""
        states = self.states
        if states.solver.sums_bouts:
            rows, factors = self.rows, states.columns(np.exp(nats)[None])
            if self.trust is not None:
                rows, factors = self._faded(nats)
            bouts = states.bouts(np.array([weight]))
            marginals, log_sum, is_certain = kernels_module.active.smooth(rows, 0.0, factors[0], *bouts)
            if is_certain:
                by_stage = marginals[:, : states.solver.n_stages]
                if states.presleep is not None:
                    by_stage = by_stage.copy()
                    by_stage[:, states.presleep.wake] += marginals[:, -1]
                return by_stage, log_sum + self.shift + float(np.log(rows.sum(axis=1)).sum())
        logs, tables = self._logs(nats), states.automaton.weighted(weight)
        marginals, log_sum, is_certain = kernels_module.active.smooth_automaton(logs, True, *tables)
        if not is_certain:
            marginals, log_sum, _ = kernels_module.active.smooth_automaton(logs, False, *tables)
        if log_sum == -np.inf:
            raise InputError(NO_PATH)
        return marginals, log_sum

    def _draw_states(self, nats: Floats, weight: float, stream: Streams) -> Labels:
        """Return one path by the automaton."""
        logs, tables = self._logs(nats), self.states.automaton.weighted(weight)
        drawn, log_sum, is_certain = kernels_module.active.draw_automaton(logs, True, *tables, stream, 1)
        if not is_certain:
            drawn, log_sum, _ = kernels_module.active.draw_automaton(logs, False, *tables, stream, 1)
        if log_sum == -np.inf:
            raise InputError(NO_PATH)
        labels: Labels = drawn[0]
        return labels

    def _faded(self, nats: Floats) -> tuple[Floats, Floats]:
        """Return rows that include an offset where it counts, and no factors."""
        assert self.trust is not None
        factors = self.states.columns(np.exp(self.trust[:, None] * nats))
        return self.rows * factors, np.ones((1, self.rows.shape[1]))

    def _logs(self, nats: Floats) -> Floats:
        trust = 1.0 if self.trust is None else self.trust[:, None]
        return np.ascontiguousarray(self.logs + trust * nats)
