"""Read one night, as probabilities or stages, from any supported file or object."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stageguard import checks
from stageguard.errors import FileFormatError, InputError, StageGuardError
from stageguard.files import as_file, faults_named, file_error, is_stream
from stageguard.formats import registry
from stageguard.formats.density import (
    LABELS_ALONE,
    NAMES_NO_STAGES,
    build_density,
    existing_file,
)
from stageguard.formats.file_format import BIDS_ENDINGS, MNE_ENDINGS, FileFormat, Kind
from stageguard.formats.hypnogram import (
    NPY,
    build_hypnogram,
    column_of_stages,
    is_stage,
    stage_column,
)
from stageguard.formats.night import FileOptions, Night, night_of
from stageguard.formats.outputs import TSV_SUFFIX
from stageguard.formats.sniffing import EDF, HEAD_BYTES, first_lines, integers, read_head, stranger
from stageguard.formats.tables.delimited import DELIMITERS, HEADER_SEARCH_LINES, read_text, split_line
from stageguard.guard.decoding import Decoding
from stageguard.guard.night import GuardOptions
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import NO_PROBABILITIES, Hypnogram
from stageguard.night.stages import SCHEMES, StageScheme, as_scheme, canonical_name
from stageguard.profile.profile import Profile
from stageguard.profile.stagers import stager_of_format
from stageguard.storage import names_file

Result = TypeVar("Result")


def read_density(
    source: Any,
    *,
    format: str | None = None,
    stages: Sequence[str] | str | None = None,
    epoch_seconds: float | None = None,
    logits: bool = False,
    log: bool = False,
    pool_to_seconds: float | None = None,
    normalize: bool = False,
) -> Hypnodensity:
    """Read the stage probabilities of one recording, from a file or an object that a stager returned.

    Parameters
    ----------
    source : path-like, bytes, binary file or object
        A file (CSV, TSV, `.npy`, `.npz`, Parquet, YASA JSON, GSSC CSV, Luna POPS table,
        hypnodensity, ...) of this computer or at an address (s3://..., https://..., with the extra `remote`);
        its bytes, or an object open for reading them; or an object in memory: a `yasa.Hypnogram`, a pandas,
        polars or xarray table, an array or tensor of numbers, or `(probabilities, classes)` of a scikit-learn
        classifier.
    format : str, optional
        The format or tool, if the content does not tell: for example ``"usleep-npy"`` for an array whose
        columns are in U-Sleep's order. The page on formats lists the names.
    stages : sequence of str, optional
        Names of the columns. Needed for bare arrays; in a table it selects columns by name.
    epoch_seconds : float, optional
        Epoch length in seconds; by default what the file says, else 30. Must not contradict the file.
    logits, log : bool
        The source holds logits (a softmax is taken) or natural log-probabilities. By default, probabilities,
        logits and log-probabilities are told apart by their values; ambiguous values are an error.
    pool_to_seconds : float, optional
        Average rows to epochs of this length, a whole multiple of the row length, for stagers that write
        several rows per epoch.
    normalize : bool
        Divide rows that sum to 0.98 to 1.02, as rounded probabilities do, by their sums; by default more than
        0.001 off is an error.

    Returns
    -------
    Hypnodensity
        Probabilities in the scheme's order; epochs without evidence are NaN rows.

    Raises
    ------
    FileFormatError
        With one line that names the file, the row or column, and what was expected.
    InputError
        The same for an object or an option.

    Examples
    --------
    >>> import stageguard as sg
    >>> probabilities, classes = [[0.2, 0.1, 0.7], [0.9, 0.1, 0.0]], ["N", "R", "W"]
    >>> night = sg.read_density((probabilities, classes))  # or a path, a table, a tensor
    >>> night.scheme.names, night.probabilities.tolist()
    (('W', 'N', 'R'), [[0.7, 0.2, 0.1], [0.0, 0.9, 0.1]])
    """
    options = density_options(
        format,
        stages,
        epoch_seconds,
        logits=logits,
        log=log,
        pool_to_seconds=pool_to_seconds,
        normalize=normalize,
    )
    if names_file(source):
        return read_density_file(source, options).density
    if is_stream(source):
        with as_file(source) as path:
            return read_density_file(path, options).density
    return read_density_object(source, options).density


def density_options(
    format: str | None = None,
    stages: Sequence[str] | str | None = None,
    epoch_seconds: float | None = None,
    *,
    logits: bool = False,
    log: bool = False,
    pool_to_seconds: float | None = None,
    normalize: bool = False,
) -> FileOptions:
    """Return the checked options of a call of `read_density` or `convert`."""
    if isinstance(stages, str):
        stages = [part.strip() for part in stages.split(",")]
    if format is not None:
        format = checks.text(format, "format")
    if pool_to_seconds is not None:
        pool_to_seconds = checks.number(pool_to_seconds, "pool_to_seconds", positive=True)
    return FileOptions(
        stages=None if stages is None else checks.stage_names(stages),
        epoch_seconds=None if epoch_seconds is None else checks.epoch_seconds(epoch_seconds),
        logits=checks.flag(logits, "logits"),
        log=checks.flag(log, "log"),
        format=format,
        pool_to_seconds=pool_to_seconds,
        normalize=checks.flag(normalize, "normalize"),
    )


def read_night(source: Any, options: FileOptions) -> Night:
    """Return all that a file or an object holds about a night: stages, probabilities and annotations.

    Whether the stages or the probabilities are meant is told by the content; the others, if they are of the
    same epochs, are returned beside them.
    """
    if not names_file(source):
        return _read_object(source, options)
    path = existing_file(source)
    first: Kind = "hypnogram" if _means_stages(path, options) else "density"
    if options.format is None and first == "hypnogram":
        _refuse_array(path)
    form = registry.detect(path, first, name=options.format)
    if first == "density":
        night = read_density_file(path, options)
        beside = attempt(lambda: _stages_of(path, form, options)) if form.stages is not None else None
        scoring = None if beside is None else replace(beside.hypnogram, scorer=None)
        return replace(with_probabilities(Night(scoring=scoring), night), id=night_name(path))
    night = _stages_of(path, form, options)
    if night.hypnogram.scorer == path.name:  # the file does not say who scored it
        night = replace(night, scoring=replace(night.hypnogram, scorer=None))
    events = form.events(path).events if form.events is not None else ()
    # a format by its name may stand for the confidences of labels, which are no distribution
    unnamed = replace(options, format=None)
    beside = attempt(lambda: _density_of(path, form, unnamed)) if form.probabilities is not None else None
    return with_probabilities(replace(night, events=events, id=night_name(path)), beside)


def _means_stages(path: Path, options: FileOptions) -> bool:
    """Whether the stages of a file are meant, rather than its probabilities."""
    if options.format is not None:
        form = next((each for each in registry.formats() if each.name == options.format), None)
        if form is None:
            registry.named(options.format, "density")  # raises an error that lists the formats
        elif form.stages is None or form.probabilities is None:
            return form.stages is not None
    return is_hypnogram(path, options.scheme)


def _read_object(source: Any, options: FileOptions) -> Night:
    from stageguard.formats.objects import OBJECTS

    if isinstance(source, Decoding | Hypnogram) or (
        isinstance(source, Hypnodensity) and options == FileOptions()
    ):
        return night_of(source)
    if isinstance(source, Hypnodensity):
        return read_density_object(source, options)
    kind = next((kind for kind in OBJECTS if kind.is_it(source)), None)
    if kind is None or kind.probabilities is None:
        return read_hypnogram_file(source, options)
    density = attempt(lambda: read_density_object(source, options))
    scored = attempt(lambda: read_hypnogram_file(source, options))
    if density is None and scored is None:
        read_density_object(source, options)  # raises the error again
    return with_probabilities(Night(scoring=None if scored is None else scored.scoring), density)


def attempt(read: Callable[[], Result]) -> Result | None:
    """Return what a function reads, or None if it refuses."""
    try:
        return read()
    except (FileFormatError, InputError):
        return None


def with_probabilities(night: Night, read: Night | None) -> Night:
    """Return a night with the probabilities that were read, if their epochs are those of its labels."""
    if read is None:
        return night
    density, scoring = read.density, night.scoring
    if scoring is not None:
        merged = attempt(lambda: read.density.merge(scoring.scheme))
        if merged is None or (merged.n_epochs, merged.offset_seconds) != (
            scoring.n_epochs,
            scoring.offset_seconds,
        ):
            return replace(night, notes=(*night.notes, "its probabilities are of other epochs: left out"))
        density = merged
    return replace(night, probabilities=density, notes=tuple(dict.fromkeys((*night.notes, *read.notes))))


def _density_of(path: Path, form: FileFormat, options: FileOptions) -> Night:
    assert form.probabilities is not None
    with faults_named(path.name):
        raw = replace(form.probabilities(path, options), stager=stager_of_format(form.name))
        return build_density(path, raw, options)


def _stages_of(path: Path, form: FileFormat, options: FileOptions) -> Night:
    assert form.stages is not None
    with faults_named(path.name):
        return build_hypnogram(path, form.stages(path, options), options)


def read_density_file(path: str | os.PathLike[str], options: FileOptions) -> Night:
    """Like `read_density` for a file, with remarks on what was assumed or ignored."""
    path = existing_file(path)
    form = None
    try:
        form = registry.detect(path, "density", name=options.format)
        return _density_of(path, form, options)
    except FileFormatError:
        if options.format is None and (form is None or form.is_general or form.name == "npy"):
            _refuse_scoring(path)
        raise


def _refuse_scoring(path: Path) -> None:
    """Refuse a scoring or a recording where probabilities are expected, and say where it belongs."""
    head = read_head(path)
    if head.startswith(EDF) and attempt(lambda: read_hypnogram_file(path, FileOptions())) is None:
        raise file_error(
            path,
            "is EDF, expected a stager's probabilities. Stage a recording with stageguard stage; "
            "stats and compare read scorings.",
        )
    if _is_scoring(path, head):
        raise file_error(path, f"holds {NO_PROBABILITIES}", code=LABELS_ALONE)


def _is_scoring(path: Path, head: bytes) -> bool:
    if head.startswith(NPY):
        return _is_stage_array(path)
    try:
        form = registry.detect(path, "hypnogram")
    except FileFormatError as error:
        return error.code == "ambiguous-format" and integers(head) is not None
    if head.startswith(EDF):
        return True
    if stranger(head) is not None:  # an HDF5 or MATLAB file may hold anything
        return form.stages is not None and attempt(lambda: _stages_of(path, form, FileOptions())) is not None
    has_column = form.is_general and column_of_stages(first_lines(head)) is not None
    return form.probabilities is None and (has_column or is_hypnogram(path))


def _is_stage_array(path: Path) -> bool:
    """Whether a .npy file holds one whole number, or one name, per epoch."""
    from stageguard.formats.tools.arrays import load_plain  # only an array needs it

    values = attempt(lambda: load_plain(path))
    if values is None or values.ndim != 1 or not len(values):
        return False
    is_whole = values.dtype.kind in "fiu" and bool((values == np.rint(values)).all())
    return is_whole or values.dtype.kind in "US"


def read_density_object(source: Any, options: FileOptions) -> Night:
    """Like `read_density` for an object, with remarks on what was assumed or ignored."""
    from stageguard.formats import objects

    if isinstance(source, Hypnodensity):
        return objects.pass_density(source, options)
    try:
        return build_density(checks.type_name(source), objects.raw_density(source, options), options)
    except FileFormatError as error:
        holds_stages = error.code == NAMES_NO_STAGES and _holds_stages(source)
        if holds_stages:
            raise LabelsAloneError(f"{checks.type_name(source)} holds {NO_PROBABILITIES}") from None
        if error.code == LABELS_ALONE:
            raise LabelsAloneError(str(error)) from None
        raise InputError(str(error)) from None


class LabelsAloneError(InputError):
    """An object with stages, where probabilities are expected."""


def _holds_stages(source: Any) -> bool:
    """Whether an object has a column of stages, or a stage per epoch."""
    from stageguard.formats import objects

    try:
        objects.raw_hypnogram(source, FileOptions())
    except (StageGuardError, TypeError, ValueError):
        return False
    return True


def night_for(source: Any, profile: Profile, said: GuardOptions) -> Hypnodensity | Hypnogram:
    """Return the probabilities of a table or another tool's object, else its stages, to be decoded."""
    options = density_options(None, said.stages, said.epoch_seconds, logits=said.logits, log=said.log)
    scheme = None if profile.scheme in SCHEMES.values() else profile.scheme
    options = replace(options, default_epoch_seconds=profile.epoch_seconds, scheme=scheme)
    if checks.names_columns(source):  # else it is a stage's name per epoch
        try:
            return read_density_object(source, options).density
        except LabelsAloneError:
            if not options.may_be_labels:
                raise
    return read_hypnogram_file(source, labels_options(options, profile)).hypnogram


def labels_options(options: FileOptions, profile: Profile) -> FileOptions:
    """Return the options for reading labels with a profile, whose stages they have if they tell none."""
    return replace(options, scheme=None, default_scheme=profile.scheme)


def read_hypnogram(
    source: str | os.PathLike[str] | Any,
    *,
    format: str | None = None,
    scheme: StageScheme | str | None = None,
    epoch_seconds: float | None = None,
    column: str | None = None,
) -> Hypnogram:
    """Read one scored night from a file or from another library's object.

    Parameters
    ----------
    source : path-like, bytes, binary file or object
        A file of any format in docs/formats.md, of this computer or at an address (s3://..., https://...,
        with the extra `remote`); its bytes, or an object open for reading them; or a hypnogram of YASA,
        annotations of MNE, a `SleepRecord` of SleepECG, a table of lunapi, pandas or polars, or a sequence of
        stage names. Movement and unscored epochs are -1.
    format : str, optional
        Name of the format, if the content is ambiguous; by default it is found from the content.
    scheme : StageScheme or str, optional
        The scheme to return; finer stages are merged into it. By default the scheme of the names.
    epoch_seconds : float, optional
        Epoch length in seconds; by default what the file says, else 30. Must not contradict the file.
    column : str, optional
        The column of a table that holds the stages; by default the one named stage, hypnogram, y_pred or the
        like. Of a BIDS table with several scorings, the annotator.

    Returns
    -------
    Hypnogram
        Its attribute `assumed` says what was assumed while reading.

    Raises
    ------
    FileFormatError
        With one line that names the file, the line in it, and what was expected.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.read_hypnogram(["W", "N1", "N2", "REM"])  # or a path, or another library's object
    >>> night.stages.tolist(), night.epoch_seconds, night.scheme.name
    (['W', 'N1', 'N2', 'R'], 30.0, 'aasm5')
    """
    target = None if scheme is None else as_scheme(scheme)
    column = None if column is None else checks.text(column, "column")
    options = FileOptions(scheme=target, epoch_seconds=epoch_seconds, format=format, column=column)
    return read_hypnogram_file(source, options).hypnogram


def read_hypnogram_file(source: str | os.PathLike[str] | Any, options: FileOptions) -> Night:
    """Like `read_hypnogram`, with the argmax, the profile, and remarks on what was assumed."""
    if is_stream(source):
        with as_file(source) as path:
            return read_hypnogram_file(path, options)
    if not names_file(source):
        from stageguard.formats.objects import raw_hypnogram

        return build_hypnogram(Path(checks.type_name(source)), raw_hypnogram(source, options), options)
    path = existing_file(source)
    if options.format is None:
        _refuse_array(path)
    return _stages_of(path, registry.detect(path, "hypnogram", name=options.format), options)


def _refuse_array(path: Path) -> None:
    """Refuse a NumPy array, which does not say what its numbers mean."""
    if not read_head(path).startswith(NPY):
        return
    able = [f"{each.name!r}" for each in registry.formats() if each.stages and ".npy" in each.suffixes]
    raise file_error(
        path,
        "holds an array of numbers, and tools number stages differently. Say whose with "
        f"format={' or '.join(able)}. If it holds probabilities, use read_density.",
    )


def has_column(path: Path, column: str | None) -> bool:
    """Whether a text table has a column of this name; False without a name."""
    if column is None:
        return False
    lines = first_lines(read_head(path))[:HEADER_SEARCH_LINES]
    return any(
        stage_column(split_line(line, mark), column) is not None for line in lines for mark in DELIMITERS
    )


def is_hypnogram(path: Path, scheme: StageScheme | None = None) -> bool:
    """Whether a file holds stages rather than probabilities; a custom `scheme` adds names of stages."""
    if path.name.endswith(TSV_SUFFIX):
        return True
    try:
        form = registry.detect(path, "hypnogram")
        if not form.is_general:
            return not form.does("density") or form.has_final_stages(path)
        lines = read_text(path).split("\n")
    except FileFormatError as error:
        return error.code == "ambiguous-format"
    custom_names = () if scheme is None else scheme.names
    for line in lines[:HEADER_SEARCH_LINES]:
        if len(line) > HEAD_BYTES:
            return False  # too wide for a scoring
        heads = [split_line(line, mark) for mark in DELIMITERS]
        named = [[canonical_name(cell) or cell in custom_names for cell in head] for head in heads]
        if any(sum(map(bool, names)) > 1 for names in named):
            return False  # several columns named after stages are probabilities
        if any(stage_column(head) is not None for head in heads):
            return True
    if column_of_stages(lines, is_only=True) is not None:
        return True
    filled = (line.strip() for line in lines if line.strip())
    return is_stage(next((line for line in filled if line[0] != "#"), ""), scheme)


def night_name(path: Path) -> str:
    """Return the name of a night: the file's name without the ending that tells its format."""
    for suffix in (TSV_SUFFIX, *BIDS_ENDINGS, *MNE_ENDINGS):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.stem
