"""The mark of made-up recordings, which every reader of files looks for. Makes up nothing itself."""

from __future__ import annotations

from pathlib import Path

MARK_FILE = "synthetic.json"  # in the top folder of a simulated cohort
MARK_WORD = "SYNTHETIC"  # in headers, where a format has room for words
DEPTH = 6  # folders of the deepest native layout, and then some


def is_synthetic(path: str | Path) -> bool:
    """Return whether a file or folder lies in a simulated cohort.

    Parameters
    ----------
    path : path-like
        A recording's file or folder. The mark may lie beside it or up to six folders above.
    """
    place = Path(path).absolute()
    return any((folder / MARK_FILE).is_file() for folder in (place, *place.parents)[: DEPTH + 1])
