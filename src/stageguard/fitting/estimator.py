"""`SemiMarkovDecoder`: fitting and decoding as an estimator of scikit-learn, where that is installed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Labels, Mask
from stageguard.errors import InputError, did_you_mean, warn
from stageguard.extras import library
from stageguard.fitting.endpoints import Kind
from stageguard.fitting.fit import fit_report
from stageguard.fitting.material import read_material
from stageguard.fitting.report import FitReport
from stageguard.guard.decode import decode
from stageguard.guard.posterior import posterior
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.stages import UNSCORED_NAME, StageScheme
from stageguard.profile.profile import Profile, as_profile

Nights = Sequence[npt.ArrayLike | Hypnodensity] | npt.ArrayLike


class _Parameters:
    """The methods of scikit-learn's `BaseEstimator` about parameters, for when it is not installed."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor."""
        defaults = self._defaults()
        for name, value in params.items():
            if name not in defaults:
                hint = did_you_mean(name, defaults)
                raise InputError(f"unknown parameter {name!r}, expected one of {', '.join(defaults)}.{hint}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the parameters that differ from their defaults."""
        defaults = self._defaults()
        changed = {name: value for name, value in self.get_params().items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(cls).parameters
        return {name: parameter.default for name, parameter in parameters.items()}


if TYPE_CHECKING:
    _Estimator = _Parameters
else:
    try:
        from sklearn.base import BaseEstimator, ClassifierMixin
    except ModuleNotFoundError:
        _Estimator = _Parameters
    else:

        class _Estimator(ClassifierMixin, BaseEstimator):
            pass


class SemiMarkovDecoder(_Estimator):
    """Guard a stager's probabilities with a profile fitted to scored nights.

    Nights are a list of arrays (n_epochs, n_stages), columns in the profile's stage order; or one array of
    all nights, one after the other, with their `lengths`. Without lengths, an array with `groups` per epoch
    is cut where the group changes, and an array without groups is a single night.

    If scikit-learn is installed, this is one of its estimators: `clone`, `Pipeline` and `GridSearchCV` accept
    it. scikit-learn passes `groups` on to `predict` and `score` only if its metadata routing is switched on;
    they are requested then. If it is off, cross-validate on a list of nights.

    Without ``scoring``, scikit-learn's searches take `score`, the accuracy. Its own metrics expect one stage
    per sample and refuse lists of nights ("unknown is not supported"): pass ``scoring=scorer("f1_macro")``.

    Parameters
    ----------
    profile : Profile or str
        The profile to start from.
    transition_weight : float, optional
        Decode at this weight, with the transitions counted on the scored nights. Calibration and strength
        are not chosen then, which leaves the choice to a search over the weight.
    cohort : str, optional
        Who was recorded.
    keep_accuracy, fragmentation_weight, statistics_weight, statistics, n_folds, seed
        As in `stageguard.fit`.

    Attributes
    ----------
    profile_ : Profile
        The fitted profile.
    report_ : FitReport
        How it was chosen.
    classes_ : array (n_stages,)
        The stages as in `y`: whole numbers or names.
    n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> import stageguard as sg
    >>> nights = [sg.simulate_night("human-psg-3", hours=4, seed=seed) for seed in range(3)]
    >>> X, y = [night.density.probabilities for night in nights], [night.expert.stages for night in nights]
    >>> decoder = sg.SemiMarkovDecoder("human-psg-3", transition_weight=0.3).fit(X, y)
    >>> decoder.predict(X[0])[:3].tolist()
    ['N', 'N', 'N']
    """

    def __init__(
        self,
        profile: Profile | str = "human-psg-5",
        *,
        transition_weight: float | None = None,
        cohort: str | None = None,
        keep_accuracy: bool = False,
        fragmentation_weight: float = 2.0,
        statistics_weight: float = 0.3,
        statistics: Kind | None = None,
        n_folds: int = 5,
        seed: int = 0,
    ) -> None:
        self.profile = profile
        self.transition_weight = transition_weight
        self.cohort = cohort
        self.keep_accuracy = keep_accuracy
        self.fragmentation_weight = fragmentation_weight
        self.statistics_weight = statistics_weight
        self.statistics = statistics
        self.n_folds = n_folds
        self.seed = seed

    profile_: Profile
    report_: FitReport
    classes_: npt.NDArray[Any]
    n_features_in_: int
    _n_joined: int  # nights that `fit` got in one array

    def fit(
        self,
        X: Nights,
        y: Any,
        groups: Sequence[Hashable] | None = None,
        *,
        lengths: Sequence[int] | None = None,
    ) -> SemiMarkovDecoder:
        """Fit a profile to nights and their experts' stages.

        Parameters
        ----------
        X : list of Hypnodensity or arrays, or array (n_epochs, n_stages)
            The stager's probabilities.
        y : list of Hypnogram or arrays, or array (n_epochs,)
            Stages as indices in the scheme, -1 unscored, or as names, "?" unscored.
        groups : sequence, optional
            The subject of each night, or of each epoch of one array.
        lengths : sequence of int, optional
            Epochs of each night in one array.
        """
        options = self.get_params()
        base = as_profile(options.pop("profile"))
        weight = options.pop("transition_weight")
        nights, cuts = _nights_of(X, lengths, groups)
        labels, names = _labels_of(y, cuts, base.scheme, len(nights))
        groups = _groups_of(groups, cuts, len(nights))
        if weight is not None:
            read_material(labels, nights, base, groups=groups)  # refuses nights that do not fit their scoring
        # a given weight leaves nothing to choose: only the scorings are counted
        chosen_on = nights if weight is None else None
        report = fit_report(labels, chosen_on, base=base, groups=groups, learning_curve=False, **options)
        self.profile_, self.report_ = report.profile, report
        if weight is not None:
            self.profile_ = report.profile.replace(transition_weight=weight)
        self._n_joined = 0 if cuts is None else len(labels)
        self.classes_ = np.array(base.scheme.names) if names else np.arange(base.scheme.n_stages)
        self.n_features_in_ = base.scheme.n_stages
        return self

    def predict(
        self, X: Nights, *, lengths: Sequence[int] | None = None, groups: Sequence[Hashable] | None = None
    ) -> Any:
        """Return the decoded stages, numbers or names as in `y`: a list of arrays, or one array for one.

        `lengths`, or `groups` per epoch, say where one array of several nights is cut.
        """
        nights, cuts = self._nights(X, lengths, groups)
        decoded = self._decode(nights)
        if self.classes_.dtype.kind == "U":
            names = np.array([*self.classes_, UNSCORED_NAME])
            return _join([names[labels] for labels in decoded], cuts)
        return _join([labels.astype(np.int64) for labels in decoded], cuts)

    def predict_proba(
        self, X: Nights, *, lengths: Sequence[int] | None = None, groups: Sequence[Hashable] | None = None
    ) -> Any:
        """Return the probability of each stage at each epoch, given the whole night and the profile."""
        nights, cuts = self._nights(X, lengths, groups)
        posteriors = posterior(nights, self.profile_, cohort=self.cohort)
        return _join([density.probabilities for density in posteriors], cuts)

    def score(
        self,
        X: Nights,
        y: Any,
        sample_weight: Any = None,
        *,
        lengths: Sequence[int] | None = None,
        groups: Sequence[Hashable] | None = None,
    ) -> float:
        """Return the accuracy over the epochs that an expert scored; `sample_weight` has the form of `y`."""
        nights, cuts = self._nights(X, lengths, groups)
        truth, _ = _labels_of(y, cuts, self.profile_.scheme, len(nights))
        decoded = self._decode(nights)
        for i, (a, b) in enumerate(zip(truth, decoded, strict=True)):
            if len(a) != len(b):
                raise InputError(f"y has {len(a)} epochs and X {len(b)} in night {i}, expected the same.")
        labels, outputs = np.concatenate(truth), np.concatenate(decoded)
        weights = np.ones(len(labels))
        if sample_weight is not None:
            weights = np.asarray(sample_weight if cuts is not None else np.concatenate(sample_weight))
        if weights.shape != labels.shape:
            raise InputError(
                f"sample_weight has shape {weights.shape}, expected one per epoch: {labels.shape}."
            )
        # unscored epochs are neither right nor wrong
        is_scored = labels >= 0
        total = float(weights[is_scored].sum())
        return float(weights[is_scored & (labels == outputs)].sum()) / total if total else float("nan")

    @staticmethod
    def scorer(scoring: str) -> Callable[[Any, Any, Any], float]:
        """Return one of scikit-learn's scores, by its name, for lists of nights.

        It joins the epochs of all nights that an expert scored. Pass it as `scoring` to `GridSearchCV` or
        `cross_val_score`, also for a pipeline that ends with this estimator.
        """
        checks.text(scoring, "scoring", empty=False)
        known = library("sklearn.metrics", "a score of scikit-learn", None).get_scorer_names()
        if scoring not in known:
            hint = did_you_mean(scoring, known)
            raise InputError(
                f"scoring is {scoring!r}, expected a name of sklearn.metrics.get_scorer_names().{hint}"
            )
        return _ScorerOfNights(scoring)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` was called."""
        return hasattr(self, "profile_")

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: the input is probabilities, with rows of NaN for no evidence."""
        tags: Any = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.positive_only = tags.input_tags.allow_nan = True
        return tags

    # What scikit-learn's metadata routing passes on by default; `set_fit_request` changes it.
    __metadata_request__fit: ClassVar = {"groups": True}
    __metadata_request__predict: ClassVar = {"groups": True}
    __metadata_request__predict_proba: ClassVar = {"groups": True}
    __metadata_request__score: ClassVar = {"groups": True}

    def _nights(
        self, X: Any, lengths: Sequence[int] | None, groups: Sequence[Hashable] | None
    ) -> tuple[list[Any], list[int] | None]:
        """Return nights to decode, and where they were cut; warn of an array that may hold several."""
        if not self.__sklearn_is_fitted__():
            raise _not_fitted_error()(
                "this SemiMarkovDecoder is not fitted yet, expected a call of fit first. "
                "To decode under a profile as it is, use stageguard.decode."
            )
        nights, cuts = _nights_of(X, lengths, groups)
        n_wanted = len(nights) if cuts is None else cuts[-1]
        if groups is not None and len(groups) not in (n_wanted, len(nights)):
            each = "night" if cuts is None else "epoch"
            raise InputError(f"groups: got {len(groups)} of them, expected one per {each}: {n_wanted}.")
        if cuts is not None and lengths is None and groups is None and self._n_joined > 1:
            warn(
                f"an array of {n_wanted} epochs without lengths or groups is decoded as one night, and fit "
                f"was given one array of {self._n_joined}. Give lengths, lengths=[{n_wanted}] if it is one, "
                "or groups, which scikit-learn hands on with metadata routing only, or a list of nights."
            )
        return nights, cuts

    def _decode(self, nights: list[Any]) -> list[Labels]:
        return [result.hypnogram.labels for result in decode(nights, self.profile_, cohort=self.cohort)]


@dataclass(frozen=True, slots=True)
class _ScorerOfNights:
    """A score of scikit-learn's over the scored epochs of all nights; a class, so that it can be pickled."""

    scoring: str

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the score of a fitted decoder, or of a pipeline that ends with one."""
        decoder: SemiMarkovDecoder = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        listed, cuts = _nights_of(X, None, None)
        truth, _ = _labels_of(y, cuts, decoder.profile_.scheme, len(listed))
        labels = np.concatenate(truth)
        scorer = import_module("sklearn.metrics").get_scorer(self.scoring)
        return float(scorer(_joined(estimator, decoder, labels >= 0), X, labels[labels >= 0]))


def _joined(estimator: Any, decoder: SemiMarkovDecoder, is_scored: Mask) -> Any:
    """Return a classifier of single epochs, which is what scikit-learn's metrics take."""
    base = import_module("sklearn.base")

    class Joined(base.ClassifierMixin, base.BaseEstimator):  # type: ignore[misc,name-defined]
        classes_ = np.arange(decoder.profile_.scheme.n_stages)

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def predict(self, X: Any) -> npt.NDArray[Any]:
            stages = _flat(estimator.predict(X))
            return (_numbers(stages, decoder.profile_.scheme) if stages.dtype.kind == "U" else stages)[
                is_scored
            ]

        def predict_proba(self, X: Any) -> npt.NDArray[Any]:
            return _flat(estimator.predict_proba(X))[is_scored]

    return Joined()


def _flat(output: Any) -> npt.NDArray[Any]:
    return np.concatenate(output) if isinstance(output, list) else np.asarray(output)


def _not_fitted_error() -> type[Exception]:
    """Return the error of a missing fit, which is also scikit-learn's own if that is loaded."""
    if sys.modules.get("sklearn") is None:
        return InputError
    not_fitted: type[Exception] = import_module("sklearn.exceptions").NotFittedError
    return type("NotFittedError", (InputError, not_fitted), {})


def _nights_of(
    X: Any, lengths: Sequence[int] | None, groups: Sequence[Hashable] | None
) -> tuple[list[Any], list[int] | None]:
    """Return nights, and where they were cut if they came as one array."""
    if isinstance(X, list | tuple) and X and checks.n_dimensions(X[0]) in (2, None):
        if lengths is not None:
            raise InputError("lengths are given, but X is a list of nights already. Leave them out.")
        return list(X), None
    if isinstance(X, Hypnodensity):
        raise InputError("X is one Hypnodensity, expected a list of nights: [X], and y likewise.")
    if hasattr(X, "toarray"):
        raise InputError("X is a sparse matrix, which is not supported: expected an array. Call X.toarray().")
    matrix = checks.array_of(X, "X", "read_density")
    if matrix.dtype.kind == "c":
        raise InputError(f"Complex data not supported: X is {matrix.dtype}, expected probabilities.")
    if matrix.ndim == 1 and matrix.dtype == object and len(matrix):
        return _nights_of(list(matrix), lengths, groups)
    if matrix.ndim == 3:
        return list(matrix), None
    if matrix.ndim != 2:
        raise InputError(
            f"X has shape {matrix.shape}, expected (n_epochs, n_stages) or a list of such arrays."
        )
    # groups per epoch change where a night ends
    if lengths is None and groups is not None and len(groups) == len(matrix):
        lengths = [len(list(run)) for _, run in groupby(groups)]
    if lengths is None:
        return [matrix], [0, len(matrix)]
    numbers = np.asarray(lengths)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or np.any(numbers != np.floor(numbers)):
        raise InputError(f"lengths are {checks.shown(lengths)}, expected a whole number of epochs per night.")
    edges = np.concatenate([[0], np.cumsum(numbers)]).astype(int)
    if edges[-1] != len(matrix) or np.any(np.diff(edges) < 1):
        raise InputError(
            f"lengths sum to {edges[-1]}, but X has {len(matrix)} epochs, expected one above 0 per night."
        )
    return [matrix[start:stop] for start, stop in pairwise(edges)], edges.tolist()


def _groups_of(groups: Any, cuts: list[int] | None, n_nights: int) -> list[Hashable] | None:
    """Return a group per night; for one array, groups may come per epoch."""
    if groups is None:
        return None
    listed = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if cuts is None or len(listed) != cuts[-1] or len(listed) == n_nights:
        return listed
    for start, stop in pairwise(cuts):
        if len(set(listed[start:stop])) > 1:
            raise InputError(
                f"groups change within the night of epochs {start} to {stop - 1}, expected one per night."
            )
    return [listed[start] for start in cuts[:-1]]


def _labels_of(
    y: Any, cuts: list[int] | None, scheme: StageScheme, n_nights: int
) -> tuple[list[Labels], bool]:
    """Return labels per night, and whether they came as names."""
    if y is None:
        raise InputError("y is missing: fit requires y to be passed, but the target y is None.")
    if isinstance(y, Hypnogram):
        raise InputError("y is one Hypnogram, expected a list, as of the nights in X: [y].")
    if cuts is not None:
        flat = _plain(y)
        if flat.ndim != 1 or len(flat) != cuts[-1]:
            raise InputError(f"y has shape {flat.shape}, expected one stage per epoch: ({cuts[-1]},).")
        listed = [flat[start:stop] for start, stop in pairwise(cuts)]
    else:
        if not isinstance(y, list | tuple | np.ndarray):
            raise InputError(f"y is {checks.shown(y)}, expected a list of every night's stages.")
        listed = [_stages_of(night, scheme) for night in y]
        if len(listed) != n_nights:
            raise InputError(f"y has {len(listed)} nights and X {n_nights}, expected the same.")
    names = any(stages.dtype.kind in "UO" for stages in listed)
    return [_numbers(stages, scheme) if names else stages for stages in listed], names


def _stages_of(night: Any, scheme: StageScheme) -> npt.NDArray[Any]:
    if isinstance(night, Hypnogram):
        return night.merge(scheme).labels
    return _plain(night)


def _plain(stages: Any) -> npt.NDArray[Any]:
    """Return stages as an array, masked ones as unscored."""
    array = checks.array_of(stages, "y", "read_hypnogram")
    return np.asarray(checks.unmasked(array, UNSCORED_NAME if array.dtype.kind in "UO" else UNSCORED))


def _numbers(stages: npt.NDArray[Any], scheme: StageScheme) -> Labels:
    names = stages.tolist()
    label_of = {name: scheme.index(str(name)) for name in set(names) if name != UNSCORED_NAME}
    return np.array([label_of.get(name, UNSCORED) for name in names], dtype=np.int8)


def _join(nights: list[npt.NDArray[Any]], cuts: list[int] | None) -> Any:
    return nights if cuts is None else np.concatenate(nights)
