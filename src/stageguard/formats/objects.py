"""Objects of other libraries, recognised without importing any of them.

An object is recognised by the package and the name of its class or of one it inherits from, so that a library
is loaded only where its user has loaded it already. A new kind is one line here, one function and one test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stageguard.base.checks import type_name
from stageguard.base.errors import Argument, InputError, Message, message_of
from stageguard.base.lazy import load
from stageguard.formats.density import DensityFile, DensityOptions, RawDensity, pool, settle_epoch_seconds
from stageguard.formats.file_format import EPOCH_LENGTH, NUMBERS_ALONE, PROBABILITIES, START
from stageguard.night.hypnodensity import Hypnodensity

ObjectPurpose = Literal["density", "hypnogram"]


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object in memory.

    Parameters
    ----------
    name, title : str
        For messages and the documentation.
    is_it : callable
        Whether an object is of this kind; the first kind that says so is it.
    density, hypnogram : str or None
        ``"module:function"`` below this package: takes the object and the options.
    write : str or None
        The method that makes one, for the documentation: ``"Hypnogram.to_yasa"``.
    loses : tuple of str
        What it cannot carry.
    takes_format : bool
        It does not say itself what it is: `format` names the tool whose order its columns have.
    """

    name: str
    title: str
    is_it: Callable[[Any], bool]
    density: str | None = None
    hypnogram: str | None = None
    write: str | None = None
    loses: tuple[str, ...] = ()
    takes_format: bool = False


def is_a(package: str, *classes: str) -> Callable[[Any], bool]:
    """Return the test for objects of these classes, or of classes made from them."""

    def test(source: Any) -> bool:
        return any(
            base.__module__.partition(".")[0] == package and base.__name__ in classes
            for base in type(source).__mro__
        )

    return test


def _is_array(source: Any) -> bool:
    return isinstance(source, np.ndarray | list) or hasattr(source, "__array__")


def _is_pair(source: Any) -> bool:
    return isinstance(source, tuple) and len(source) == 2


def _is_triple(source: Any) -> bool:
    return isinstance(source, tuple) and len(source) == 3


_HYPNOGRAM = "hypnogram_objects:read_object"

OBJECTS: tuple[ObjectKind, ...] = (
    ObjectKind(
        "yasa",
        "yasa.Hypnogram (0.7 and later)",
        is_a("yasa", "Hypnogram"),
        density="tools.yasa:density_of_yasa",
        hypnogram=_HYPNOGRAM,
    ),
    ObjectKind(
        "mne",
        "mne.Annotations, or a Raw with them",
        is_a("mne", "Annotations", "BaseRaw"),
        hypnogram=_HYPNOGRAM,
        loses=(PROBABILITIES,),
    ),
    ObjectKind(
        "sleepecg",
        "sleepecg.SleepRecord",
        is_a("sleepecg", "SleepRecord"),
        hypnogram=_HYPNOGRAM,
        loses=(PROBABILITIES,),
    ),
    ObjectKind(
        "pandas",
        "pandas.DataFrame, among them YASA's predict_proba and lunapi's POPS tables",
        is_a("pandas", "DataFrame"),
        density="tables.frames:density_of_pandas",
        hypnogram=_HYPNOGRAM,
        loses=("start time, unless its index holds times",),
    ),
    ObjectKind(
        "polars",
        "polars.DataFrame",
        is_a("polars", "DataFrame", "LazyFrame"),
        density="tables.frames:density_of_polars",
        hypnogram=_HYPNOGRAM,
        loses=(START,),
    ),
    ObjectKind(
        "pyarrow",
        "pyarrow.Table",
        is_a("pyarrow", "Table"),
        density="tables.frames:density_of_arrow",
        loses=(START,),
    ),
    ObjectKind(
        "xarray",
        "xarray.DataArray or Dataset",
        is_a("xarray", "DataArray", "Dataset"),
        density="tables.frames:density_of_xarray",
    ),
    ObjectKind(
        "torch",
        "torch.Tensor, among them logits of braindecode and PhysioEx",
        is_a("torch", "Tensor"),
        density="stager_arrays:density_of_torch",
        loses=NUMBERS_ALONE,
        takes_format=True,
    ),
    ObjectKind(
        "columns",
        "a dict of columns",
        lambda source: isinstance(source, Mapping),
        density="tables.frames:density_of_mapping",
        loses=(START,),
    ),
    ObjectKind(
        "gssc",
        "(stages, times, probabilities) of GSSC",
        _is_triple,
        density="stager_arrays:density_of_gssc",
        loses=(START,),
        takes_format=True,
    ),
    ObjectKind(
        "sklearn",
        "(predict_proba(X), classes_) of scikit-learn, LightGBM or skorch",
        _is_pair,
        density="stager_arrays:density_of_pair",
        loses=(EPOCH_LENGTH, START),
        takes_format=True,
    ),
    ObjectKind(
        "numpy",
        "an array of numbers (NumPy, SleepECG, U-Sleep, hmmlearn, JAX, TensorFlow, nested lists)",
        _is_array,
        density="stager_arrays:density_of_array",
        hypnogram=_HYPNOGRAM,
        loses=NUMBERS_ALONE,
        takes_format=True,
    ),
)


def kind_of(source: Any, purpose: ObjectPurpose) -> ObjectKind:
    """Return the kind an object is; one that cannot be read as this is an error that says what can."""
    for kind in OBJECTS:
        if kind.is_it(source):
            if getattr(kind, purpose) is not None:
                return kind
            break
    else:
        kind = ObjectKind("", "", lambda _: False)
    what = {"density": "probabilities", "hypnogram": "a hypnogram"}[purpose]
    other: ObjectPurpose = "hypnogram" if purpose == "density" else "density"
    hint = f" It is read by read_{other}." if getattr(kind, other) is not None else ""
    known = "; ".join(each.title for each in OBJECTS if getattr(each, purpose) is not None)
    raise InputError(f"{type_name(source)} is not read as {what}.{hint} Known: a path; {known}.")


def raw_density(source: Any, options: DensityOptions) -> RawDensity:
    """Return what an object says about stage probabilities."""
    kind = kind_of(source, "density")
    assert kind.density is not None
    if options.format is not None and not kind.takes_format:
        raise InputError(
            Message(
                f"{type_name(source)}: says itself what it is, got ",
                Argument("format", options.format),
                ". Leave it out.",
            )
        )
    raw: RawDensity = load(f"formats.{kind.density}")(source, options)
    return raw


def pass_density(density: Hypnodensity, options: DensityOptions) -> DensityFile:
    """Return a hypnodensity as it is, or pooled; options that contradict it are an error."""
    name = type_name(density)
    if options.format is not None or options.logits or options.log or options.stages is not None:
        raise InputError(
            f"{name}: knows its stages and holds probabilities. Leave out format, stages, logits and log."
        )
    try:
        settle_epoch_seconds(name, options.epoch_seconds, density.epoch_seconds)
        if options.pool_to_seconds is None:
            return DensityFile(density)
        pooled, notes = pool(density, options.pool_to_seconds)
        return DensityFile(dataclasses.replace(pooled, source=density.source), notes)
    except ValueError as error:
        raise InputError(message_of(error)) from None
