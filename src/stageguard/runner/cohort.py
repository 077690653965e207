"""Decode a cohort: files to a folder of hypnograms, or a table to a table; what `stageguard decode` calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import NAN, ComparedByValue
from stageguard.errors import InputError, OutputError
from stageguard.files import as_path, file_error, read_text, write_text_atomic
from stageguard.formats.cohort import dataset_root, holds_parquet, is_dataset, output_form
from stageguard.formats.density import listed
from stageguard.formats.read import density_options
from stageguard.guard.decoding import CITATION, Decoding
from stageguard.lazy import library
from stageguard.measures.statistics import is_of_days, longest_sleep_words
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.profile.stagers import Training
from stageguard.runner.decode_files import DecodeTask, FileSource
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.inputs import Input, Inputs, find_densities, is_density
from stageguard.runner.manifest import (
    METHODS_TEXT,
    DecodedNight,
    Manifest,
    Source,
    columns_of,
    decode_source,
)
from stageguard.runner.pool import Cluster, executor_for
from stageguard.runner.run import Outcome, check_folder
from stageguard.storage import files_in, is_folder, is_remote, store_of

OnOutcome = Callable[[Outcome[DecodedNight]], None]
PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortCall:
    """How nights are decoded and where they are written, whether a command says so or a program."""

    profile: Profile
    options: DecodeOptions
    output: Path | None  # a folder, or a table; without it, outputs go beside each night
    lights: tuple[Moment | None, Moment | None] = (None, None)
    only: tuple[str, ...] = ()  # ids of the nights of a table to decode; empty means all
    svg: bool = False
    explain: bool = False
    work: Callable[[Any], DecodedNight] | None = None  # decodes a file; by default `decode_task`
    overwrite: bool = False
    in_full: bool = False  # whether to measure everything that is shown of a single night
    jobs: int = 1
    cluster: Cluster | None = None
    on_outcome: OnOutcome | None = None

    def run(self, source: Source) -> Manifest:
        """Decode the nights of a source."""
        with executor_for(self.cluster) as executor:
            return decode_source(source, jobs=self.jobs, executor=executor, on_outcome=self.on_outcome)


def is_table_call(output: Path | None, paths: Sequence[Path], samples: Path | None) -> bool:
    """Whether a table of many nights is decoded as one: to one table, or a dataset to a dataset."""
    if output is None:
        return False
    return output_form(output) != "dataset" or (samples is None and is_dataset(paths))


def decode_table(call: CohortCall, paths: Sequence[Path]) -> Manifest:
    """Decode the nights of a table, or of the files of a dataset, to what the call names."""
    from stageguard.runner.decode_table import TableTask, table_source  # which one night does without

    assert call.output is not None
    _refuse_own_memory(call, paths)
    for folder in filter(is_folder, paths):
        _refuse_other_nights(call, folder)
    task = TableTask(
        dataset_root(paths),
        call.output,
        call.profile,
        call.options,
        overwrite=call.overwrite,
        explain=call.explain,
        only=call.only,
        files=tuple(paths) if len(paths) > 1 else (),
    )
    return call.run(table_source(task))


def _refuse_own_memory(call: CohortCall, paths: Sequence[Path]) -> None:
    """Refuse a store in the memory of this process if others work: what they write would be lost."""
    from concurrent.futures import ThreadPoolExecutor

    in_threads = call.cluster is not None and isinstance(call.cluster.scheduler, ThreadPoolExecutor)
    if in_threads or (call.jobs == 1 and call.cluster is None):
        return
    for path in (*paths, call.output):
        if path is not None and is_remote(path) and store_of(path).is_local:
            raise InputError(
                f"{path} is in the memory of one process, expected a store that all "
                "processes see. Run in one process (jobs=1), or name a folder."
            )


def _refuse_other_nights(call: CohortCall, folder: Path) -> None:
    """Refuse the folder of a dataset that also holds nights which are no part of it, and would be lost."""
    others = [path for path in files_in(folder) if path.name[0] not in "._" and not holds_parquet(path)]
    nights = [path.name for path in others if is_density(path, call.profile, call.options)]
    if nights:
        raise file_error(
            folder, f"holds a Parquet dataset and other nights ({listed(sorted(nights), 3)}), expected one "
            "of both. Name the files of one, or move the others."
        )  # fmt: skip


def tables_to_decode(paths: Sequence[Path], samples: Path | None) -> Sequence[Path]:
    """Return paths that hold one table of many nights; refuse anything else."""
    is_one = len(paths) == 1 and not is_folder(paths[0])
    if samples is not None or not (is_one or (paths and all(map(holds_parquet, paths)))):
        raise InputError(
            "output names a table, expected one table with the column id to decode, "
"or a dataset of Parquet files. Name a folder."
        )  # fmt: skip
    return paths


def decode_inputs(call: CohortCall, inputs: Inputs) -> Manifest:
    """Decode nights in files, each to outputs of its own; of a cohort, also write its tables."""
    _refuse_own_memory(call, [night.path for night in inputs.nights])
    tables = call.output if inputs.is_cohort else None
    task_of = partial(
        DecodeTask,
        profile=call.profile,
        overwrite=call.overwrite,
        draw=_draw if call.svg else None,
        explain=call.explain,
        durable=len(inputs.nights) == 1,
        shares_profile=tables is not None,
        in_full=call.in_full,
    )
    tasks = [
        task_of(
            night.path,
            night.output(call.output),
            options=_between_lights(call, night),
            edf=night.edf,
            start=night.start,
            error=night.error,
        )
        for night in inputs.nights
    ]
    manifest = call.run(FileSource(tasks, tables, call.work))
    manifest.remarks += _of_days(manifest)
    if tables is not None:
        _write_methods(manifest, call, tables)
    return manifest


def _draw(decoding: Decoding) -> str:
    from stageguard.report.hypnogram_svg import hypnogram_svg  # only pictures need it

    return hypnogram_svg(decoding)


def _between_lights(call: CohortCall, night: Input) -> DecodeOptions:
    """Return options with the lights of the call, else those of the list for this night.

    Without any it is the same object, which need not be sent to other processes again.
    """
    off = night.lights_off if call.lights[0] is None else call.lights[0]
    on = night.lights_on if call.lights[1] is None else call.lights[1]
    return call.options if off is None and on is None else replace(call.options, lights_off=off, lights_on=on)


def _of_days(manifest: Manifest) -> list[str]:
    """Return a remark that names the recordings without lights in which no moment is bedtime."""
    nights = manifest.files
    long = [row.id for row, s, decoded in nights if is_of_days(row.n_epochs, s) and not decoded.has_lights]
    of = f"{len(long):,} recording{'s' * (len(long) > 1)}"
    return [f"{longest_sleep_words(of)}: {listed(long, 3)}"] if long else []


def _write_methods(manifest: Manifest, call: CohortCall, folder: Path) -> None:
    """Write the Methods paragraph of this run's nights; a file of that name that is not ours stays."""
    path, options = folder / METHODS_TEXT, call.options
    if not manifest.files:
        return
    if path.exists() and CITATION not in read_text(path, errors="replace"):
        manifest.remarks.append(f"{path} is no text of decode's, so it was left as it is")
        return
    used = call.profile.at_strength(options.strength).for_nights_of(options.stager, options.cohort)
    is_shifted = bool(used.calibration.biases)  # then the table's index is of the shifted stages
    from stageguard.report.methods import CohortFact, cohort_methods  # only cohorts need it

    facts = [
        CohortFact(
            *(used, seconds, decoded, (NAN, NAN) if is_shifted else (row.fi_before, row.fi_after)),
            n_epochs=row.n_epochs,
        )
        for row, seconds, decoded in manifest.files
    ]
    write_text_atomic(path, cohort_methods(facts, stager=options.stager) + "\n", overwrite=True)
    manifest.written.append(path)


def chosen_nights(inputs: Inputs, only: Sequence[str]) -> Inputs:
    """Return the nights with the names in `only`, if there are any; refuse a name without a night."""
    names = [night.id for night in inputs.nights]
    for name in only:
        if name not in names:
            raise InputError(f"only={name!r}: there is no such night. Nights: {listed(names, 5)}.")
    nights = tuple(night for night in inputs.nights if night.id in only or not only)
    return replace(inputs, nights=nights)


# the call of a program


@dataclass(frozen=True, slots=True, eq=False)
class DecodedCohort(ComparedByValue):
    """What `decode_cohort` made of the nights of a cohort.

    Attributes
    ----------
    nights : dict of arrays
        A column for each fact of the decoded nights (id, file, epochs, epochs changed, strength,
        scores), as in the table that is written; ``pandas.DataFrame(result.nights)`` is that table.
    failures : tuple of dict
        The nights that could not be decoded: `id`, `file`, and `error` as one line.
    written : tuple of Path
        The output or, of files, the folder, and the tables that were written for all nights.
    n_decoded, n_before : int
        How many nights were decoded now, and by an earlier run of the same call.
    notes : dict of str to int
        What was assumed, and for how many nights.
    warnings : dict of str to int
        What to look at, and on how many nights.
    """

    nights: Mapping[str, npt.NDArray[Any]]
    failures: tuple[Mapping[str, str], ...]
    written: tuple[Path, ...]
    n_decoded: int
    n_before: int
    notes: Mapping[str, int]
    warnings: Mapping[str, int]

    @property
    def n_nights(self) -> int:
        """How many nights there were, failed ones included."""
        return self.n_decoded + self.n_before + len(self.failures)

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """The decoded nights one by one, each as a dictionary of plain values."""
        columns = [column.tolist() for column in self.nights.values()]
        for values in zip(*columns, strict=True):
            yield dict(zip(self.nights, values, strict=True))

    def to_frame(self) -> Any:
        """Return the decoded nights as a `pandas.DataFrame`."""
        return library("pandas", "a data frame", None).DataFrame(dict(self.nights))

    def __str__(self) -> str:
        """Return counts on one line."""
        counts = {
            "done before": self.n_before, "decoded": self.n_decoded, "failed": len(self.failures)
        }  # fmt: skip
        words = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n or what == "decoded")
        return f"{self.n_nights:,} night{'s' * (self.n_nights != 1)}: {words}"


def decode_cohort(
    source: PathLike | Sequence[PathLike],
    profile: Profile | str,
    output: PathLike,
    *,
    sample_list: PathLike | None = None,
    only: Sequence[str] = (),
    format: str | None = None,
    stages: Sequence[str] | str | None = None,
    epoch_seconds: float | None = None,
    logits: bool = False,
    log: bool = False,
    pool_to_seconds: float | None = None,
    normalize: bool = False,
    cohort: str | None = None,
    stager: str | None = None,
    trained: Training | None = None,
    strength: float | Literal["off"] | None = None,
    explain: bool = False,
    overwrite: bool = False,
    jobs: int = 1,
    scheduler: object = None,
    wait_minutes: float | None = None,
    on_night: Callable[[str, str | None], None] | None = None,
) -> DecodedCohort:
    """Decode the nights of a cohort and write them; `stageguard decode` as a call.

    A night that cannot be read or decoded does not end the call: it is among the failures. The same call
    again skips what is done, so that a stopped run goes on where it was. Outputs do not depend on `jobs` and
    `scheduler`.

    Parameters
    ----------
    source : path-like, or a sequence of these
        A folder of files, some files, or a sample list; or a table with the column ``id`` and a row per
        epoch: one file, or a Parquet dataset of several, a folder, or hive partitions.
    profile : Profile or str
        A profile, the name of a built-in one, or the path of a TOML file.
    output : path-like
        A folder, for ``NAME.hypnogram.tsv`` and its sidecar of each file and ``cohort.tsv`` of all. For a
        table of nights, the table to write: ``out.parquet``, ``out.csv`` or ``out.tsv``; a Parquet dataset
        may also become a dataset with the same partitions, in a folder.
    sample_list : path-like, optional
        A table that tells more about the files: id, edf, start, lights_off, lights_on.
    only : sequence of str, optional
        The ids of the nights to decode; all by default.
    format, stages, epoch_seconds, logits, log, pool_to_seconds, normalize : optional
        How probabilities are read; see `read_density`.
    cohort, stager, trained, strength : optional
        Who was recorded, whose probabilities these are, and how strongly to guard; see `decode`.
    explain : bool
        Also write which epochs changed, and why.
    overwrite : bool
        Replace outputs that another call wrote, which is an error otherwise.
    jobs : int
        Processes of this computer; 0 means one per core, 1 means this process.
    scheduler : str, distributed.Client or concurrent.futures.Executor, optional
        Where to run instead: the address of a Dask scheduler, ``"local"`` for one on this computer, or an
        object of the caller's, which stays open. Its processes must see the same folders.
    wait_minutes : float, optional
        How long to wait for the first worker of a scheduler that starts them on demand; 10 seconds by
        default.
    on_night : callable, optional
        Called with the id of each night and its error, or None, in order, as results come in.

    Returns
    -------
    DecodedCohort
        A row for each night, the failures, and what was written.

    Raises
    ------
    InputError
        The source names no nights, or an option does not fit.
    FileFormatError
        A table of nights is damaged as a whole.
    OutputExistsError
        The output of a table exists, and is not what this call would write.

    Examples
    --------
    >>> import stageguard as sg
    >>> result = sg.decode_cohort("nights", "human-psg-5", "decoded", jobs=0)  # doctest: +SKIP
    >>> result.to_frame()["fi_after"].median()  # doctest: +SKIP
    """
    paths = _paths(source)
    loaded = Profile.load(profile) if isinstance(profile, str) else profile
    if not isinstance(loaded, Profile):
        raise InputError(f"profile is {checks.shown(profile)}, expected a Profile or a name.")
    loaded.at_strength(strength)  # refuses what is no strength, once instead of for every night
    reading = density_options(
        format,
        stages,
        epoch_seconds,
        logits=logits,
        log=log,
        pool_to_seconds=pool_to_seconds,
        normalize=normalize,
    )
    options = DecodeOptions(
        reading,
        cohort=None if cohort is None else checks.text(cohort, "cohort"),
        stager=None if stager is None else checks.text(stager, "stager"),
        trained=None
        if trained is None
        else cast(Training, checks.choice(trained, "trained", get_args(Training))),
        strength=strength,
    )
    if wait_minutes is not None:
        wait_minutes = checks.number(wait_minutes, "wait_minutes", low=0)
    call = CohortCall(
        profile=loaded,
        options=options,
        output=_path(output, "output"),
        only=_names(only),
        explain=checks.flag(explain, "explain"),
        overwrite=checks.flag(overwrite, "overwrite"),
        jobs=checks.whole(jobs, "jobs"),
        cluster=None if scheduler is None else Cluster(scheduler, wait_minutes),
        on_outcome=None if on_night is None else lambda outcome: on_night(outcome.id, outcome.error),
    )
    return _result(_decode(call, paths, None if sample_list is None else _path(sample_list, "sample_list")))


def _decode(call: CohortCall, paths: Sequence[Path], samples: Path | None) -> Manifest:
    assert call.output is not None
    if is_table_call(call.output, paths, samples):
        if call.options.density.format is not None:
            raise InputError("format is for files of one night each, and this is a table. Leave it out.")
        return decode_table(call, tables_to_decode(paths, samples))
    check_folder(call.output)
    inputs = find_densities(paths, samples, call.profile, call.options)
    return decode_inputs(call, replace(chosen_nights(inputs, call.only), is_cohort=True))


def _result(manifest: Manifest) -> DecodedCohort:
    if manifest.problems:  # the nights are written, a table of all of them is not
        raise OutputError(manifest.problems[0])
    failures = ({"id": each.id, "file": each.file, "error": str(each.error)} for each in manifest.failures)
    return DecodedCohort(
        columns_of(manifest.nights),
        tuple(failures),
        tuple(manifest.written),
        manifest.n_decoded,
        manifest.n_before,
        dict(manifest.notes),
        dict(manifest.warnings),
    )


def _paths(source: object) -> list[Path]:
    """Return one path or several as a list."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        return [_path(one, "source") for one in source]
    return [_path(source, "source")]


def _path(value: object, what: str) -> Path:
    return as_path(value, what, may_be_folder=True)


def _names(only: object) -> tuple[str, ...]:
    if isinstance(only, str) or not isinstance(only, Sequence):
        raise InputError(f"only is {checks.shown(only)}, expected a list of ids.")
    return tuple(checks.text(name, "only") for name in only)
