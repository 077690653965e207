"""Every verb takes an object by what it says of itself, or refuses it at once: tables and wrong types."""

import signal
import warnings

import numpy as np
import pytest

import stageguard as sg
from messages import naming
from small import night, profile_of
from stageguard.errors import StageGuardError

NAMES = ("W", "N", "R")
MATRIX = night(600)
LABELS = MATRIX.argmax(axis=1)
SECONDS = 5  # a refusal takes milliseconds; a machine may be busy


class OnlyItems:
    """Something that can be asked for its items one by one, for ever."""

    def __getitem__(self, place):
        return OnlyItems()

    def __len__(self):
        return 600


def tables():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    xarray, pyarrow = pytest.importorskip("xarray"), pytest.importorskip("pyarrow")
    columns = {name: MATRIX[:, place] for place, name in enumerate(NAMES)}
    turned = {name: columns[name] for name in ("R", "W", "N")}
    coords = {"stage": ["R", "W", "N"]}
    return {
        "pandas": pandas.DataFrame(turned),
        "polars": polars.DataFrame(turned),
        "xarray": xarray.DataArray(MATRIX[:, [2, 0, 1]], dims=("epoch", "stage"), coords=coords),
        "dataset": xarray.Dataset({name: ("epoch", values) for name, values in turned.items()}),
        "pyarrow": pyarrow.table(turned),
        "dict": turned,
    }


def strangers():
    yasa, mne = pytest.importorskip("yasa"), pytest.importorskip("mne")
    hypnogram = sg.Hypnogram(LABELS, "wnr3", 30.0)
    return {
        "yasa": yasa.Hypnogram(["WAKE", "NREM", "REM"] * 200, n_stages=3),
        "mne": mne.Annotations([0.0, 30.0], [30.0, 30.0], ["Sleep stage W", "Sleep stage R"]),
        "hypnogram": hypnogram,
        "density": sg.Hypnodensity(MATRIX, "wnr3", 30.0),
        "decoding": sg.decode(MATRIX, profile_of()),
        "path": "night.csv",
        "generator": (row for row in MATRIX),
        "set": {1, 2},
        "none": None,
        "int": 7,
        "function": len,
        "items": OnlyItems(),
        "list of items": [OnlyItems(), OnlyItems()],
        "list of none": [None, None],
        "list of paths": ["a.csv", "b.csv"],
        "row of items": [[0.5, OnlyItems(), 0.5]] * 3,
        "table": tables()["pandas"],
        "dict": tables()["dict"],
    }


def stream(given):
    return sg.StreamingDecoder(profile_of()).push(given)


EXPERTS = [sg.Hypnogram(LABELS, "wnr3", 30.0)] * 2
VERBS = {
    "decode": (lambda x: sg.decode(x, profile_of()), {"density", "table", "dict"}),
    "decode list": (lambda x: sg.decode([x, x], profile_of()), {"density", "table", "dict"}),
    "posterior": (lambda x: sg.posterior(x, profile_of()), {"density", "table", "dict"}),
    "sample": (lambda x: sg.sample(x, profile_of(), n=1), {"density", "table", "dict"}),
    "quality": (lambda x: sg.decode(MATRIX, profile_of(), quality=x), {"none"}),
    "pins": (lambda x: sg.decode(MATRIX, profile_of(), pins=x), {"none"}),
    "segments": (lambda x: sg.decode(MATRIX, profile_of(), segments=x), {"none"}),
    "stages": (lambda x: sg.decode(MATRIX, profile_of(), stages=x), {"none"}),
    "Hypnodensity": (lambda x: sg.Hypnodensity(x, "wnr3", 30.0), set()),
    "Hypnogram": (lambda x: sg.Hypnogram(x, "wnr3", 30.0), set()),
    "push": (stream, set()),
    "stream stages": (lambda x: sg.StreamingDecoder(profile_of(), stages=x), {"none"}),
    "fit": (lambda x: sg.fit(EXPERTS, x, base=profile_of()), set()),
    "fit list": (lambda x: sg.fit(EXPERTS, [x, x], base=profile_of()), set()),
    "fit experts": (lambda x: sg.fit(x, [MATRIX, MATRIX], base=profile_of()), set()),
    "fit expert list": (lambda x: sg.fit([x, x], [MATRIX, MATRIX], base=profile_of()), set()),
    "estimator": (lambda x: sg.SemiMarkovDecoder(profile_of()).fit(x, LABELS), set()),
    "estimator list": (lambda x: sg.SemiMarkovDecoder(profile_of()).fit([x], [LABELS]), set()),
    "estimator y": (lambda x: sg.SemiMarkovDecoder(profile_of()).fit(MATRIX, x), set()),
    "estimator ys": (lambda x: sg.SemiMarkovDecoder(profile_of()).fit([MATRIX], x), set()),
    "combine": (lambda x: sg.combine(x), set()),
    "combine list": (lambda x: sg.combine([x, x]), {"density"}),
    "align": (lambda x: sg.align(x, x), {"density", "hypnogram"}),
    "merge_stages": (lambda x: sg.merge_stages(x, "ws2"), {"density", "hypnogram"}),
    "reepoch": (lambda x: sg.reepoch(x, 60.0), {"density", "hypnogram"}),
    "validity": (lambda x: sg.validity(x, profile_of()), {"hypnogram", "decoding"}),
    "sleep_statistics": (sg.sleep_statistics, {"hypnogram", "decoding"}),
    "agreement": (lambda x: sg.agreement(x, x), {"hypnogram"}),  # a decoding is no expert
    "explain": (sg.explain, {"decoding"}),
    "rare_events": (sg.rare_events, {"decoding"}),
    "intervals": (lambda x: sg.intervals(x, method="model", n=5), {"decoding"}),
    "consensus": (sg.consensus, set()),
    "consensus list": (lambda x: sg.consensus([x, x]), {"hypnogram", "decoding"}),
    "soft_agreement": (sg.soft_agreement, set()),
    "among_experts": (lambda x: sg.among_experts(EXPERTS, x), {"hypnogram", "decoding"}),
    "among_experts panel": (lambda x: sg.among_experts(x, EXPERTS[0]), set()),
    "expert_bands": (lambda x: sg.expert_bands(x, profile_of()), set()),
    "night_report": (lambda x: sg.night_report(x), {"decoding"}),
    "read_density": (sg.read_density, {"density", "table", "dict"}),
    "read_hypnogram": (sg.read_hypnogram, {"yasa", "mne", "hypnogram", "decoding"}),
    "signal_quality": (lambda x: sg.signal_quality(x, "eeg-emg"), set()),
    "features": (lambda x: sg.features(x, "mouse-eeg-emg"), set()),
}


def overdue(_signal, _frame):
    raise TimeoutError("it goes on and on")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_an_object_or_refuses_it_at_once(verb):
    call, takes = VERBS[verb]
    complaints = []
    before = signal.signal(signal.SIGALRM, overdue)
    try:
        for name, given in strangers().items():
            signal.alarm(SECONDS)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call(given)
                if name not in takes:
                    complaints.append(f"{name} is taken")
            except StageGuardError as error:
                if name in takes:
                    complaints.append(f"{name} is refused: {error}")
            except Exception as error:
                complaints.append(f"{name}: {type(error).__name__}: {error}")
            finally:
                signal.alarm(0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert complaints == []


@pytest.mark.parametrize("kind", ["pandas", "polars", "xarray", "dataset", "pyarrow", "dict"])
@pytest.mark.parametrize("verb", ["Hypnodensity", "estimator"])
def test_a_table_is_never_read_by_the_order_of_its_columns(kind, verb):
    with pytest.raises(StageGuardError, match=r"names its columns.*sg\.read_density"):
        VERBS[verb][0](tables()[kind])


@pytest.mark.parametrize("kind", ["pandas", "polars", "xarray", "dataset", "pyarrow", "dict"])
def test_a_table_is_decoded_by_the_names_of_its_columns(kind):
    expected = sg.decode(MATRIX, profile_of()).hypnogram.labels.tolist()
    assert sg.decode(tables()[kind], profile_of()).hypnogram.labels.tolist() == expected
    marginals = sg.posterior(tables()[kind], profile_of()).probabilities
    assert np.array_equal(marginals, sg.posterior(MATRIX, profile_of()).probabilities)


def test_what_the_refusal_names_reads_the_table_by_name():
    expected = sg.decode(MATRIX, profile_of()).hypnogram.labels.tolist()
    for name in ("pandas", "polars", "xarray", "pyarrow", "dict"):
        density = sg.read_density(tables()[name])
        assert sg.decode(density, profile_of()).hypnogram.labels.tolist() == expected


def test_a_row_of_a_table_is_refused_by_a_stream():
    with pytest.raises(StageGuardError, match=naming(3, "numbers", "W, N, R")):
        stream(tables()["pandas"].iloc[0])


def test_a_decoding_and_a_hypnogram_are_told_apart_from_probabilities():
    with pytest.raises(StageGuardError, match="Pass its density"):
        sg.posterior(sg.decode(MATRIX, profile_of()), profile_of())
    with pytest.raises(StageGuardError, match="no labels without probabilities"):
        sg.decode(EXPERTS[0], profile_of())


def test_a_series_whose_index_is_out_of_order_is_refused():
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series(LABELS)
    assert sg.Hypnogram(labels, "wnr3", 30.0).labels.tolist() == LABELS.tolist()
    quality = pandas.Series(np.linspace(0, 0.9, len(MATRIX)))
    sg.decode(MATRIX, profile_of(), quality=quality)
    with pytest.raises(StageGuardError, match=naming("index", "does not increase")):
        sg.Hypnogram(labels[::-1], "wnr3", 30.0)
    with pytest.raises(StageGuardError, match=naming("index", "does not increase")):
        sg.decode(MATRIX, profile_of(), quality=quality[::-1])
    with pytest.raises(StageGuardError, match=naming("Names are read", "sg.read_hypnogram")):
        sg.Hypnogram(pandas.Series(["W", "N"]), "wnr3", 30.0)
