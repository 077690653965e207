"""The configuration of a study: one TOML document, checked before anything is read or trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from stageguard import checks
from stageguard.documents import NotNegative, Positive, Range, Text, plain, read_fields, read_toml
from stageguard.errors import FileFormatError, InputError
from stageguard.measures.cohort import ARCHITECTURE
from stageguard.night.stages import SCHEMES, StageScheme
from stageguard.nn.backbones import backbones
from stageguard.nn.options import LARGEST_SEED, TrainingOptions
from stageguard.profile.profile import Profile
from stageguard.signals.modalities import MODALITIES

BOOSTING = "boosting"  # the stager that is no network: see `stagers`
BASE, PENALTY = "base", "penalty"  # losses: cross-entropy, and with the transition penalty


def _statistic(value: Any, where: str) -> str:
    """Return the key of a sleep statistic, which may be named without its unit."""
    short = {key.rpartition("_")[0]: key for key in ARCHITECTURE if "_" in key}
    return short.get(value) or checks.choice(value, where, (*ARCHITECTURE, *short))


Backbone = Annotated[str, lambda value, where: checks.choice(value, where, backbones())]
Scheme = Annotated[str, lambda value, where: checks.choice(value, where, SCHEMES)]
Modality = Annotated[str, lambda value, where: checks.choice(value, where, MODALITIES)]
Seed = Annotated[int, Range(0, LARGEST_SEED)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortSource:
    """Where a study's nights come from."""

    source: Literal["simulated", "sleep-accel", "sleep-edf", "slpdb", "dod-h", "features", "dataset"]
    scheme: Scheme = "wnr3"
    # of a simulated cohort: modality, number of subjects, hours of each recording, seed
    modality: Modality | None = None
    subjects: Annotated[int, Range(low=3)] | None = None  # of other cohorts, the first this many; else all
    hours: Positive | None = None
    seed: Seed = 0
    recipe: Text | None = None  # of the features; by default that of the modality
    # of all other cohorts: relative to the configuration; by default STAGEGUARD_DATA
    folder: Text | None = None
    dataset: Text | None = None  # dataset whose layout the folder has
    dataset_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a source without the keys that it needs."""
        needed = {"simulated": ("modality", "subjects"), "features": ("folder",)}
        needed["dataset"] = ("folder", "dataset", "recipe")
        for key in needed.get(self.source, ()):
            if getattr(self, key) is None:
                raise InputError(f"source is {self.source!r}, which needs {key}. Add {key} = ...")


@dataclass(frozen=True, slots=True)
class Split:
    """How subjects are divided into training and test."""

    kind: Literal["leave-one-out", "k-fold"] = "leave-one-out"
    folds: Annotated[int, Range(low=2)] | None = None  # of "leave-one-out", only the first this many
    # subject who is never in training or test; lambda and gamma are chosen on their nights, as in the paper
    tuning_subject: Text | None = None

    def __post_init__(self) -> None:
        """Refuse a split into an unknown number of folds."""
        if self.kind == "k-fold" and self.folds is None:
            raise InputError("kind is 'k-fold' but there are no folds. Say how many, such as folds = 5.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """How the networks' probabilities are guarded; profiles by name, or files beside the configuration."""

    paper: Text  # profile of the published rules; its transitions are counted again per fold
    base: Text  # profile that the calibrated guard starts from
    # whether to use the base's clock: not if its curves were counted on subjects of this study
    clock: bool = True
    penalty_weight: NotNegative = 0.5  # lambda
    flip_flop_nats: NotNegative = 2.0  # gamma
    released: Text | None = None  # profile of the rules in the authors' code, if it is compared

    @property
    def profiles(self) -> dict[str, str]:
        """The profiles by key."""
        names = {"paper": self.paper, "base": self.base, "released": self.released}
        return {key: name for key, name in names.items() if name is not None}


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two groups of subjects whose difference in a sleep statistic the stages should show."""

    group: Text  # covariate
    first: Text  # text of the covariate, or a bin of its numbers
    second: Text
    statistic: Annotated[str, _statistic]


@dataclass(frozen=True, slots=True, kw_only=True)
class Robustness:
    """Variations besides the main comparison; an empty list varies nothing."""

    penalty_weights: tuple[NotNegative, ...] = ()  # lambda, of `backbone`
    label_noise: tuple[Annotated[float, Range(0, 0.5)], ...] = ()  # share of relabelled epochs
    seeds: tuple[Seed, ...] = ()
    backbone: Backbone | None = None  # backbone to vary; by default the first
    rare_probabilities: tuple[Annotated[float, Range(1e-9, 1)], ...] = ()  # epsilon
    minimum_scales: tuple[NotNegative, ...] = ()  # factors on the minimum bouts
    subgroups: tuple[Text, ...] = ()  # covariates of the subjects
    # bins of covariates that are numbers, such as age = ["40-55", "55-70", "70+"]; else split at the median
    bins: Mapping[str, tuple[Text, ...]] = field(default_factory=dict)
    contrasts: tuple[Contrast, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyConfig:
    """A study."""

    name: Text
    title: Text
    seed: Seed = 42  # of weights, order and folds
    backbones: tuple[Backbone, ...] = ()
    # stagers that are no networks of this package: "boosting", or networks whose stages the cohort has
    stagers: tuple[Text, ...] = ()
    cohort: CohortSource
    split: Split = field(default_factory=Split)
    guard: Guard
    # options of all networks, and in a table per backbone the options of one
    training: Mapping[str, Any] = field(default_factory=dict)
    robustness: Robustness = field(default_factory=Robustness)
    smoke: bool = False  # whether this is the small version

    def __post_init__(self) -> None:
        """Refuse a study of nothing."""
        if not self.names:
            raise InputError("backbones is empty, and so are stagers. Expected at least one of either.")

    @property
    def scheme(self) -> StageScheme:
        """Stages of the study."""
        return SCHEMES[self.cohort.scheme]

    @property
    def names(self) -> tuple[str, ...]:
        """Networks and other stagers of the main comparison."""
        return (*self.backbones, *self.stagers)

    @property
    def varied(self) -> str:
        """The network or stager whose lambda, seed and labels are varied."""
        return self.robustness.backbone or self.names[0]

    @property
    def has_penalty(self) -> bool:
        """Whether networks are also trained with the penalty; without rare pairs they would be the same."""
        return bool(self.guard.penalty_weight and Profile.load(self.guard.paper).rare)

    def check(self, epoch_seconds: float | None = None) -> None:
        """Refuse profiles for other stages or another epoch length, and options that networks do not have."""
        for key, name in self.guard.profiles.items():
            profile = Profile.load(name)
            what = f"guard.{key} is {profile.name!r}"
            if profile.scheme != self.scheme:
                names, wanted = ", ".join(profile.scheme.names), f"the cohort's scheme {self.cohort.scheme!r}"
                raise InputError(f"{what} with the stages {names}, expected {wanted}.")
            if profile.epoch_seconds != (epoch_seconds or profile.epoch_seconds):
                lengths = f"{profile.epoch_seconds:g} s, expected the cohort's {epoch_seconds:g} s"
                raise InputError(f"{what} for epochs of {lengths}.")
        for backbone in dict.fromkeys([*self.backbones, self.varied]):
            if backbone not in self.stagers:
                self.options(backbone, seed=self.seed)

    def at(self, folder: Path) -> StudyConfig:
        """Return the study with its paths, which are relative to a folder, as absolute ones."""
        profiles = self.guard.profiles.items()
        files = {key: str(folder.absolute() / name) for key, name in profiles if name.endswith(".toml")}
        below = self.cohort.folder and str(folder.absolute() / self.cohort.folder)
        cohort, guard = replace(self.cohort, folder=below), plain(self.guard) | files
        return replace(self, cohort=cohort, guard=read_fields(Guard, guard))

    def with_gamma(self, nats: float | None) -> StudyConfig:
        """Return the study with another gamma; for None, as it is."""
        return self if nats is None else replace(self, guard=replace(self.guard, flip_flop_nats=nats))

    def options(self, backbone: str, *, seed: int, weight: float = 0.0) -> TrainingOptions:
        """Return the training options of a network; only the penalty's weight differs between losses."""
        common = {k: v for k, v in self.training.items() if not isinstance(v, Mapping) or k == "network"}
        for name in self.training.keys() - common.keys() - set(backbones()):
            raise InputError(f"training has a table {name!r}, which is no backbone.")
        given = {**common, **self.training.get(backbone, {})}
        set_here = {"backbone": backbone, "profile": self.guard.paper, "seed": seed, "penalty_weight": weight}
        try:
            # no temperature: guards are compared on the probabilities that training gave
            return read_fields(TrainingOptions, {"device": "cpu", "temperature": False, **given, **set_here})
        except InputError as error:
            raise InputError(f"training of {backbone}: {error}") from None


def read_study(path: str | Path, *, smoke: bool = False) -> StudyConfig:
    """Read a study; with `smoke`, its table [smoke] replaces other keys."""
    path = Path(path)
    document = read_toml(path, "a study")
    try:
        smaller = checks.mapping(document.pop("smoke", {}), "smoke")
        if smoke and not smaller:
            raise InputError("has no table [smoke]. Add one, or run the whole study.")
        if smoke:
            document = _merged(document, smaller) | {"smoke": True}
        return study_of(document, path.absolute().parent)
    except InputError as error:
        raise FileFormatError(f"{path.name}: {error}") from None


def study_of(document: Mapping[str, Any], folder: Path = Path()) -> StudyConfig:
    """Return a study from its document, after a check with its paths, which are relative to a folder."""
    config = read_fields(StudyConfig, document)
    config.at(folder).check()
    return config


def _merged(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with changes, table by table."""
    result = dict(document)
    for key, value in changes.items():
        is_table = isinstance(result.get(key), Mapping) and isinstance(value, Mapping)
        result[key] = _merged(result[key], value) if is_table else value
    return result


@dataclass(frozen=True, slots=True)
class Job:
    """One stager of one fold: the columns `store.JOB`."""

    backbone: str
    loss: str
    penalty_weight: float  # lambda
    is_tuned: bool  # whether a subject chooses another lambda than `penalty_weight`
    seed: int
    label_noise: float  # share of training epochs with another stage than the expert's
    fold: int

    @property
    def key(self) -> str:
        """Name of the job's files."""
        noise = f"-noise{self.label_noise:g}" if self.label_noise else ""
        weight = "-chosen" if self.is_tuned else f"{self.penalty_weight:g}" * (self.loss == PENALTY)
        return f"{self.backbone}-{self.loss}{weight}-seed{self.seed}{noise}-fold{self.fold:02d}"


def jobs_of(config: StudyConfig, n_folds: int) -> list[Job]:
    """Return every job: first the main comparison fold after fold, then what is varied, likewise.

    An interrupted study so has some results of every network before it varies one of them.
    """
    varied, robust, seed = config.varied, config.robustness, config.seed
    is_tuned = config.split.tuning_subject is not None
    weights = [0.0, config.guard.penalty_weight] if config.has_penalty else [0.0]

    def job(name: str, weight: float, fold: int, seed: int = seed, noise: float = 0.0) -> Job:
        return Job(name, PENALTY if weight else BASE, weight, False, seed, noise, fold)

    wanted: list[Job] = []
    for fold in range(n_folds):
        main = [job(name, weight, fold) for weight in weights for name in config.backbones]
        wanted += [replace(each, is_tuned=is_tuned and each.loss == PENALTY) for each in main]
        wanted += [job(name, 0.0, fold) for name in config.stagers]
    for fold in range(n_folds):
        if config.has_penalty:
            wanted += [job(varied, weight, fold) for weight in robust.penalty_weights if weight]
        wanted += [job(varied, weight, fold, seed=other) for other in robust.seeds for weight in weights]
        wanted += [job(varied, w, fold, noise=noise) for noise in robust.label_noise for w in weights]
    return list(dict.fromkeys(wanted))
