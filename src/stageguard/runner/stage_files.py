"""Stage recordings, then decode them: what was staged before is not staged again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.errors import FileFormatError, InputError
from stageguard.files import exists_error, file_sha256, write_text_atomic, write_together
from stageguard.formats.night import Event, FileOptions, Night
from stageguard.formats.recordings.wfdb import signal_files
from stageguard.formats.tools.stageguard import table_text
from stageguard.guard.decoding import Decoding
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.period import runs
from stageguard.night.recording import Recording
from stageguard.pipeline import Channels, QualityRules, is_onnx, load_stager, staging_of
from stageguard.profile.profile import Profile
from stageguard.report.night import night_report
from stageguard.runner.decode_files import Decoded, DecodeTask, decode_task
from stageguard.runner.decode_one import DecodeOptions, decode_density, decode_file
from stageguard.runner.manifest import DecodedFile
from stageguard.runner.staging_record import DENSITY_SUFFIX, RECORD_SUFFIX, StagingRecord, read_record
from stageguard.signals.features import Features
from stageguard.version import __version__

WORDS = {  # what differs between two requests
    "sha256": "from another recording of that name",
    "stagers": "by another stager, or another version of it",
    "options": "with other options",
    "profile": "for a profile with other stages or rules",
    "stageguard": "by another version of stageguard",
}
BESIDE = "from this recording, but with other files beside it (scorings, lists or signals)"
REPORT_SUFFIX = ".report.html"


@dataclass(frozen=True, slots=True)
class NamedStager:
    """A stager by its name or its folder, so that every process loads it once instead of being sent it."""

    name: str  # of a stager, or an ONNX file, or the folder that `train` wrote
    device: str = "cpu"
    # of a network's card or ONNX file: another network at the same place is another stager
    card_sha256: str = ""

    @classmethod
    def of(cls, name: str, device: str = "cpu") -> NamedStager:
        """Return the stager of this name; `load` refuses one that does not exist."""
        card = Path(name) if is_onnx(name) else Path(name, "model.json")
        return cls(name, device, file_sha256(card) if card.is_file() else "")

    def load(self) -> Any:
        """Return the stager, or the trained network, which the process keeps for the next recordings."""
        if self.of(self.name, self.device).card_sha256 != self.card_sha256:
            raise InputError(f"{self.name} holds another network than at the start. Stage the rest again.")
        return _loaded(self)

    def to_dict(self) -> dict[str, Any]:
        """Return what identifies the stager, in JSON types."""
        if self.card_sha256:
            return {"network": self.card_sha256}
        stager = self.load()
        return {"stager": stager.name, "version": stager.version, "weights_sha256": stager.weights_sha256}


@lru_cache(maxsize=4)
def _loaded(named: NamedStager) -> Any:
    return load_stager(named.name, named.device)


@dataclass(frozen=True, slots=True)
class StagingOptions:
    """How recordings are staged, beside the stagers."""

    channels: Channels = field(default_factory=dict)  # by role
    covariates: Mapping[str, float | str] = field(default_factory=dict)
    quality: QualityRules | None = None
    temperature: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types, to compare with an earlier run's."""
        listed = dict(self.channels) if isinstance(self.channels, Mapping) else list(self.channels)
        return asdict(self) | {"channels": listed, "covariates": dict(self.covariates)}


@dataclass(frozen=True, slots=True)
class StageTask:
    """A recording or a table of features to stage and decode, and where the outputs go."""

    file: str  # the recording's, or a dataset's id of it
    files: tuple[Path, ...]  # all that is read of it, the main one first
    output: Path
    stagers: tuple[NamedStager, ...]
    read: Callable[[], Recording | Features | Path] = field(repr=False)
    profile: Profile
    options: StagingOptions = field(default_factory=StagingOptions)
    cohort: str | None = None
    overwrite: bool = False
    report: bool = True
    durable: bool = True
    shares_profile: bool = False
    in_full: bool = True
    error: str | None = None

    @property
    def id(self) -> str:
        """The name of the outputs."""
        return self.output.name

    def beside(self, suffix: str) -> Path:
        """Return the path of an output."""
        return self.output.with_name(self.output.name + suffix)


def stage_task(task: StageTask) -> DecodedFile:
    """Stage one recording unless an earlier run has, guard it, and write its outputs."""
    densities, density = task.beside(DENSITY_SUFFIX), None
    request = _request(task)
    record = None if task.overwrite else _recorded(task, request)
    if record is None:
        record, density = _stage(task, request)
    quality = None if record.quality is None else np.array(record.quality)
    reading = FileOptions(epoch_seconds=record.epoch_seconds)
    options = DecodeOptions(reading, quality=quality, cohort=task.cohort, trained=record.trained)

    @cache
    def decoded() -> Decoded:
        if density is None:
            return decode_file(densities, task.profile, options)
        return decode_density(density, task.profile, options), ()

    night = decode_task(
        DecodeTask(
            densities,
            task.output,
            task.profile,
            options,
            overwrite=task.overwrite,
            durable=task.durable,
            shares_profile=task.shares_profile,
            in_full=task.in_full,
        ),
        decoded,
    )
    outputs = {"density": densities, **night.outputs}
    if task.report:
        outputs["report"] = report = task.beside(REPORT_SUFFIX)
        if task.overwrite or not report.exists():
            decoding, _ = decoded()
            disagreements = _disagreements(record, decoding)
            page = night_report(decoding, title=task.id, staging=record.notes, annotations=disagreements)
            write_text_atomic(report, page, overwrite=task.overwrite)
    row = night.row._replace(file=task.file)
    return replace(night, row=row, outputs=outputs, notes=(*record.notes, *night.notes))


def _stage(task: StageTask, request: Mapping[str, Any]) -> tuple[StagingRecord, Hypnodensity]:
    """Stage a recording; write its probabilities, and the record of how they were made."""
    staging = staging_of(
        task.read(),
        [stager.load() for stager in task.stagers],
        task.profile,
        channels=task.options.channels or None,
        quality=task.options.quality,
        temperature=task.options.temperature,
        covariates=task.options.covariates,
    )
    text = table_text(Night(probabilities=staging.density))
    record = StagingRecord(
        request,
        density_sha256=sha256(text.encode()).hexdigest(),
        epoch_seconds=staging.density.epoch_seconds,
        trained=staging.trained,
        notes=staging.notes,
        quality=None if staging.quality is None else tuple(staging.quality.beta.tolist()),
        disagreement=tuple(staging.disagreement.tolist()) if staging.parts else None,
    )
    content = {item.name: getattr(record, item.name) for item in fields(record)}
    contents = {
        task.beside(DENSITY_SUFFIX): text,
        task.beside(RECORD_SUFFIX): json.dumps(content, indent=1) + "\n",
    }
    write_together(contents, overwrite=task.overwrite, make_folders=True)
    return record, replace(staging.density, source=task.beside(DENSITY_SUFFIX).name)  # as it is read again


def _disagreements(record: StagingRecord, decoding: Decoding) -> list[Event]:
    """Return the stretches on which derivations or stagers disagree, for the picture of the night."""
    if record.disagreement is None:
        return []
    seconds, first = decoding.epoch_seconds, decoding.hypnogram.offset_seconds
    return [
        Event(first + start * seconds, (stop - start) * seconds, "stagings disagree")
        for start, stop in runs(np.array(record.disagreement) > 0)
    ]


def _request(task: StageTask) -> dict[str, Any]:
    """Return everything that the probabilities depend on, in JSON types; names and places of files do not."""
    # scorings say where epochs begin, and lists how old a sleeper is
    files = dict.fromkeys((*task.files, *sorted(signal_files(task.files[0]))))
    return {
        "sha256": [file_sha256(file) for file in files],
        "stagers": [stager.to_dict() for stager in task.stagers],
        "options": task.options.to_dict(),
        # a coarser scheme merges stages; profiles of the paper change how signals and networks are judged
        "profile": {
            "stages": list(task.profile.scheme.names),
            "reproduces_paper": task.profile.reproduces_paper,
        },
        "stageguard": __version__,
    }


def _recorded(task: StageTask, request: Mapping[str, Any]) -> StagingRecord | None:
    """Return the record of an earlier staging with the same request, or None; refuse another's output."""
    densities, record_file = task.beside(DENSITY_SUFFIX), task.beside(RECORD_SUFFIX)
    if not record_file.exists() and not densities.exists():
        return None
    try:
        record = read_record(densities)
    except FileFormatError:
        problem = f", and is no record of how {densities.name} was staged"
        raise exists_error(record_file, problem, to="stage it again") from None
    if record is None:
        raise exists_error(densities)
    for key, now in request.items():
        before = record.request.get(key)
        if before == now:
            continue
        is_same = key == "sha256" and isinstance(before, list) and before[:1] == now[:1]
        how = BESIDE if is_same else WORDS[key]
        raise exists_error(densities, f", and was staged {how}", to="stage it again")
    return record
