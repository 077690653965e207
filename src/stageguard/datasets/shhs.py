"""Sleep Heart Health Study as the NSRR lays it out: EDF, stages in XML, covariates in CSV. Fetches nothing.

polysomnography/edfs/shhs1/shhs1-200001.edf
polysomnography/annotations-events-nsrr/shhs1/shhs1-200001-nsrr.xml
polysomnography/annotations-events-profusion/shhs1/shhs1-200001-profusion.xml
datasets/shhs1-dataset-0.21.0.csv, datasets/shhs-harmonized-dataset-0.21.0.csv
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from stageguard.base import checks
from stageguard.base.errors import InputError
from stageguard.datasets.dataset import Dataset, Entry, wanted_subjects, whole_number
from stageguard.datasets.samples import broken
from stageguard.datasets.shhs_sample import (
    PAPER_QUOTAS,
    PAPER_SEED,
    Participant,
    read_participants,
    stratified_sample,
)
from stageguard.formats.hypnogram import HypnogramOptions
from stageguard.formats.read import read_hypnogram_file
from stageguard.formats.recordings.alignment import Scoring, lay_over
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.recordings.read import build_recording
from stageguard.night.recording import Recording
from stageguard.night.stages import AASM5

ANNOTATIONS = ("nsrr", "profusion")
SAMPLES = ("paper",)
_PAPER_SIZE = sum(sum(row.values()) for row in PAPER_QUOTAS.values())


def find(
    folder: Path,
    *,
    visit: int = 1,
    sample: str | None = None,
    seed: int = PAPER_SEED,
    subjects: Sequence[str] | None = None,
    annotations: str = "nsrr",
    ahi: str | None = None,
) -> Iterator[Entry]:
    """Yield an entry per recording of one visit, in the order of ids."""
    visit = whole_number(visit, "visit")
    if visit not in (1, 2):
        raise InputError(f"visit is {visit}, expected 1 or 2.")
    checks.choice(annotations, "annotations", ANNOTATIONS)
    participants = read_participants(folder, visit, ahi)
    wanted = wanted_subjects(subjects)
    if sample is not None:
        checks.choice(sample, "sample", SAMPLES)
        drawn = frozenset(_paper_sample(folder, participants, whole_number(seed, "seed"), visit))
        wanted = drawn if wanted is None else wanted & drawn
    recordings = _recordings(folder, visit)
    names = sorted(recordings if wanted is None else wanted if sample is not None else wanted & {*recordings})
    for name in names:
        path = recordings.get(name)
        scorings = _scorings(folder, path, visit, name)
        chosen = [scorings[kind] for kind in (annotations, *ANNOTATIONS) if kind in scorings][:1]
        missing: tuple[str, ...] = ()
        if path is None:
            missing = (f"polysomnography/edfs/shhs{visit}/shhs{visit}-{name}.edf",)
            path = folder / missing[0]
        if not chosen:
            place = f"annotations-events-{annotations}/shhs{visit}"
            missing += (f"polysomnography/{place}/shhs{visit}-{name}-{annotations}.xml",)
        person = participants.get(name, Participant(name))
        read = partial(read_visit, path, chosen[0] if chosen else None, person, visit)
        yield Entry(f"shhs{visit}-{name}", name, (path, *chosen), read, missing)


def paper_sample(folder: str | Path, seed: int = PAPER_SEED, ahi: str | None = None) -> tuple[str, ...]:
    """Return the ids of the stratified sample of 25, drawn from the tables of a local copy."""
    return _paper_sample(Path(folder), read_participants(Path(folder), 1, ahi), seed, 1)


def read_visit(path: Path, scoring: Path | None, person: Participant, visit: int = 1) -> Recording:
    """Read one recording. Its first EEG is C4-A1; the second, C3-A2, has several names."""
    if not path.is_file():
        raise broken(path, "is missing, but drawn for the sample. Fetch it from the NSRR.")
    recording, _ = build_recording(path, read_edf_recording(path), subject=person.id)
    covariates = {**person.covariates(), "visit": float(visit)}
    recording = replace(recording, covariates=covariates, source="SHHS")
    if scoring is None:
        return recording
    scored = read_hypnogram_file(scoring, HypnogramOptions(default_scheme=AASM5))
    named = {"expert": Scoring(scored.hypnogram, scored.hypnogram.offset_seconds)}
    return lay_over(recording, named, trailing=True)[0]


def _recordings(folder: Path, visit: int) -> dict[str, Path]:
    pattern = re.compile(rf"shhs{visit}-(\d{{6}})\.edf", re.IGNORECASE)
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob(f"shhs{visit}-*.edf")):
        match = pattern.fullmatch(path.name)
        if match is not None:
            found.setdefault(match[1], path)
    if not found:
        raise InputError(
            f"folder {folder} holds no recordings of SHHS visit {visit}, expected files such as "
            f"polysomnography/edfs/shhs{visit}/shhs{visit}-200001.edf. Name the folder above polysomnography."
        )
    return found


def _scorings(folder: Path, path: Path | None, visit: int, name: str) -> dict[str, Path]:
    """Scorings of a recording by kind, in the tree or beside the recording."""
    roots = [folder / "polysomnography", folder / "shhs" / "polysomnography", folder]
    if path is not None:
        roots = [*path.parents[:3], *roots]
    found = {}
    for kind in ANNOTATIONS:
        file = f"shhs{visit}-{name}-{kind}.xml"
        places = [root / part for root in roots for part in (f"annotations-events-{kind}/shhs{visit}", ".")]
        there = next((place / file for place in places if (place / file).is_file()), None)
        if there is not None:
            found[kind] = there
    return found


def _paper_sample(
    folder: Path, participants: dict[str, Participant], seed: int, visit: int
) -> tuple[str, ...]:
    if visit != 1:
        raise InputError("the paper's sample is of visit 1. Leave visit out, or sample.")
    if not participants:
        raise InputError(
            f"folder {folder} has no table of covariates, expected datasets/shhs1-dataset-0.21.0.csv. The "
            "sample is drawn by age and apnoea-hypopnoea index: fetch the table from the NSRR."
        )
    return stratified_sample(participants, seed=seed)


DATASET = Dataset(
    name="shhs",
    title="Sleep Heart Health Study (NSRR)",
    modality="cardiorespiratory",
    access="gated",
    licence="NSRR data access and use agreement",
    ethics="observational study NCT00005275; the files are shared for participants who consented to it",
    url="https://sleepdata.org/datasets/shhs",
    how_to_get="Request access at https://sleepdata.org/datasets/shhs, sign the data access and use "
    "agreement, then fetch it with the NSRR's own tool: nsrr download shhs",
    page="datasets/shhs.md",
    find="shhs:find",
    n_subjects=5793,
    n_recordings=5793,
    citation="Quan SF, Howard BV, Iber C, et al. (1997). The Sleep Heart Health Study: design, rationale, "
    "and methods. Sleep 20(12): 1077-1085; Zhang GQ, Cui L, Mueller R, et al. (2018). The National Sleep "
    "Research Resource: towards a sleep data commons. JAMIA 25(10): 1351-1358. "
    "https://doi.org/10.1093/jamia/ocy064",
    options={
        "visit": "1 (default) or 2",
        "sample": f"paper: {_PAPER_SIZE} of visit 1, stratified by age and severity of apnoea",
        "seed": f"of the sample (default {PAPER_SEED})",
        "subjects": "only these ids",
        "annotations": "nsrr (default) or profusion; the other one where a file is missing",
        "ahi": "column of the apnoea-hypopnoea index (default: 3 % desaturation or arousal)",
    },
)
