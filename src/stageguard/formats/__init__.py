"""Read stagers' probabilities and write hypnograms, one module per format. Decides nothing about stages.

`registry` lists every file format, `objects` what is read from memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from stageguard.base import checks
from stageguard.base.errors import FileFormatError, InputError, message_of
from stageguard.base.input_files import faults_named
from stageguard.formats import registry
from stageguard.formats.density import DensityFile, DensityOptions, build_density, existing_file
from stageguard.night.hypnodensity import Hypnodensity


def read_density(
    source: Any,
    *,
    format: str | None = None,
    stages: Sequence[str] | str | None = None,
    epoch_seconds: float | None = None,
    logits: bool = False,
    log: bool = False,
    pool_to_seconds: float | None = None,
) -> Hypnodensity:
    """Stage probabilities of one recording, from a file or from what a stager returned.

    Parameters
    ----------
    source : path-like or object
        A file (CSV, TSV, `.npy`, `.npz`, Parquet, YASA JSON, GSSC CSV, Luna POPS table, Stanford STAGES
        hypnodensity, ...), or an object in memory: a `yasa.Hypnogram`, a pandas, polars or xarray table, an
        array or tensor of numbers, or `(probabilities, classes)` of a scikit-learn classifier.
    format : str, optional
        Which format or tool it is, where content cannot tell: for example ``"usleep-npy"`` for an array
        whose columns are in U-Sleep's order. See `stageguard.formats.registry` for the names.
    stages : sequence of str, optional
        Names of the columns. Needed for bare arrays; in a table it selects columns by name.
    epoch_seconds : float, optional
        Epoch length in seconds; by default what the file says, else 30. Must not contradict the file.
    logits, log : bool
        It holds logits (a softmax is taken) or natural log-probabilities. By default probabilities, logits
        and log-probabilities are told apart, and what could be either is an error.
    pool_to_seconds : float, optional
        Average rows to epochs of this length: a whole multiple of the rows' own, for stagers that write
        several rows per epoch.

    Returns
    -------
    Hypnodensity
        Probabilities in the scheme's order; epochs without evidence are NaN rows.

    Raises
    ------
    FileFormatError
        With one line that names the file, the row or column, and what was expected.
    InputError
        The same for an object, or for an option.
    """
    options = DensityOptions(
        _names(stages),
        None if epoch_seconds is None else checks.epoch_seconds(epoch_seconds),
        logits=logits,
        log=log,
        format=format,
        pool_to_seconds=None
        if pool_to_seconds is None
        else checks.number(pool_to_seconds, "pool_to_seconds", positive=True),
    )
    if isinstance(source, str | os.PathLike):
        return read_density_file(source, options).density
    return read_density_object(source, options).density


def read_density_file(path: str | os.PathLike[str], options: DensityOptions) -> DensityFile:
    """Like `read_density` of a file, with remarks on what was assumed or ignored."""
    path = existing_file(path)
    if options.format is None:
        form = registry.detect(path, "density")
    else:
        form = registry.named(options.format, "density")
    with faults_named(path.name):
        return build_density(path, form.load("density")(path, options), options)


def read_density_object(source: Any, options: DensityOptions) -> DensityFile:
    """Like `read_density` of an object in memory, with remarks on what was assumed or ignored."""
    from stageguard.formats import objects

    if isinstance(source, Hypnodensity):
        return objects.pass_density(source, options)
    name = checks.type_name(source)
    try:
        return build_density(name, objects.raw_density(source, options), options)
    except FileFormatError as error:
        raise InputError(message_of(error)) from None


def _names(stages: Sequence[str] | str | None) -> tuple[str, ...] | None:
    if stages is None:
        return None
    return tuple(part.strip() for part in stages.split(",")) if isinstance(stages, str) else tuple(stages)
