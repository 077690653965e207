"""Sleep Heart Health Study in the layout of the NSRR: EDF, stages in XML, covariates in CSV.

polysomnography/edfs/shhs1/shhs1-200001.edf
polysomnography/annotations-events-nsrr/shhs1/shhs1-200001-nsrr.xml
polysomnography/annotations-events-profusion/shhs1/shhs1-200001-profusion.xml
datasets/shhs1-dataset-0.21.0.csv, datasets/shhs-harmonized-dataset-0.21.0.csv

The paper used 25 subjects of visit 1 with ids 200001 to 204000, stratified by age and by severity of sleep
apnoea, with the seed 2024. It reports the size of each group, but neither how subjects were drawn nor which
apnoea-hypopnoea index was used. Here subjects are drawn in the order of a SHA-256 of seed and id. The sample
is therefore the same on every machine, with every library, and whatever else the table contains.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from stageguard import checks
from stageguard.datasets import Entry, dataset_error
from stageguard.errors import InputError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_hypnogram_file
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.recordings.read import build_recording, lay_over
from stageguard.formats.tables.delimited import read_delimited
from stageguard.night.recording import Recording
from stageguard.night.stages import AASM5

ANNOTATIONS = ("nsrr", "profusion")
PAPER_SEED = 2024
PAPER_IDS = (200001, 204000)
AGE_GROUPS = ((40.0, "40-55"), (55.0, "55-70"), (70.0, "70+"))  # from this age on
OSA_GROUPS = ((0.0, "none"), (5.0, "mild"), (15.0, "moderate/severe"))  # from this index on, events per hour
# Subjects by age and severity. The paper gives only the sums (8, 10, 7 and 12, 8, 5). These are the whole
# numbers with these sums that are nearest to independence.
PAPER_QUOTAS = {
    "40-55": {"none": 4, "mild": 3, "moderate/severe": 1},
    "55-70": {"none": 5, "mild": 3, "moderate/severe": 2},
    "70+": {"none": 3, "mild": 2, "moderate/severe": 2},
}
# The first column that exists counts: hypopnoeas with 3 % desaturation or arousal (name in the NSRR's
# harmonised table, then in the study's table), then hypopnoeas with 3 % desaturation only.
AHI_COLUMNS = ("nsrr_ahi_hp3r_aasm15", "ahi_a0h3a", "nsrr_ahi_hp3u", "ahi_a0h3", "rdi3p")
SEX_COLUMNS = ("nsrr_sex", "gender")
SEXES = {"male": "M", "1": "M", "female": "F", "2": "F"}

Facts = Mapping[str, float | str]  # of a subject: age, sex, ahi, age_group, osa


def find(
    folder: Path,
    *,
    visit: int = 1,
    sample: str | None = None,
    seed: int = PAPER_SEED,
    annotations: str = "nsrr",
) -> Iterator[Entry]:
    """Yield an entry per recording of one visit, in order of ids."""
    checks.whole(visit, "visit", low=1, high=2)
    checks.choice(annotations, "annotations", ANNOTATIONS)
    people = read_participants(folder, visit)
    drawn: Iterable[str] | None = None
    if sample is not None:
        checks.choice(sample, "sample", ("paper",))
        checks.whole(seed, "seed")
        if visit != 1 or not people:
            found = f"got visit={visit}" if people else "the folder has no datasets/shhs1-dataset-0.21.0.csv"
            raise InputError(f"the paper's sample is of visit 1, by its covariates: {found}.")
        drawn = stratified_sample(people, seed)
    recordings = _found(folder, visit, r"\.edf")
    kinds = (annotations, *(kind for kind in ANNOTATIONS if kind != annotations))
    scorings = [_found(folder, visit, rf"-{kind}\.xml") for kind in kinds]
    for name in sorted(recordings if drawn is None else drawn):
        chosen = [found[name] for found in scorings if name in found][:1]
        stem = f"shhs{visit}/shhs{visit}-{name}"
        edf = f"polysomnography/edfs/{stem}.edf"
        xml = f"polysomnography/annotations-events-{annotations}/{stem}-{annotations}.xml"
        missing = (edf,) * (name not in recordings) + (xml,) * (not chosen)
        path = recordings.get(name, folder / edf)
        read = partial(read_visit, path, chosen[0] if chosen else None, name, people.get(name, {}), visit)
        yield Entry(f"shhs{visit}-{name}", name, (path, *chosen), read, missing)


def read_visit(path: Path, scoring: Path | None, subject: str, person: Facts, visit: int) -> Recording:
    """Read one recording. Its first EEG is C4-A1; the second, C3-A2, has several names."""
    if not path.is_file():
        raise dataset_error(path, "is missing, but drawn for the sample. Fetch it from the NSRR.")
    recording = build_recording(path, read_edf_recording(path), subject=subject)
    recording = replace(recording, covariates={**person, "visit": float(visit)}, source="SHHS")
    if scoring is None:
        return recording
    scored = read_hypnogram_file(scoring, FileOptions(default_scheme=AASM5))
    night = scored.hypnogram
    return lay_over(recording, {"expert": (night, night.offset_seconds)}, trailing=True)


def _found(folder: Path, visit: int, ending: str) -> dict[str, Path]:
    """Return the files of a visit by id, from the dataset's tree or from one folder."""
    pattern = re.compile(rf"shhs{visit}-(\d{{6}}){ending}", re.IGNORECASE)
    files = sorted(folder.rglob(f"shhs{visit}-*"), reverse=True)  # the first one counts
    return {match[1]: path for path in files if (match := pattern.fullmatch(path.name))}


def read_participants(folder: Path, visit: int) -> dict[str, Facts]:
    """Return the known facts of each subject at a visit, by the newest tables below a folder."""
    rows: dict[str, dict[str, str]] = {}
    columns: set[str] = set()
    for pattern in (f"shhs{visit}-dataset-*.csv", "shhs-harmonized-dataset-*.csv"):
        for path in sorted(folder.rglob(pattern), key=_version)[-1:]:
            table = read_delimited(path, delimiter=",", fallback="latin-1")  # Windows wrote some free texts
            table = replace(table, header=tuple(name.lower() for name in table.header))
            if "nsrrid" not in table.header:
                raise dataset_error(path, "has no column nsrrid, expected a table of SHHS from the NSRR.")
            columns |= set(table.header)
            for row in table.records():
                if row.get("visitnumber", "").strip() in ("", str(visit)):
                    rows.setdefault(row["nsrrid"].strip(), {}).update(row)
    ahi = [name for name in AHI_COLUMNS if name in columns][:1]
    return {
        name: facts_of(
            _first(_number, row, ("nsrr_age", f"age_s{visit}")),
            _first(lambda cell: SEXES.get(cell.strip().lower()), row, SEX_COLUMNS),
            _first(_number, row, ahi),
        )
        for name, row in sorted(rows.items())
    }


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", path.stem.partition("dataset-")[2]))


def _first(read: Callable[[str], Any], row: Mapping[str, str], columns: Iterable[str]) -> Any:
    """Return the first known value among some columns, or None."""
    values = (read(row.get(column, "")) for column in columns)
    return next((value for value in values if value is not None), None)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if 0 <= value < 1000 else None


def facts_of(age: float | None = None, sex: str | None = None, ahi: float | None = None) -> Facts:
    """Return what is known of a subject, with the paper's groups by age and severity of apnoea."""
    facts = {"age": age, "sex": sex, "ahi": ahi}
    facts |= {"age_group": _group(age, AGE_GROUPS), "osa": _group(ahi, OSA_GROUPS)}
    return {name: value for name, value in facts.items() if value is not None}


def _group(value: float | None, groups: tuple[tuple[float, str], ...]) -> str | None:
    """Return the group that a value belongs to, by the groups' lower ends."""
    return next((name for low, name in reversed(groups) if value is not None and value >= low), None)


def stratified_sample(people: Mapping[str, Facts], seed: int = PAPER_SEED) -> tuple[str, ...]:
    """Draw subjects by age and severity of apnoea; the same table and seed give the same subjects."""
    first, last = PAPER_IDS
    pool: dict[tuple[object, object], list[str]] = {}
    for name, person in people.items():
        if name.isdecimal() and first <= int(name) <= last:
            pool.setdefault((person.get("age_group"), person.get("osa")), []).append(name)
    drawn: list[str] = []
    for age_group, row in PAPER_QUOTAS.items():
        for osa, wanted in row.items():
            there = pool.get((age_group, osa), [])
            if len(there) < wanted:
                found = f"{len(there)} subjects of age {age_group} with apnoea {osa!r}"
                raise InputError(f"ids {first} to {last} have {found}, expected at least {wanted}.")
            there.sort(key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).hexdigest())
            drawn += there[:wanted]
    return tuple(sorted(drawn))
