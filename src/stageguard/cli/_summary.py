"""The few indicators that the before/after table shows. Plain functions on labels; -1 is unscored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from stageguard.decoded import Decoding
    from stageguard.profile import Profile

Labels = npt.NDArray[np.int8]
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Row:
    """An indicator before and after, and the experts' range where the profile knows one."""

    key: str
    title: str
    before: float
    after: float
    decimals: int = 0
    low: float = NAN
    high: float = NAN

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; places are below, inside or above the experts' range."""
        row: dict[str, Any] = {"before": self.before, "after": self.after}
        if not np.isnan(self.low):
            row |= {"expert_low": self.low, "expert_high": self.high}
            row |= {"before_place": self.place(self.before), "after_place": self.place(self.after)}
        return row

    def place(self, value: float) -> str:
        """Where a value lies in the experts' range, or an empty string."""
        if np.isnan(self.low) or np.isnan(value):
            return ""
        return "below" if value < self.low else "above" if value > self.high else "inside"


def _adjacent(labels: Labels) -> tuple[Labels, Labels]:
    """Scored neighbours: left and right label of each pair."""
    both = (labels[:-1] >= 0) & (labels[1:] >= 0)
    return labels[:-1][both], labels[1:][both]


def fragmentation_index(labels: Labels) -> float:
    """Stage changes per pair of adjacent scored epochs."""
    left, right = _adjacent(labels)
    return float(np.mean(left != right)) if len(left) else NAN


def rare_percent(labels: Labels, pairs: Iterable[tuple[int, int]]) -> float:
    """TVR: percentage of adjacent scored pairs that are one of the given stage pairs."""
    pairs = list(pairs)
    left, right = _adjacent(labels)
    if not pairs or not len(left):
        return NAN
    return 100 * float(sum(np.mean((left == a) & (right == b)) for a, b in pairs))


def sleep_minutes(labels: Labels, wake: int | None, epoch_seconds: float) -> float:
    """TST: minutes in any stage but wake; unscored epochs are neither."""
    if wake is None or not (labels >= 0).any():
        return NAN
    return float(np.count_nonzero((labels >= 0) & (labels != wake))) * epoch_seconds / 60


def awakenings(labels: Labels, wake: int | None) -> float:
    """Wake bouts between the first and the last epoch of sleep."""
    if wake is None:
        return NAN
    asleep = np.flatnonzero((labels >= 0) & (labels != wake))
    if not len(asleep):
        return NAN
    inside = labels[asleep[0] : asleep[-1] + 1] == wake
    return float(np.count_nonzero(inside[1:] & ~inside[:-1]))


def one_epoch_bouts(labels: Labels) -> float:
    """Bouts of a single epoch, the first and the last bout of the recording left out."""
    if len(labels) < 3:
        return 0.0
    middle = labels[1:-1]
    alone = (middle >= 0) & (middle != labels[:-2]) & (middle != labels[2:])
    return float(np.count_nonzero(alone))


def _band(profile: Profile, key: str, epoch_seconds: float) -> tuple[float, float]:
    """Return the experts' range; ranges counted per epoch grow with its length."""
    band = profile.bands.get(key)
    if band is None:
        return NAN, NAN
    scale = epoch_seconds / profile.epoch_seconds
    return band.low * scale, band.high * scale


def summarise(decoding: Decoding) -> list[Row]:
    """Rows of the before/after table."""
    scheme, profile = decoding.hypnogram.scheme, decoding.profile
    seconds, wake = decoding.hypnogram.epoch_seconds, scheme.wake_index
    pairs = [(scheme.index(a), scheme.index(b)) for a, b in profile.tvr_pairs]
    before, after = decoding.argmax, decoding.hypnogram.labels
    fi, tvr = (_band(profile, key, seconds) for key in ("fragmentation_index", "tvr_percent"))
    rows = [
        Row("fragmentation_index", "Fragmentation index (changes per epoch)",
            fragmentation_index(before), fragmentation_index(after), 3, *fi),
        Row("tvr_percent", "Uncommon transitions, TVR (%)", rare_percent(before, pairs),
            rare_percent(after, pairs), 2, *tvr),
        Row("tst_minutes", "Total sleep time (min)", sleep_minutes(before, wake, seconds),
            sleep_minutes(after, wake, seconds), 1),
        Row("awakenings", "Awakenings", awakenings(before, wake), awakenings(after, wake)),
        Row("one_epoch_bouts", "Bouts of one epoch", one_epoch_bouts(before), one_epoch_bouts(after)),
    ]  # fmt: skip
    return [row for row in rows if not (np.isnan(row.before) and np.isnan(row.after))]
