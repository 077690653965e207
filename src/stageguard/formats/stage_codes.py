"""How tools number stages: the same number is another stage in another tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stageguard.base.files import file_error
from stageguard.night.stages import AASM5, UNSCORED_NAME, WNR3, StageScheme

_AASM = {0: "W", 1: "N1", 2: "N2", 3: "N3", 4: "R"}


@dataclass(frozen=True, slots=True)
class Numbering:
    """What numbers mean: the stage of each, whose they are, and the scheme they belong to."""

    codes: Mapping[int, str]
    whose: str
    scheme: StageScheme = AASM5


NUMBERINGS: Mapping[str, Numbering] = {
    "yasa": Numbering(
        {**_AASM, -1: UNSCORED_NAME, -2: UNSCORED_NAME}, "YASA, Dreem, Visbrain or GSSC (4 is REM)"
    ),
    "rk": Numbering(
        {
            **{0: "W", 1: "N1", 2: "N2", 3: "N3", 4: "N3", 5: "R"},
            **dict.fromkeys((-1, 6, 7, 9), UNSCORED_NAME),
        },
        "Rechtschaffen and Kales, NSRR or Elan (5 is REM)",
    ),
    "usleep": Numbering({**_AASM, 5: UNSCORED_NAME, -1: UNSCORED_NAME}, "U-Sleep (4 is REM, 5 unknown)"),
    "sleepecg": Numbering(
        {0: UNSCORED_NAME, 1: "N3", 2: "N2", 3: "N1", 4: "R", 5: "W"}, "SleepECG (1 is N3, 5 is W)"
    ),
    "accusleep": Numbering(
        {1: "R", 2: "W", 3: "N", **dict.fromkeys((-1, 0, 4), UNSCORED_NAME)},
        "AccuSleep (1 is REM, 2 W, 3 NREM)",
        WNR3,
    ),
}
BOAS = {**_AASM, 8: UNSCORED_NAME, -2: UNSCORED_NAME}  # 8 where the recorder was unplugged


def names_of(
    path: Path, codes: Iterable[float], numbering: Mapping[int, str], *, what: str, first: int = 1
) -> tuple[str, ...]:
    """Return the stages of numbers; one that the numbering does not have is an error with its place.

    Parameters
    ----------
    path : Path
        For the error.
    codes : iterable of float
        Whole numbers; NaN is unscored.
    numbering : mapping of int to str
        What they mean.
    what : str
        What is counted: "line", "epoch".
    first : int
        The number of the first of them.
    """
    stages = []
    for place, code in enumerate(codes, start=first):
        if code != code:
            stages.append(UNSCORED_NAME)
            continue
        if code not in numbering:
            known = ", ".join(f"{number} {name}" for number, name in sorted(numbering.items()))
            raise file_error(path, f"{what} {place} is {_number(code)}, expected one of: {known}.")
        stages.append(numbering[int(code)])
    return tuple(stages)


def _number(code: float) -> str:
    """Return a number as one would write it; whole ones of JSON may be too long for a float."""
    text = str(code) if isinstance(code, int) else f"{code:g}"
    return text if len(text) <= 20 else f"{text[:20]}..."
