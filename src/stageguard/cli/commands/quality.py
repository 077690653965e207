"""`stageguard quality`: recordings in, how far each epoch can be trusted out. Parses and prints only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from stageguard.cli.options import AsJson, Overwrite, _check_epoch_seconds, one_of
from stageguard.cli.recordings import (
    Channel,
    DatasetName,
    DatasetOption,
    Jobs,
    Recordings,
    Scoring,
    Source,
    find_sources,
    run_each,
)
from stageguard.signals.modalities import MODALITIES

TSV_SUFFIX = ".quality.tsv"
JSON_SUFFIX = ".quality.json"


class Rules(StrEnum):
    """Whose thresholds."""

    kdd2026 = "kdd2026"
    graded = "graded"


ModalityOption = Annotated[
    str | None,
    typer.Option(
        "--modality",
        "-m",
        **one_of(MODALITIES),
        help="What was recorded. Default: what the channels or dataset say.",
    ),
]
RulesOption = Annotated[
    Rules, typer.Option("--rules", help="The paper's thresholds, or the share of each epoch that is bad.")
]
EpochSeconds = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        callback=_check_epoch_seconds,
        help="Epoch length. Default: the scoring's, else 30; EEG without a scoring must say it.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="For the tables. Default: beside each file."),
]


@dataclass(frozen=True, slots=True)
class Request:
    """What to do with every recording."""

    modality: str | None
    rules: Literal["kdd2026", "graded"]
    epoch_seconds: float | None
    overwrite: bool


def quality(
    recordings: Recordings,
    modality: ModalityOption = None,
    rules: RulesOption = Rules.kdd2026,
    epoch_seconds: EpochSeconds = None,
    channel: Channel = None,
    dataset: DatasetName = None,
    dataset_option: DatasetOption = None,
    scoring: Scoring = None,
    output: Output = None,
    overwrite: Overwrite = False,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """Say how far each epoch of a recording can be trusted, and why not.

    Writes NAME.quality.tsv and NAME.quality.json for each recording: what `decode --quality` takes.
    """
    from functools import partial

    from stageguard.cli.present import print_problems
    from stageguard.cli.quality_present import print_many, print_one
    from stageguard.cli.terminal import print_json

    sources = find_sources(recordings, dataset, dataset_option, channel, scoring, output)
    request = Request(modality, rules.value, epoch_seconds, overwrite)
    reports = run_each(partial(assess_one, request), sources, jobs, "Assessing", quiet=as_json)
    if as_json:
        print_json(reports)
    elif len(reports) > 1:
        print_many([report for report in reports if report["ok"]])
    elif reports[0]["ok"]:
        print_one(reports[0])
    print_problems(reports, as_json=as_json)
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def assess_one(request: Request, source: Source) -> dict[str, Any]:
    """Assess one recording and write its table; returns the report."""
    import json

    from stageguard.base.errors import OutputExistsError
    from stageguard.base.files import write_together
    from stageguard.base.version import __version__
    from stageguard.formats.outputs import plain
    from stageguard.signals.quality import signal_quality

    paths = [source.place / (source.name + suffix) for suffix in (TSV_SUFFIX, JSON_SUFFIX)]
    for path in paths:
        if path.exists() and not request.overwrite:  # before the work, not after it
            raise OutputExistsError(f"{path} exists already. Use --overwrite to replace it.")
    recording, notes = source.read()
    modality, remark = _modality(recording, request.modality or source.modality)
    found = signal_quality(recording, modality, epoch_seconds=request.epoch_seconds, rules=request.rules)
    facts: dict[str, Any] = {
        "recording": recording.id,
        "subject": recording.subject,
        "is_synthetic": recording.is_synthetic,
        "modality": modality,
        "rules": found.rules,
        "n_epochs": found.n_epochs,
        "epoch_seconds": found.epoch_seconds,
        "start": None if recording.start is None else recording.start.isoformat(),
        "mean_beta": float(found.beta.mean()),
        "n_marked": int(found.is_bad.sum()),
        "n_lost": int((found.beta >= 1).sum()),
        "reasons": found.counts(),
        "notes": [*notes, *remark],
    }
    sidecar = COLUMNS | {"stageguard": {"version": __version__, **facts}}
    text = json.dumps(plain(sidecar), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_together({paths[0]: _table(found), paths[1]: text}, overwrite=request.overwrite, make_folders=True)
    outputs = {"tsv": str(paths[0]), "json": str(paths[1])}
    return facts | {"beta": found.beta.tolist(), "first": _first(found), "outputs": outputs}


COLUMNS: dict[str, Any] = {
    "onset": {"Description": "Start of the epoch, from the start of the recording", "Units": "s"},
    "duration": {"Description": "Length of the epoch", "Units": "s"},
    "quality": {"Description": "Signal quality index beta: 0 clean, 1 lost", "Units": "1"},
    "reason": {"Description": "Channel and rule that speak against the epoch; n/a where none does"},
}


def _table(found: Any) -> str:
    from stageguard.base.files import write_cell

    lines = ["\t".join(COLUMNS)]
    for epoch, (beta, reason) in enumerate(zip(found.beta.tolist(), found.reasons, strict=True)):
        onset = epoch * found.epoch_seconds
        lines.append(
            f"{onset:.9g}\t{found.epoch_seconds:.9g}\t{beta:.6g}\t{write_cell(reason) if reason else 'n/a'}"
        )
    return "\n".join(lines) + "\n"


def _first(found: Any) -> dict[str, int]:
    """Return the first epoch of each reason."""
    first: dict[str, int] = {}
    for epoch, reason in enumerate(found.reasons):
        for part in filter(None, reason.split("; ")):
            first.setdefault(part, epoch)
    return first


def _modality(recording: Any, wanted: str | None) -> tuple[str, list[str]]:
    """Return what was recorded, and a remark if that was guessed from the channels."""
    from stageguard.base.errors import InputError

    if wanted:
        return wanted, []
    found = [one.name for one in MODALITIES.values() if any(role in recording.signals for role in one.roles)]
    if len(found) == 1:
        return found[0], [f"modality {found[0]} by the channels"]
    known = ", ".join(recording.signals) or "none"
    what = f"has channels of {' and '.join(found)}" if found else "has no channel that tells its modality"
    raise InputError(
        f"recording {recording.id!r} {what} ({known}). Say which to assess with --modality, and map channels "
        "with --channel ROLE=NAME."
    )
