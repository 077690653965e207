"""Two scorings of a night: where they agree, where somebody must decide, and how far they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stageguard.arrays import Ints, Labels, Mask
from stageguard.errors import InputError
from stageguard.formats.outputs import plain
from stageguard.measures.agreement import cohen_kappa, stage_kappas
from stageguard.measures.bouts import contingency
from stageguard.review.state import Pin

CONSENSUS = "consensus"


@dataclass(frozen=True, slots=True, eq=False)
class Opinion:
    """One scorer's stages of a whole night."""

    scorer: str
    labels: Labels
    times: tuple[str, ...]  # when each epoch was decided
    is_blind: bool  # whether stager and guard were hidden from the scorer all the time
    place: Mapping[str, Any]  # of the scorer's journal


@dataclass(frozen=True, slots=True)
class DisputedStretch:
    """Adjacent epochs with the same two opinions."""

    first: int
    last: int
    stages: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Dispute:
    """Two opinions about the same epochs. Where they agree, the night is settled."""

    opinions: tuple[Opinion, Opinion]

    @property
    def scorers(self) -> tuple[str, str]:
        """The names of the two."""
        return self.opinions[0].scorer, self.opinions[1].scorer

    @cached_property
    def is_disputed(self) -> Mask:
        """Whether the two gave an epoch different stages."""
        one, other = self.opinions
        return np.asarray(one.labels != other.labels)

    @cached_property
    def settled(self) -> dict[int, Pin]:
        """The stages on which the two agree, by epoch."""
        both = " and ".join(self.scorers)
        labels = self.opinions[0].labels.tolist()
        epochs = np.flatnonzero(~self.is_disputed).tolist()
        return {epoch: Pin(labels[epoch], both, is_agreed=True) for epoch in epochs}

    def check_settled(self, pins: Mapping[int, Pin]) -> None:
        """Refuse decisions about an epoch on which the two agree."""
        for epoch, pin in self.settled.items():
            if pins.get(epoch) != pin:
                raise InputError(f"{pin.who} agree on epoch {epoch + 1}: decide where they differ.")

    def stretches(self, pins: Mapping[int, Pin] | None = None) -> list[DisputedStretch]:
        """Return the stretches on which the two differ, apart from decided epochs, in order of time."""
        left = self.is_disputed.copy()
        left[list(pins or ())] = False
        pairs = list(zip(*(one.labels.tolist() for one in self.opinions), strict=True))
        stretches: list[DisputedStretch] = []
        for epoch in np.flatnonzero(left).tolist():
            last = stretches[-1] if stretches else None
            if last is not None and last.last == epoch - 1 and last.stages == pairs[epoch]:
                stretches[-1] = DisputedStretch(last.first, epoch, last.stages)
            else:
                stretches.append(DisputedStretch(epoch, epoch, pairs[epoch]))
        return stretches

    def n_left(self, pins: Mapping[int, Pin]) -> int:
        """Return the number of epochs that nobody has decided."""
        return len(self.is_disputed) - len(pins)

    def comparisons(self, names: Sequence[str], pins: Mapping[int, Pin]) -> tuple[Comparison, ...]:
        """Return how far the two agree, and each with the consensus once every epoch is decided."""
        one, other = self.opinions
        found = [Comparison.of((one.scorer, one.labels), (other.scorer, other.labels), names)]
        if not self.n_left(pins):
            labels = np.array([pins[epoch].stage for epoch in range(len(pins))], dtype=np.int8)
            consensus = (CONSENSUS, labels)
            found += [Comparison.of(consensus, (each.scorer, each.labels), names) for each in self.opinions]
        return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Two scorings of a night, epoch by epoch."""

    reference: str  # whose stages are the rows of the confusion
    scorer: str  # whose are its columns
    names: tuple[str, ...]  # of the stages
    confusion: Ints  # numbers of epochs (n_stages, n_stages)

    @classmethod
    def of(
        cls, reference: tuple[str, Labels], scoring: tuple[str, Labels], names: Sequence[str]
    ) -> Comparison:
        """Compare two scorings, each with its name."""
        confusion = contingency(reference[1], scoring[1], len(names))
        return cls(reference[0], scoring[0], tuple(names), confusion)

    @property
    def kappa(self) -> float:
        """Cohen's kappa, unweighted; NaN if both scored one stage only."""
        return cohen_kappa(self.confusion)

    @property
    def stage_kappas(self) -> dict[str, float]:
        """Cohen's kappa of each stage against all others."""
        return dict(zip(self.names, stage_kappas(self.confusion).tolist(), strict=True))

    @property
    def accuracy(self) -> float:
        """Share of epochs with the same stage."""
        return float(np.trace(self.confusion) / self.confusion.sum())

    def to_dict(self) -> dict[str, Any]:
        """Return plain types; what is not defined is None."""
        return {
            "reference": self.reference,
            "scorer": self.scorer,
            "epochs": int(self.confusion.sum()),
            "accuracy": self.accuracy,
            "kappa": plain(self.kappa),
            "stage_kappas": plain(self.stage_kappas),
            "stages": list(self.names),
            "confusion": self.confusion.tolist(),
        }
