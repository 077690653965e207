"""What writers of several formats share: stages in the words of a tool, times and texts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stageguard.arrays import Indices
from stageguard.errors import InputError
from stageguard.formats.night import Night
from stageguard.night.stages import SCHEMES, UNSCORED_NAME, StageScheme

GENERAL = "stageguard-csv"  # carries any scheme


def standard_scheme(scheme: StageScheme) -> tuple[StageScheme, Indices]:
    """Return the standard scheme with the same stages, and its label for each stage of this scheme.

    A scheme without a standard equivalent is returned as it is.
    """
    for standard in SCHEMES.values():
        if standard.n_stages == scheme.n_stages:
            try:
                places = scheme.merge_map(standard)
            except InputError:
                continue
            if len(set(places.tolist())) == scheme.n_stages:
                return standard, places
    return scheme, np.arange(scheme.n_stages, dtype=np.intp)


def stage_words(
    night: Night, words: Mapping[str, Mapping[str, str]], tool: str, unscored: str = UNSCORED_NAME
) -> list[str]:
    """Return each epoch's stage in the words of a tool.

    `words` has each scheme that the tool knows, by its name, and the tool's words for stages if they differ
    from the scheme's.
    """
    scheme = night.hypnogram.scheme
    standard, places = standard_scheme(scheme)
    if standard.name not in words:
        raise _unknown(scheme, words, tool)
    names = [words[standard.name].get(name, name) for name in (standard.names[place] for place in places)]
    return [(*names, unscored)[label] for label in night.hypnogram.labels.tolist()]


def _unknown(scheme: StageScheme, words: Mapping[str, Mapping[str, str]], tool: str) -> InputError:
    known = "; ".join(", ".join(words[name].get(s, s) for s in SCHEMES[name].names) for name in words)
    do = f"Write another format, such as {GENERAL}."
    for name in words:
        try:
            scheme.merge_map(SCHEMES[name])
        except InputError:
            continue
        do = f"Merge the stages first: merge_to={name!r}."
        break
    return InputError(f"{tool} knows the stages {known}, but the night has {', '.join(scheme.names)}. {do}")


def stage_texts(night: Night, tool: str) -> list[str]:
    """Return each epoch's stage as EDF+ spells it: "Sleep stage N2", "Sleep stage ?"."""
    return [f"Sleep stage {word}" for word in stage_words(night, {name: {} for name in SCHEMES}, tool)]


def timed_texts(night: Night, tool: str) -> list[tuple[float, float | None, str]]:
    """Return onset, duration and text of each epoch's stage and of the other annotations, by onset."""
    seconds = night.any.epoch_seconds
    rows: list[tuple[float, float | None, str]] = [
        (onset, seconds, text) for onset, text in zip(night.onsets, stage_texts(night, tool), strict=True)
    ]
    rows += [(event.onset, event.seconds, event.text) for event in night.events]
    return sorted(rows, key=lambda row: row[0])


def plain_text(text: str) -> str:
    """Return a text on one line, without characters that end a cell or an annotation."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def number(value: float) -> str:
    """Return a number in the shortest digits that read back exactly; whole numbers have no point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
