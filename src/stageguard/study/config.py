"""The configuration of a study: one TOML document, checked before anything is read or trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from stageguard import checks, documents, schema
from stageguard.errors import FileFormatError, InputError, MissingFileError
from stageguard.measures.cohort import ARCHITECTURE
from stageguard.night.stages import SCHEMES, StageScheme
from stageguard.nn.backbones import backbones
from stageguard.nn.options import LARGEST_SEED, TrainingOptions
from stageguard.profile.profile import Profile
from stageguard.schema import read_toml
from stageguard.signals.modalities import MODALITIES

SOURCES = ("simulated", "sleep-accel", "sleep-edf", "slpdb", "dod-h", "features", "dataset")
BOOSTING = "boosting"  # the stager that is no network: see `boosting`
SPLITS = ("leave-one-out", "k-fold")
Loss = Literal["base", "penalty"]


def _backbone(value: object, where: str) -> str:
    return checks.choice(value, where, backbones())


@dataclass(frozen=True, slots=True)
class CohortSource:
    """Where a study's nights come from."""

    source: str = schema.choice(schema.REQUIRED, *SOURCES)
    scheme: str = schema.choice("wnr3", *SCHEMES)
    # of a simulated cohort: modality, number of subjects, hours of each recording, seed
    modality: str | None = schema.choice(None, *MODALITIES)
    subjects: int | None = schema.count(None, low=3)  # of other cohorts, the first this many; by default all
    hours: float | None = schema.number(None, positive=True)
    seed: int = schema.count(0, low=0, high=LARGEST_SEED)
    recipe: str | None = schema.text(None)  # of the features; by default that of the modality
    # of all other cohorts: below STAGEGUARD_DATA, or relative to the configuration
    folder: str | None = schema.text(None)
    dataset: str | None = schema.text(None)  # dataset whose layout the folder has
    dataset_options: Mapping[str, Any] = field(default_factory=dict, metadata={"check": checks.mapping})


@dataclass(frozen=True, slots=True)
class Split:
    """How subjects are divided into training and test."""

    kind: str = schema.choice("leave-one-out", *SPLITS)
    folds: int | None = schema.count(None, low=2)  # of "k-fold"; of "leave-one-out", only the first this many
    # subject who is never in training or test; lambda and gamma are chosen on their nights, as in the paper
    tuning_subject: str | None = schema.text(None)


@dataclass(frozen=True, slots=True)
class Guard:
    """How the networks' probabilities are guarded."""

    paper: str = schema.text()  # profile of the published rules; its transitions are counted again per fold
    base: str = schema.text()  # profile that the calibrated guard starts from
    # whether to use the base's clock: not if its curves were counted on subjects of this study
    clock: bool = schema.flag(True)
    penalty_weight: float = schema.number(0.5, low=0)  # lambda
    flip_flop_nats: float = schema.number(2.0, low=0)  # gamma
    majority_epochs: int = schema.count(3, low=3)  # window of the majority filter
    released: str | None = schema.text(None)  # profile of the rules in the authors' code, if it is compared

    @property
    def profiles(self) -> tuple[str, ...]:
        """Keys that name a profile."""
        return ("paper", "base", "released") if self.released is not None else ("paper", "base")


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two groups of subjects whose difference in a sleep statistic the stages should show."""

    group: str = schema.text()  # covariate
    first: str = schema.text()  # text of the covariate, or a bin of its numbers
    second: str = schema.text()
    statistic: str = schema.declare(schema.REQUIRED, lambda value, where: _statistic(value, where))

    def __post_init__(self) -> None:
        """Refuse a group that is compared with itself."""
        if self.first == self.second:
            raise InputError(f"a contrast compares {self.group} {self.first!r} with itself. Name two groups.")

    @property
    def metric(self) -> str:
        """Key of the statistic."""
        return _statistic(self.statistic, "statistic")


def _statistic(value: object, where: str) -> str:
    """Return the key of a sleep statistic, which may be named without its unit."""
    short = {key.rpartition("_")[0]: key for key in ARCHITECTURE if "_" in key}
    return short.get(str(value)) or checks.choice(value, where, (*ARCHITECTURE, *short))


@dataclass(frozen=True, slots=True)
class Robustness:
    """Variations besides the main comparison; an empty list varies nothing."""

    penalty_weights: tuple[float, ...] = schema.numbers(low=0)  # lambda, of `backbone`
    label_noise: tuple[float, ...] = schema.numbers(low=0, high=0.5)  # share of relabelled epochs
    seeds: tuple[int, ...] = schema.declare((), lambda v, where: checks.items(v, where, checks.whole))
    backbone: str | None = schema.declare(None, _backbone)  # backbone to vary; by default the first
    rare_probabilities: tuple[float, ...] = schema.numbers(low=1e-9, high=1)  # epsilon
    minimum_scales: tuple[float, ...] = schema.numbers(low=0)  # factors on the minimum bouts
    subgroups: tuple[str, ...] = schema.words()  # covariates of the subjects
    # bins of covariates that are numbers, such as age = ["40-55", "55-70", "70+"]; else split at the median
    bins: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict,
        metadata={
            "check": lambda value, where: {
                key: schema.text_list(names, f"{where}.{key}")
                for key, names in checks.mapping(value, where).items()
            }
        },
    )
    contrasts: tuple[Contrast, ...] = schema.declare(
        (),
        lambda value, where: checks.items(
            value, where, lambda item, name: schema.read_table(Contrast, item, name)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyConfig:
    """A study."""

    name: str = schema.text()
    title: str = schema.text()
    seed: int = schema.count(42, low=0, high=LARGEST_SEED)  # of weights, order and folds
    backbones: tuple[str, ...] = schema.declare(
        (), lambda value, where: checks.items(value, where, _backbone)
    )
    # stagers that are no networks of this package: "boosting", or networks whose stages the cohort has
    stagers: tuple[str, ...] = schema.words()
    cohort: CohortSource = schema.declare(
        schema.REQUIRED, lambda value, where: schema.read_table(CohortSource, value, where)
    )
    split: Split = schema.table(Split)
    guard: Guard = schema.declare(
        schema.REQUIRED, lambda value, where: schema.read_table(Guard, value, where)
    )
    # options of all networks, and in a table per backbone the options of one
    training: Mapping[str, Any] = field(default_factory=dict, metadata={"check": checks.mapping})
    robustness: Robustness = schema.table(Robustness)
    smoke: bool = schema.flag(False)  # whether this is the small version

    def __post_init__(self) -> None:
        """Check conditions between keys."""
        source = self.cohort
        if source.source == "simulated":
            for key in ("modality", "subjects"):
                if getattr(source, key) is None:
                    raise InputError(f"cohort says no {key}, which a simulated one needs. Add it.")
        elif source.source in ("features", "dataset") and source.folder is None:
            raise InputError(f"cohort has source {source.source!r} but says no folder. Add folder = ...")
        if source.source == "dataset" and None in (source.dataset, source.recipe):
            raise InputError("cohort has source 'dataset', expected the keys dataset and recipe with it.")
        if self.split.kind == "k-fold" and self.split.folds is None:
            raise InputError("split has kind 'k-fold' but no folds. Say how many, such as folds = 5.")
        if not self.backbones and not self.stagers:
            raise InputError("backbones is empty, and so are stagers. Expected at least one of either.")
        for key in self.guard.profiles:
            profile = Profile.load(getattr(self.guard, key))
            if profile.scheme != self.scheme:
                raise InputError(
                    f"guard.{key} is {profile.name!r} with the stages {', '.join(profile.scheme.names)}, "
                    f"expected those of the cohort's scheme {self.cohort.scheme!r}."
                )
        for backbone in self.trained:
            self.options(backbone, seed=self.seed)

    @property
    def scheme(self) -> StageScheme:
        """Stages of the study."""
        return SCHEMES[self.cohort.scheme]

    @property
    def varied(self) -> str:
        """The backbone whose lambda, seed and labels are varied."""
        return self.robustness.backbone or (*self.backbones, *self.stagers)[0]

    @property
    def trained(self) -> tuple[str, ...]:
        """All backbones that are trained."""
        named = chain(self.backbones, [self.varied])
        return tuple(dict.fromkeys(name for name in named if name not in self.stagers))

    @property
    def has_penalty(self) -> bool:
        """Whether networks are also trained with the penalty; without rare pairs they would be the same."""
        return bool(self.guard.penalty_weight and Profile.load(self.guard.paper).rare)

    def check_nights(self, epoch_seconds: float) -> None:
        """Refuse profiles for another epoch length than that of the nights, before anything is trained."""
        for key in self.guard.profiles:
            profile = Profile.load(getattr(self.guard, key))
            if profile.epoch_seconds != epoch_seconds:
                raise InputError(
                    f"guard.{key} is {profile.name!r} for epochs of {profile.epoch_seconds:g} s, but the "
                    f"cohort's have {epoch_seconds:g} s. Name a profile for these."
                )

    def with_gamma(self, nats: float | None) -> StudyConfig:
        """Return the study with another gamma; for None, as it is."""
        return self if nats is None else replace(self, guard=replace(self.guard, flip_flop_nats=nats))

    def options(self, backbone: str, *, seed: int, weight: float = 0.0) -> TrainingOptions:
        """Return the training options of a network; only the weight of the penalty differs between losses."""
        common = {k: v for k, v in self.training.items() if not isinstance(v, Mapping) or k == "network"}
        own = self.training.get(backbone, {})
        for name in self.training.keys() - common.keys() - set(backbones()):
            raise InputError(f"training has a table {name!r}, which is no backbone.")
        # no temperature: guards are compared on the probabilities that training gave
        document = {
            "device": "cpu",
            "temperature": False,
            **common,
            **own,
            "backbone": backbone,
            "profile": self.guard.paper,
            "seed": seed,
            "penalty_weight": weight,
        }
        try:
            return documents.read_fields(TrainingOptions, document)
        except InputError as error:
            raise InputError(f"training of {backbone}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the document, with every default."""
        document: dict[str, Any] = _without_none(schema.plain_table(self))
        return document if self.smoke else {key: document[key] for key in document if key != "smoke"}


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


def read_study(path: str | Path, *, smoke: bool = False) -> StudyConfig:
    """Read a study; with `smoke`, its table [smoke] replaces other keys."""
    path = Path(path)
    try:
        document = read_toml(path, "a study")
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file. Expected the TOML file of a study.") from None
    smaller = document.pop("smoke", None)
    if smoke and smaller is None:
        raise FileFormatError(f"{path.name}: has no table [smoke]. Add one, or run the whole study.")
    if not isinstance(smaller, dict | None):
        raise FileFormatError(f"{path.name}: smoke is no table, expected [smoke] with keys to replace.")
    if smoke and smaller is not None:
        document = merge_documents(document, smaller) | {"smoke": True}
    try:
        return study_of(document)
    except InputError as error:
        raise FileFormatError(f"{path.name}: {error}") from None


def study_of(document: Mapping[str, Any]) -> StudyConfig:
    """Return a study from its document."""
    return schema.read_table(StudyConfig, document)


def merge_documents(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with changes, table by table."""
    result = dict(document)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = (
            merge_documents(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return result
