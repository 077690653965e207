"""Score a given path by a profile's rules, minimum bouts aside. Finds no path."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats, Labels
from stageguard.guard.automaton import Durations, Tables, compile_tables, weigh
from stageguard.guard.evidence import runs
from stageguard.profile.profile import Profile

# Tells an end of the path from a change, where a stage is compared with its neighbour.
_NOBODY = -2

# Stands for minus infinity, so that what a path gains and loses by forbidden steps can be added up.
FORBIDDEN_NATS = -1000.0


class PathScorer:
    """What a profile's transitions, bout lengths and flip-flop window give to a path, in nats.

    Minimum bouts forbid and give nothing, so that a path they forbid has a score here too. A transition or
    bout length of probability 0 counts as -1000 nats.

    Parameters
    ----------
    profile : Profile
        Whose rules.
    epoch_seconds : float
        Length of an epoch.
    transition_weight : float
        How much transitions and bout lengths count.
    """

    def __init__(self, profile: Profile, epoch_seconds: float, transition_weight: float) -> None:
        tables: Tables = compile_tables(profile, epoch_seconds)
        self._stay = np.maximum(weigh(tables.stay, transition_weight), FORBIDDEN_NATS)
        self._change = np.maximum(weigh(tables.change, transition_weight), FORBIDDEN_NATS)
        self._weight = transition_weight
        self._profile = profile
        flip = profile.flip_flop
        self._flip_nats, self._window = flip.penalty_nats, flip.window_epochs

    def __call__(self, labels: Labels) -> float:
        """Return the score of one stretch without gaps."""
        before, after = labels[:-1], labels[1:]
        moved = before != after
        total = float(self._stay[after[~moved]].sum() + self._change[before[moved], after[moved]].sum())
        if self.counts_lengths:
            total += self._bout_lengths(labels)
        if self._flip_nats:
            total -= self._flip_nats * self._count_flips(labels, np.flatnonzero(moved) + 1)
        return total

    @property
    def window_epochs(self) -> int:
        """Epochs beyond a change whose transitions and flips it can alter."""
        return self._window if self._flip_nats else 1

    @property
    def counts_lengths(self) -> bool:
        """Whether the lengths of bouts count, which a change beside a bout alters too."""
        return bool(self._profile.durations) and self._weight > 0

    def _bout_lengths(self, labels: Labels) -> float:
        names, total = self._profile.scheme.names, 0.0
        for name, table in self._profile.durations.items():
            for first, end in runs(labels == names.index(name)):
                lengths = Durations.from_table(table, end - first)
                is_cut = end == len(labels) or (first == 0 and self._profile.ends == "censored")
                known: Floats = lengths.log_survival if is_cut else lengths.log_length
                total += max(self._weight * float(known[end - first - 1]), FORBIDDEN_NATS)
        return total

    def _count_flips(self, labels: Labels, changes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> int:
        """Count changes to a stage that was seen within the window before the one that is left."""
        padded = np.concatenate([np.full(self._window, _NOBODY, dtype=labels.dtype), labels])
        back = np.arange(2, self._window + 1)
        earlier = padded[changes[:, None] + self._window - back]  # (n_changes, window - 1)
        return int(np.count_nonzero((earlier == labels[changes][:, None]).any(axis=1)))
