"""Covariates of the Sleep Heart Health Study, and a stratified sample by age and apnoea. Reads no recordings.

The paper took 25 subjects of visit 1 with ids 200001 to 204000, stratified by age and by severity of sleep
apnoea, with the seed 2024, and reports how many are in each group. It says neither how they were drawn nor by
which apnoea-hypopnoea index. Here the order of a draw is that of a SHA-256 of seed and id, so that it is the
same on every machine, with every library, and whatever else the table holds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stageguard.base.errors import InputError, did_you_mean
from stageguard.datasets.samples import broken
from stageguard.formats.tables.delimited import read_delimited

PAPER_SEED = 2024
PAPER_IDS = (200001, 204000)
AGE_GROUPS = ((40.0, "40-55"), (55.0, "55-70"), (70.0, "70+"))  # from this age on
OSA_GROUPS = ((0.0, "none"), (5.0, "mild"), (15.0, "moderate/severe"))  # from this index on, events per hour
# Subjects by age and severity. The paper gives the sums only (8, 10, 7 and 12, 8, 5); these are the whole
# numbers nearest to independence that add up to them.
PAPER_QUOTAS = {
    "40-55": {"none": 4, "mild": 3, "moderate/severe": 1},
    "55-70": {"none": 5, "mild": 3, "moderate/severe": 2},
    "70+": {"none": 3, "mild": 2, "moderate/severe": 2},
}
# The first that is there counts: hypopnoeas with 3 % desaturation or arousal under the names of the NSRR's
# harmonised table and of the study's own, then with 3 % desaturation only.
AHI_COLUMNS = ("nsrr_ahi_hp3r_aasm15", "ahi_a0h3a", "nsrr_ahi_hp3u", "ahi_a0h3", "rdi3p")
AGE_COLUMNS = {1: ("nsrr_age", "age_s1"), 2: ("nsrr_age", "age_s2")}
SEX_COLUMNS = ("nsrr_sex", "gender")
SEXES = {"male": "M", "1": "M", "female": "F", "2": "F"}


@dataclass(frozen=True, slots=True)
class Participant:
    """What the tables say of one subject at one visit; None where they say nothing."""

    id: str
    age: float | None = None
    sex: str | None = None
    ahi: float | None = None
    ahi_column: str = ""

    @property
    def age_group(self) -> str | None:
        """Age group of the paper's table."""
        return _group(self.age, AGE_GROUPS)

    @property
    def osa(self) -> str | None:
        """Severity of sleep apnoea: none, mild, or moderate/severe."""
        return _group(self.ahi, OSA_GROUPS)

    def covariates(self) -> dict[str, float | str]:
        """Return what is known, by name."""
        pairs = {"age": self.age, "sex": self.sex, "ahi": self.ahi}
        pairs |= {"age_group": self.age_group, "osa": self.osa}
        return {name: value for name, value in pairs.items() if value is not None}


def read_participants(folder: Path, visit: int, ahi: str | None = None) -> dict[str, Participant]:
    """Read participants by id from `shhs1-dataset-*.csv` and `shhs-harmonized-dataset-*.csv`.

    Parameters
    ----------
    folder : Path
        Where the local copy is; the tables are in its folder ``datasets`` or anywhere below.
    visit : int
        1 or 2.
    ahi : str, optional
        Column of the apnoea-hypopnoea index; by default the first of `AHI_COLUMNS` that is there.
    """
    rows: dict[str, dict[str, str]] = {}
    columns: dict[str, None] = {}
    for path in _tables(folder, visit):
        for row in _read_table(path):
            if row.get("visitnumber", str(visit)).strip() not in ("", str(visit)):
                continue
            rows.setdefault(row["nsrrid"].strip(), {}).update(row)
            columns |= dict.fromkeys(row)
    if not rows:
        return {}
    if ahi is not None and ahi.lower() not in columns:
        candidates = [name for name in columns if "ahi" in name or "rdi" in name]
        raise InputError(
            f"the tables of SHHS have no column {ahi!r}, expected one such as {', '.join(candidates[:6])}."
            f"{did_you_mean(ahi, candidates)}"
        )
    chosen = ahi.lower() if ahi is not None else next((name for name in AHI_COLUMNS if name in columns), "")
    return {name: _participant(name, row, visit, chosen) for name, row in sorted(rows.items())}


def stratified_sample(
    participants: Mapping[str, Participant],
    *,
    seed: int = PAPER_SEED,
    ids: tuple[int, int] = PAPER_IDS,
    quotas: Mapping[str, Mapping[str, int]] = PAPER_QUOTAS,
) -> tuple[str, ...]:
    """Draw subjects by age and severity of apnoea; the same ones for the same table and seed.

    Parameters
    ----------
    participants : mapping of str to Participant
        By id. Those without age or index are not drawn.
    seed : int
        The paper's is 2024.
    ids : tuple of two int
        First and last id of the pool.
    quotas : mapping of str to mapping of str to int
        Age group -> severity -> how many.

    Returns
    -------
    tuple of str
        Ids in ascending order.

    Raises
    ------
    InputError
        A group has too few; the line says which.
    """
    pool: dict[tuple[str | None, str | None], list[str]] = {}
    for name, person in participants.items():
        if name.isdecimal() and ids[0] <= int(name) <= ids[1]:
            pool.setdefault((person.age_group, person.osa), []).append(name)
    drawn: list[str] = []
    for age_group, row in quotas.items():
        for osa, wanted in row.items():
            there = pool.get((age_group, osa), [])
            if len(there) < wanted:
                raise InputError(
                    f"SHHS has {len(there)} subjects of age {age_group} with apnoea {osa!r} among the ids "
                    f"{ids[0]} to {ids[1]}, expected at least {wanted} to draw from. Is the table complete?"
                )
            drawn += sorted(there, key=lambda name: draw_order(seed, name))[:wanted]
    return tuple(sorted(drawn))


def draw_order(seed: int, name: str) -> str:
    """Return what subjects are ordered by in a draw."""
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()


def _group(value: float | None, groups: tuple[tuple[float, str], ...]) -> str | None:
    """Return the last group whose lower end a value reaches."""
    if value is None:
        return None
    return next((name for low, name in reversed(groups) if value >= low), None)


def _participant(name: str, row: Mapping[str, str], visit: int, ahi: str) -> Participant:
    age = next((_number(row[column]) for column in AGE_COLUMNS[visit] if _number(row.get(column, ""))), None)
    sexes = (SEXES.get(row.get(column, "").strip().lower()) for column in SEX_COLUMNS)
    return Participant(name, age, next((sex for sex in sexes if sex), None), _number(row.get(ahi, "")), ahi)


def _tables(folder: Path, visit: int) -> list[Path]:
    """Return the newest version of each table that is there."""
    found = []
    for pattern in (f"shhs{visit}-dataset-*.csv", "shhs-harmonized-dataset-*.csv"):
        paths = sorted(folder.rglob(pattern), key=_version)
        found += paths[-1:]
    return found


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", path.stem.partition("dataset-")[2]))


def _read_table(path: Path) -> list[dict[str, str]]:
    table = read_delimited(
        path, kind="text", delimiter=",", fallback="latin-1"
    )  # free texts may be of Windows
    header = tuple(name.lower() for name in table.header)
    if "nsrrid" not in header:
        raise broken(path, "has no column nsrrid, expected a table of SHHS from the NSRR.")
    return replace(table, header=header).records()


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if 0 <= value < 1000 else None
