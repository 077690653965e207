"""Write a decoding or a posterior as a table with a JSON sidecar, both or neither; read decodings back."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Labels
from stageguard.errors import FileFormatError, warn
from stageguard.files import file_error, json_lines, read_file, write_cell, write_together
from stageguard.formats.sniffing import header_cells
from stageguard.formats.tables.delimited import read_delimited
from stageguard.formats.tables.table import DECODED_COLUMNS
from stageguard.guard.explain import changed_by
from stageguard.lazy import load
from stageguard.storage import is_remote, location, relative_address

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding
    from stageguard.guard.explain import Change
    from stageguard.guard.posterior import Posterior
    from stageguard.night.hypnogram import Hypnogram
    from stageguard.profile.profile import Profile

REVIEW_SENTENCE = "A trained scorer must review this output before any clinical decision."
LAYOUT_VERSION = 1
OWN_FORMAT = "stageguard-tsv"
OWN_HEAD = ("onset", "duration", "time", "stage")  # first columns of this package's own CSV
TSV_SUFFIX = ".hypnogram.tsv"
JSON_SUFFIX = ".hypnogram.json"
SVG_SUFFIX = ".hypnogram.svg"
PLAIN_SUFFIXES = (".tsv", ".json")  # of an output with a name of the caller's
CHANGES_SUFFIX = ".changes.tsv"
REPORT_SUFFIX = ".report.html"
POSTERIOR_SUFFIXES = (".posterior.csv", ".posterior.json", ".draws.npz")  # table, sidecar, draws
STRENGTH = (
    *("rule", "step", "transition_weight", "prior_exponent"),
    *("fi_before", "fi_after", "fi_low", "fi_high"),
)


COLUMNS: dict[str, dict[str, Any]] = {
    "onset": {"Description": "Start of the epoch, from the start of the recording", "Units": "s"},
    "duration": {"Description": "Length of the epoch", "Units": "s"},
    "stage": {"Description": "Stage after decoding; ? where unscored"},
    "label": {"Description": "Index of the stage in the scheme, counted from 0; -1 where unscored"},
    "argmax_stage": {"Description": "Most probable stage before decoding; ? where there was no evidence"},
    "changed": {
        "Description": "Whether decoding changed the most probable stage",
        "Levels": {"0": "same", "1": "changed"},
    },
    "filled": {
        "Description": "Whether the epoch had no evidence and was filled from its neighbours",
        "Levels": {"0": "evidence", "1": "filled"},
    },
    "probability": {
        "Description": "The stager's probability of the stage, before any calibration; n/a where none",
        "Units": "1",
    },
    "quality": {"Description": "Signal quality index used in decoding: 0 clean, 1 lost", "Units": "1"},
}


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Where a decoding was written."""

    tsv: Path
    sidecar: Path
    svg: Path | None = None
    changes: Path | None = None


@dataclass(frozen=True, slots=True)
class HypnogramTable:
    """Rows of a written hypnogram; `quality` is None without that column."""

    labels: Labels
    stages: tuple[str, ...]
    quality: Floats | None


def is_own_table(head: bytes, path: Path) -> bool:
    """Whether `decode` wrote a file, by its name or by its columns."""
    return path.name.endswith(TSV_SUFFIX) or header_cells(head) >= DECODED_COLUMNS


def output_paths(path: Path) -> WrittenFiles:
    """Return the paths of TSV, sidecar, picture and changes for `out/night`, or a plain `out/night.tsv`."""
    name = path.name
    suffixes: tuple[str, ...] = (TSV_SUFFIX, JSON_SUFFIX, SVG_SUFFIX, CHANGES_SUFFIX)
    for suffix in suffixes:
        name = name.removesuffix(suffix)
    if name == path.name and path.suffix in PLAIN_SUFFIXES:
        name, suffixes = path.stem, (*PLAIN_SUFFIXES, ".svg", CHANGES_SUFFIX)
    return WrittenFiles(*(path.parent / (name + suffix) for suffix in suffixes))


def is_output(path: Path) -> bool:
    """Whether `decode` wrote a file: by its ending, or for a plain .tsv or .json by the record in it."""
    if path.name.endswith((TSV_SUFFIX, JSON_SUFFIX)):
        return True
    files = output_paths(path)
    if path not in (files.tsv, files.sidecar) or not (files.tsv.is_file() and files.sidecar.is_file()):
        return False
    try:
        return bool(read_sidecar(files.sidecar)["hypnogram"]["file"] == files.tsv.name)
    except (FileFormatError, KeyError, TypeError):
        return False


def write_decoding(
    decoding: Decoding,
    path: str | os.PathLike[str],
    *,
    source_path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    options: Mapping[str, Any] | None = None,
    quality: npt.ArrayLike | None = None,
    notes: Sequence[str] = (),
    joint_score: Mapping[str, float] | None = None,
    svg: str | None = None,
    changes: str | None = None,
    measured: Mapping[str, Any] | None = None,
    durable: bool = True,
    shares_profile: bool = False,
) -> WrittenFiles:
    """Write `<path>.hypnogram.tsv` and `<path>.hypnogram.json` together or not at all.

    Parameters
    ----------
    decoding, path
        What to write; folder and stem of the outputs, such as `out/night`. Missing folders are made.
    source_path : optional
        The file of probabilities, whose name, path from the output's folder and SHA-256 go into the sidecar,
        so that the output can be verified.
    overwrite : bool
        Replace existing outputs; otherwise they are an OutputExistsError.
    options, quality, notes, joint_score : optional
        How the file was read and decoded, in JSON types; the quality index used, written as a column; what
        was assumed or ignored while reading; the joint scores before and after.
    svg, changes : str, optional
        A picture and a table of changes to write beside the output.
    measured : mapping, optional
        Measures of the night, in JSON types, for tables that are made from the sidecar.
    durable : bool
        Wait until the files are on the disk. Not needed if thousands are written and checked again later.
    shares_profile : bool
        Write the profile to its own file, once for all nights in the folder, and only its hash into the
        sidecar; by default the sidecar holds the profile.
    """
    files = output_paths(location(path))
    beside: dict[Path, str] = {}
    if files.svg is not None and svg is not None:
        beside[files.svg] = svg
    if files.changes is not None and changes is not None:
        beside[files.changes] = changes
    source, spare = None, list[Path]()
    if source_path is not None:
        source = describe_file(location(source_path), folder=files.sidecar.parent)
        spare.append(location(source_path))
    written: dict[Path, str | bytes] = {**beside}
    written |= output_texts(
        decoding,
        files,
        source,
        options or {},
        quality,
        notes,
        beside=beside,
        joint_score=joint_score,
        measured=measured,
        shares_profile=shares_profile,
    )
    if shares_profile:
        from stageguard.formats.shared_profile import keep_profile  # only cohorts need it

        keep_profile(decoding.profile, files.sidecar.parent)
    write_together(written, overwrite=overwrite, make_folders=True, spare=spare, durable=durable)
    return replace(
        files,
        svg=files.svg if files.svg in beside else None,
        changes=files.changes if files.changes in beside else None,
    )


def output_texts(
    decoding: Decoding,
    files: WrittenFiles,
    source: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    quality: npt.ArrayLike | None,
    notes: Sequence[str],
    *,
    beside: Mapping[Path, str] | None = None,
    joint_score: Mapping[str, float] | None = None,
    measured: Mapping[str, Any] | None = None,
    shares_profile: bool = False,
) -> dict[Path, str | bytes]:
    """Return table and sidecar of a decoding; the sidecar, which lists the files beside it, comes last.

    A sidecar has the meanings of columns at the top level, as in BIDS, and the rest under "stageguard".
    """
    cells = table_columns(decoding, quality)
    rows = map("\t".join, [tuple(cells), *zip(*cells.values(), strict=True)])
    table = ("\n".join(rows) + "\n").encode()
    hypnogram, strength, night = decoding.hypnogram, decoding.strength, decoding.night
    done_words = load("report.words:done_words")
    entries: dict[str, Any] = {
        "layout": LAYOUT_VERSION,
        "review": REVIEW_SENTENCE,
        "hypnogram": describe_night(hypnogram, files.tsv, table),
        "input": source,
        "options": dict(options),
        "profile": describe_profile(decoding.profile, is_shared=shares_profile),
        "score": decoding.score,
        "n_scored": decoding.n_scored,
        "n_changed": decoding.n_changed,
        "n_ties": decoding.n_ties,
        "changed_by": changed_by(decoding),
        "n_unscored": int(np.count_nonzero(hypnogram.labels < 0)),
        "has_lights_off": night.lights_off > 0,
        "has_lights_on": night.lights_on is not None,
        "n_filled": int(np.count_nonzero(decoding.filled)),
        "period": list(decoding.period),
        "removed_bouts": [bout.to_dict() for bout in decoding.removed_bouts],
        "strength": {name: getattr(strength, name) for name in STRENGTH} | {"why": done_words(decoding)},
        "steered": sorted(decoding.steered),
        "assumptions": [*decoding.assumed, *notes],
        "provenance": decoding.provenance(),
    }
    if beside:
        entries["beside"] = [describe_file(file, text.encode()) for file, text in beside.items()]
    if joint_score is not None:
        entries["joint_score"] = joint_score
    if measured is not None:
        entries["measured"] = measured
    for name in entries.keys() - {"profile"}:  # a profile is described in JSON types
        entries[name] = plain(entries[name])
    sidecar = {**column_meanings(cells, hypnogram.scheme.names), "stageguard": entries}
    return {files.tsv: table, files.sidecar: json_lines(sidecar) + "\n"}


def column_meanings(columns: Iterable[str], stages: Sequence[str]) -> dict[str, Any]:
    """Return the meanings of columns of a table of these stages, in the form of BIDS."""
    levels = dict(zip(map(str, range(len(stages))), stages, strict=True)) | {"-1": "?"}
    meanings = COLUMNS | {"label": COLUMNS["label"] | {"Levels": levels}}
    return {name: meanings[name] for name in columns}


def relative_path(path: Path, folder: Path) -> str | None:
    """Return the path of an input from the output's folder; None between drives and between stores."""
    if is_remote(path) or is_remote(folder):
        return relative_address(path, folder)
    try:
        return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
    except ValueError:
        return None


def table_columns(decoding: Decoding, quality: npt.ArrayLike | None) -> dict[str, list[str]]:
    """Return the columns of a decoding as text, by their names; see `COLUMNS`."""
    hypnogram = decoding.hypnogram
    labels, n_epochs = hypnogram.labels, hypnogram.n_epochs
    names = np.array((*hypnogram.scheme.names, "?"))  # index -1 is "?"
    begins = hypnogram.offset_seconds + np.arange(n_epochs) * hypnogram.epoch_seconds
    chosen = decoding.night.probabilities[np.arange(n_epochs), np.maximum(labels, 0)]
    has_probability = (labels >= 0) & ~np.isnan(chosen)
    columns: dict[str, list[str]] = {
        "onset": list(map(_seconds_text, begins.tolist())),
        "duration": [_seconds_text(hypnogram.epoch_seconds)] * n_epochs,
        "stage": names[labels].tolist(),
        "label": list(map(str, labels.tolist())),
        "argmax_stage": names[decoding.argmax].tolist(),
        "changed": list(map(str, decoding.changed.astype(int).tolist())),
        "filled": list(map(str, decoding.filled.astype(int).tolist())),
        # not by np.char.mod, which swallows the exception of a signal that comes meanwhile
        "probability": [
            f"{p:.6g}" if known else "n/a" for p, known in zip(chosen.tolist(), has_probability, strict=True)
        ],
    }
    if quality is not None:
        columns["quality"] = list(map(repr, np.asarray(quality, dtype=np.float64).tolist()))
    return columns


def _seconds_text(value: float) -> str:
    """Return seconds as text, without the rounding error of a sum of floats."""
    return f"{value:.9g}" if abs(value) < 1e8 else repr(value)


def describe_night(night: Hypnogram | Posterior, path: Path, data: bytes) -> dict[str, Any]:
    """Return which file holds a night, and what its rows mean."""
    return {
        "file": path.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "n_epochs": night.n_epochs,
        "epoch_seconds": night.epoch_seconds,
        "offset_seconds": night.offset_seconds,
        "start": night.start.isoformat() if night.start else None,
        "scheme": {"name": night.scheme.name, "stages": list(night.scheme.names)},
    }


def describe_profile(profile: Profile, *, is_shared: bool = False) -> dict[str, Any]:
    """Return a sidecar's entry for a profile, whose definition is in its own file if it `is_shared`."""
    head = {"name": profile.name, "sha256": profile.sha256}
    return head if is_shared else head | {"definition": _definition(profile)}


@lru_cache(maxsize=4)
def _definition(profile: Profile) -> dict[str, Any]:
    """Return a profile in JSON types; cached, because nights often share one."""
    definition: dict[str, Any] = plain(profile.to_dict())
    return definition


def describe_file(path: Path, data: bytes | None = None, *, folder: Path | None = None) -> dict[str, Any]:
    """Return name, size and SHA-256 of a file, or of the data it is about to hold; its path from a folder."""
    data = read_file(path) if data is None else data
    described = {"file": path.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return described if folder is None else described | {"path": relative_path(path, folder)}


def plain(value: Any) -> Any:
    """Return only JSON types: NumPy scalars and arrays become numbers and lists, NaN and infinities null."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return dict(zip(map(str, value), map(plain, value.values()), strict=True))
    if isinstance(value, np.ndarray | list | tuple):
        return list(map(plain, value))
    return str(value)


def read_hypnogram_tsv(path: str | os.PathLike[str]) -> HypnogramTable:
    """Return the rows of a TSV that `write_decoding` wrote; anything else is a FileFormatError."""
    path = location(path)
    table = read_delimited(path, delimiter="\t", quotes=False)
    missing = [name for name in ("stage", "label") if name not in table.header]
    if missing:
        raise file_error(
            path, f"has no column {' or '.join(missing)}, so it is not a hypnogram of stageguard."
        )
    quality = None
    try:
        labels = np.array(list(map(int, table.column("label"))), dtype=np.int8)
        if "quality" in table.header:
            quality = np.array(list(map(float, table.column("quality"))))
    except (ValueError, OverflowError) as error:
        raise file_error(path, f"has a label or quality that is not a number ({error}).") from None
    return HypnogramTable(labels, table.column("stage"), quality)


def read_sidecar(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the "stageguard" part of a sidecar; anything else is a FileFormatError."""
    path = location(path)
    try:
        content = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise file_error(path, f"is not readable JSON ({error}).") from None
    if not isinstance(content, dict) or not isinstance(content.get("stageguard"), dict):
        raise file_error(path, "is not a sidecar of stageguard: it has no 'stageguard' entry.")
    record: dict[str, Any] = content["stageguard"]
    layout = record.get("layout")
    if layout != LAYOUT_VERSION:
        raise file_error(
            path, f"has layout {layout!r}, this version reads {LAYOUT_VERSION}. Upgrade stageguard."
        )
    return record


NOT_AS_WRITTEN = "is not what decode wrote (another SHA-256)"


def check_recorded(path: Path, record: Mapping[str, Any], n_rows: int) -> None:
    """Refuse a table that is not as long as its sidecar says; warn if it was changed since."""
    recorded = record["hypnogram"]
    n_epochs = int(recorded["n_epochs"])
    if n_rows != n_epochs:
        sidecar = output_paths(path).sidecar.name
        raise file_error(
            path,
            f"has {n_rows:,} epoch{'s' * (n_rows != 1)}, but {n_epochs:,} were decoded by {sidecar}: it was "
            "cut off, or is of another night. Decode the night again.",
        )
    if hashlib.sha256(read_file(path)).hexdigest() != recorded["sha256"]:
        warn(f"{path.name}: {NOT_AS_WRITTEN}, so stages were edited, or it is of another night.")


def change_row(change: Change) -> dict[str, Any]:
    """Return one change in JSON types; an unknown clock and an infinite cost are None."""
    margin = change.margin_nats
    return {
        "first_epoch": change.first_epoch,
        "n_epochs": change.n_epochs,
        "onset": round(change.onset_seconds, 9),
        "clock": None if change.clock is None else change.clock.isoformat(),
        "before": " ".join(change.before),
        "after": " ".join(change.after),
        "rule": change.rule,
        "probability_before": round(change.probability_before, 6),
        "probability_after": round(change.probability_after, 6),
        "evidence_given_up_nats": round(change.evidence_nats, 6),
        "prior_gained_nats": round(change.prior_nats, 6),
        "margin_nats": None if math.isinf(margin) else round(margin, 6),
        "counterfactual_score": None if math.isinf(margin) else round(change.counterfactual_score, 6),
    }


CHANGE_COLUMNS = (  # people read the table: its epoch is counted from 1
    *("epoch", "n_epochs", "clock", "before", "after", "rule", "probability_before"),
    *("probability_after", "evidence_given_up_nats", "prior_gained_nats", "margin_nats"),
    *("counterfactual_score", "onset"),
)


def changes_text(changes: Sequence[Change]) -> str:
    """Return a TSV with one row per change; n/a if there is no clock, or no path keeps the original."""
    return "".join("\t".join(line) + "\n" for line in [CHANGE_COLUMNS, *map(change_cells, changes)])


def change_cells(change: Change) -> list[str]:
    """Return a change as the cells of a table's row."""
    row = change_row(change) | {"epoch": change.first_epoch + 1}
    return ["n/a" if row[name] is None else str(row[name]) for name in CHANGE_COLUMNS]


def table_with_codebook(
    path: Path,
    columns: Iterable[str],
    rows: Iterable[Iterable[Any]],
    codebook: Mapping[str, Any],
    *,
    digits: int,
) -> dict[Path, str | bytes]:
    """Return a table and its codebook, which has the same name with .json, by their paths.

    Numbers have `digits` significant digits; None, NaN and empty text are `n/a`.
    """
    lines = ["\t".join(columns), *("\t".join(_cell(value, digits) for value in row) for row in rows)]
    text = json.dumps(plain(codebook), indent=2, ensure_ascii=False, allow_nan=False)
    return {path: "\n".join(lines) + "\n", path.with_suffix(".json"): text + "\n"}


def _cell(value: Any, digits: int) -> str:
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return "n/a"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return write_cell(value) if isinstance(value, str) else str(value)


DRAWS_MEANING = "int8 (n, n_epochs), index of the stage; -1 without evidence for more than five minutes"
POSTERIOR_MEANING = (
    "Under the profile and the evidence of the stager: where the stager is sure and wrong, this is wrong, "
    "too. How far sleep statistics may be off is told by stageguard stats --intervals."
)


@dataclass(frozen=True, slots=True)
class WrittenPosterior:
    """Where a posterior was written; `draws` is None without draws."""

    table: Path
    sidecar: Path
    draws: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Nights drawn from a posterior, (n, n_epochs), and the seed to draw them again."""

    labels: Labels
    seed: int


def write_posterior(
    posterior: Posterior,
    decoding: Decoding,
    path: str | os.PathLike[str],
    *,
    source_path: str | os.PathLike[str],
    draws: Draws | None = None,
    overwrite: bool = False,
    options: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> WrittenPosterior:
    """Write `<path>.posterior.csv`, its sidecar and, with draws, `<path>.draws.npz`: all or nothing.

    The posterior was made with the strength of the decoding; the other arguments are as in `write_decoding`.
    """
    stem, source = location(path), location(source_path)
    table, sidecar, drawn = (stem.with_name(stem.name + suffix) for suffix in POSTERIOR_SUFFIXES)
    rows = _posterior_table(posterior)
    contents: dict[Path, str | bytes] = {table: rows}
    drawn_entry = None
    if draws is not None:
        contents[drawn] = data = _draws_file(posterior, draws)
        drawn_entry = {
            "file": drawn.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "n": len(draws.labels),
            "seed": draws.seed,
            "labels": DRAWS_MEANING,
        }
    entries = {
        "layout": LAYOUT_VERSION,
        "review": REVIEW_SENTENCE,
        "posterior": {
            **describe_night(posterior, table, rows),
            "log_evidence": posterior.log_evidence,
            "transition_weight": posterior.transition_weight,
            "prior_exponent": posterior.prior_exponent,
            "meaning": POSTERIOR_MEANING,
        },
        "draws": drawn_entry,
        "best_path_score": decoding.score,
        "input": describe_file(source),
        "options": dict(options or {}),
        "profile": describe_profile(decoding.profile),
        "assumptions": [*posterior.assumed, *notes],
        "provenance": decoding.provenance(),
    }
    meanings = {name: COLUMNS[name] for name in ("onset", "duration")} | {
        name: {"Description": f"Probability of {name} given the whole night and the profile", "Units": "1"}
        for name in posterior.scheme.names
    }
    text = json.dumps({**meanings, "stageguard": plain(entries)}, indent=2, allow_nan=False)
    contents[sidecar] = text + "\n"
    write_together(contents, overwrite=overwrite, make_folders=True, spare=(source,))
    return WrittenPosterior(table, sidecar, None if draws is None else drawn)


def _posterior_table(posterior: Posterior) -> bytes:
    """Return onset, duration and one column per stage, in digits that read back exactly."""
    seconds = float(posterior.epoch_seconds)
    lines = [",".join(("onset", "duration", *posterior.scheme.names))]
    for epoch, row in enumerate(posterior.probabilities.tolist()):
        cells = ("NaN" if value != value else repr(value) for value in row)
        onset = posterior.offset_seconds + epoch * seconds
        lines.append(f"{onset:.12g},{seconds:.12g},{','.join(cells)}")
    return ("\n".join(lines) + "\n").encode()


def _draws_file(posterior: Posterior, draws: Draws) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        labels=draws.labels,
        stages=np.array(posterior.scheme.names),
        epoch_seconds=np.array(posterior.epoch_seconds),
        offset_seconds=np.array(posterior.offset_seconds),
        seed=np.array(draws.seed),
    )
    return buffer.getvalue()
