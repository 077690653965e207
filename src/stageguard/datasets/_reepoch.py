"""Labels of one epoch length told in another, for the datasets. The rule is that of `merging`."""

from __future__ import annotations

from stageguard.merging import Labels as Labels
from stageguard.merging import reepoch_labels as reepoch

__all__ = ["Labels", "reepoch"]
