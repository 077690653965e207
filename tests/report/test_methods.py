"""The Methods paragraph names every part of a profile that acts, with the numbers of the tables."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, write_night
from messages import mentions
from nights import decode
from small import ROWS, night, profile_of
from stageguard.errors import InputError
from stageguard.guard.explain import changed_by
from stageguard.night.quantities import quantity_of
from stageguard.profile.profile import NOT_DECODING, Profile
from stageguard.report.summary import summary_of

CALM = np.tile([0.9, 0.06, 0.04], (400, 1))
BAND = {"rule": "band", "fi_target": 0.05, "floor": 0.5, "cap": 2.0}
TARGET = {"rule": "target", "fi_target": 0.05}
ARCHAIC = ("evidence yields", "brings it next to", "no findings", "not of it", "Calmed")

FULL = {
    "name": "everything",
    "reproduces_paper": True,
    "cohort": "our clinic",
    "stager": "YASA",
    "scheme": "wnr3",
    "epoch_seconds": 30.0,
    "stay": "free",
    "ends": "paper",
    "transition_weight": 0.35,
    "prior_exponent": 0.2,
    "prior": {"W": 0.2, "N": 0.6, "R": 0.2},
    "rare_probability": 0.002,
    "rare": [["W", "R"]],
    "min_bout_seconds": {"N": 60.0},
    "flip_flop": {"penalty_nats": 1.5, "window_epochs": 4},
    "transitions": ROWS,
    "calibration": {"temperature": 1.3, "biases": {"W": 0.5, "N": -0.25, "R": 0.0}},
    "clock": {"weight": 0.75, "step_minutes": 5.0, "curves": {"R": [-3.0, -2.0, -1.0]}},
    "durations": {"W": [0.5, 0.3, 0.2]},
    "provenance": {
        "n_nights": 25,
        "n_subjects": 24,
        "base": {"name": "human-psg-3"},
        "chosen": "fixed 0.35",
        "cross_validation": {"rows": [[1], [2]]},
    },
}  # fmt: skip

# What of the paragraph each key of a profile is found by. A new key needs a line here or a reason below.
SAID = {
    "name": "profile everything",
    "reproduces_paper": "the published method",
    "cohort": "fitted on the cohort “our clinic”",
    "stager": "the stage probabilities of YASA",
    "scheme": "(W, N, R)",
    "epoch_seconds": "in 30-s epochs",
    "stay": "staying in a stage was not scored",
    "ends": "the last may be shorter",
    "transition_weight": "transition weight of 0.35",
    "prior_exponent": "to the power of 0.2",
    "prior": "W 0.2, N 0.6, R 0.2",
    "rare_probability": "0.002 per epoch",
    "rare": "W to R",
    "min_bout_seconds": "N 60 s",
    "flip_flop": "within 4 epochs cost 1.5 nats",
    "transitions": "log transition probabilities",
    "calibration": "a temperature of 1.3",
    "clock": "In the first 10 min of sleep, R was weighted",
    "durations": "Bouts of W were scored by the distribution of their lengths",
    "provenance": "fitted to 25 nights of 24 sleepers, starting from human-psg-3; its settings (fixed "
    "0.35) were chosen "
    "by cross-validation of 2 candidates",
}
ELSEWHERE = {
    "strength": "instead of transition_weight: has tests of its own",
    "stages": "instead of scheme",
    "wake": "of stages",
    "rem": "of stages",
    "base": "only for another cohort or stager: has a test of its own",
    "not_for": "only for a cohort with a caution: has a test of its own",
    "labels": "only for labels without probabilities: has a test of its own",
    "shares": "only if they were repaired: has a test of its own",
}
NO_EFFECT = {
    "summary",
    "intended_for",
    "species",
    "tvr_pairs",
    "bands",
    "joint",
    "posterior",
    "streaming",
    "intervals",
}


def everything(*without, **changes):
    document = {key: value for key, value in (FULL | changes).items() if key not in without}
    return decode(night(400), sg.Profile.from_dict(document), stager="YASA", cohort="our clinic")


def test_every_key_of_a_profile_has_its_words_or_a_reason():
    keys = {each.name for each in dataclasses.fields(Profile) if each.init}
    assert {*SAID} | {*ELSEWHERE} | NO_EFFECT == keys | {"stages", "wake", "rem"}
    assert NO_EFFECT <= NOT_DECODING


@pytest.mark.parametrize("key", SAID)
def test_each_part_of_a_profile_is_in_the_paragraph(key):
    assert SAID[key] in sg.methods_text(everything())


@pytest.mark.parametrize(
    "key", ["prior_exponent", "rare", "min_bout_seconds", "flip_flop", "calibration", "clock", "durations"]
)
def test_a_part_that_is_off_is_not_in_the_paragraph(key):
    assert SAID[key] not in sg.methods_text(everything(key))


def adults(**options):
    """Text of a calm night by a profile that was learned from adults."""
    calibration = {"temperature": 1.2, "biases": {"W": 0.1, "N": 0.0, "R": -0.1}}
    profile = profile_of(cohort="adults", calibration=calibration)
    if options.pop("is_based", False):
        profile = profile.replace(base=profile_of(name="ground").to_dict())
    return decode(CALM, profile, **options)


def psg(hours=3, profile="human-psg-5", **options):
    return decode(sg.simulate_night(profile, hours=hours, seed=1).density, profile, **options)


def poor():
    """A night with gaps, poor signal, a given stage and lights off."""
    probabilities, lost = CALM.copy(), np.zeros(400)
    probabilities[10:20] = probabilities[300:350] = np.nan
    lost[100:120] = 1.0
    return decode(probabilities, profile_of(), quality=lost, pins={200: "R"}, lights_off=60.0)


def tuned():
    made = [sg.simulate_night("human-psg-5", hours=1, seed=seed).density for seed in range(10)]
    return decode(made[0], sg.tune(made, "human-psg-5", stager="YASA"), stager="YASA")


LASTING = "in the sleep period, from the first to the last lasting sleep (6 of 10 min asleep)"
COUNTS = (
    "10 epochs without probabilities were staged from the epochs around.",
    "50 epochs without probabilities for more than five minutes were left unscored.",
    "The evidence of 20 epochs counted less because of poor signal quality.",
    "The stage of 1 epoch was given by hand.",
    "Sleep before lights off (epoch 3)",
)
LEFT_OUT = "is not known to be of, so that what the profile had learned of its own was left out"
DIGITS = {"calibration": {"temperature": 1.46218}, "rare_probability": 0.000114902, "rare": [["W", "R"]]}
RARE_AT_ONSET = {"clock": {**FULL["clock"], "curves": {"R": [-3.0, -2.0, -1.0]}}}
USUAL_AT_ONSET = {"clock": {**FULL["clock"], "curves": {"R": [1.0, 0.5, 0.0]}}}


@pytest.mark.parametrize(
    ("make", "said", "unsaid"),
    [
        (lambda: decode(CALM, profile_of(), epoch_seconds=20.0), ("converted from 30-s epochs",), ()),
        (lambda: decode(CALM, profile_of()), (), ("converted", "signal quality", "by hand")),
        (poor, COUNTS, ()),
        (adults, (LEFT_OUT, "made for the cohort “adults”"), ("temperature",)),
        (lambda: adults(cohort="adults"), ("a temperature of 1.2",), (LEFT_OUT,)),
        (lambda: adults(cohort="children", is_based=True), ("the profile’s base, ground",), ()),
        (lambda: decode(CALM, profile_of(stager="YASA", calibration={"temperature": 1.2}), stager="U-Sleep"),
         ("made for the stager “YASA”", LEFT_OUT), ("temperature",)),
        (lambda: psg(cohort="insomnia"), ("The profile has a caution for “insomnia”:",), ()),
        (lambda: decode(CALM, profile_of(transition_weight=0.0)), ("The profile stepped aside",), ()),
        (lambda: decode(CALM, "human-psg-3", strength="off"), ("The guard was switched off",), ()),
        (lambda: decode(CALM, "human-psg-3", strength=0.4), ("chose a transition weight of 0.4",), ()),
        (tuned, ("tuned to 10 nights without scorings, starting from human-psg-5",), ()),
        (psg, ("counted on 175 expert scorings", LASTING, "but at most 1.15 times the mean,"), ()),
        (lambda: psg(profile="mouse-eeg-emg-3", hours=1), (), ("sleep period",)),
        (lambda: decode(np.tile([0.9, 0.025, 0.025, 0.025, 0.025], (400, 1)), "human-psg-5"),
         ("; this night has none.",), ()),
        (lambda: psg(lights_off=60.0, lights_on=9000.0),
         ("It was looked for after lights off (epoch 3) and before lights on (epoch 301).",), ()),
        (lambda: decode(night(400), profile_of(**DIGITS)), ("a temperature of 1.46.", "(0.000115 per"), ()),
        (lambda: everything(**RARE_AT_ONSET), ("before sleep onset R as at onset",), ()),
        (lambda: everything(**USUAL_AT_ONSET), (), ("before sleep onset R as at onset",)),
        (lambda: sg.decode(sg.simulate_night("human-psg-5", hours=2, seed=1).expert, "human-psg-5"),
         ("typical confusions",), ()),
    ],
)  # fmt: skip
def test_what_happened_to_a_night_is_said_and_nothing_else(make, said, unsaid):
    text = sg.methods_text(make())
    assert [each for each in said if each not in text] == []
    assert [each for each in unsaid if each in text] == []


def test_the_biases_are_listed():
    labels = np.random.default_rng(0).integers(0, 2, 400)
    close = np.where(labels[:, None] == np.arange(3), 0.52, np.where(np.arange(3) == 2, 0.01, 0.47))
    profile = profile_of(transition_weight=0.0, calibration={"biases": {"W": 1.0, "N": 0.0, "R": 0.0}})
    result = decode(close, profile)
    assert result.changed.sum() == (labels == 1).sum()
    assert changed_by(result) == {"calibration": result.changed.sum()}
    text = sg.methods_text(result)
    assert "Stage biases were added to them: W +1, N +0, R +0 nats." in text
    assert f"{result.changed.sum()} (" in text
    assert "Total sleep time and the time in each stage depend on the stage biases" in text


def test_rules_add_up_to_the_changed_epochs():
    result = everything(clock={**FULL["clock"], "curves": {"R": [-9.0, -9.0, -9.0, -9.0]}})
    other = "WNR"[(result.argmax[11] + 1) % 3]
    pins = dict.fromkeys(range(10, 13), other)
    pinned = decode(result.density, result.profile, pins=pins, stager="YASA", cohort="our clinic")
    for each in (result, pinned):
        counts = Counter()
        for change in sg.explain(each):
            counts[change.rule] += change.n_epochs
        assert changed_by(each) == counts and counts.total() == each.changed.sum() > 0
    assert changed_by(pinned)["pin"] >= pinned.changed[10:13].sum() == 3


@pytest.mark.parametrize(
    "name", ["human-psg-5", "human-psg-3", "mouse-eeg-emg-3", "kdd2026-cardiorespiratory"]
)
@pytest.mark.parametrize("seed", range(3))
def test_fragmentation_is_that_of_the_table(name, seed):
    made = sg.simulate_night(name, hours=3, seed=seed)
    biases = dict.fromkeys(made.density.scheme.names, 0.0) | {"W": 1.5}
    for profile in (sg.Profile.load(name), sg.Profile.load(name).replace(calibration={"biases": biases})):
        result = decode(made.density, profile)
        row = next(row for row in summary_of(result).indicators if row.key == "fragmentation_index")
        assert f"was {row.before:.3f} before and {row.after:.3f} after decoding" in sg.methods_text(result)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (TARGET, ("1.5", "0.05")),
        (TARGET | {"stager_fi": 0.2}, ("0.2", "1.5")),
        (TARGET | {"stager_fi": 0.04}, ("nights", "were not smoothed")),
        (BAND, (2, "0.05", "limit")),
        ({"rule": "match", "fi_target": 0.05}, ("came", "0.05")),
    ],
)
def test_each_strength_rule_has_its_words(rule, words):
    flips = np.where(np.arange(400)[:, None] % 2 == np.arange(3), 0.5, 0.25)
    for probabilities in (CALM, flips):
        text = sg.methods_text(decode(probabilities, profile_of().replace(strength=rule)))
        assert mentions(text, *words)
        assert "{" not in text
        assert not any(phrase in text for phrase in ARCHAIC)


def test_a_smoothed_night_says_how_strongly_and_what_is_no_result():
    flips = np.where(np.arange(400)[:, None] % 2 == np.arange(3), 0.5, 0.25)
    result = decode(flips, profile_of().replace(strength=TARGET))
    assert result.strength.step == "lowered"
    text = sg.methods_text(result)
    assert f"with a transition weight of {result.strength.transition_weight:.3g}." in text
    assert (
        "Fragmentation, awakenings and bout lengths are set by the strength rule and are not results." in text
    )
    calm = sg.methods_text(decode(CALM, profile_of().replace(strength=TARGET)))
    assert "not results" not in calm
    assert "This night was not smoothed" in calm


def test_latencies_are_defined_as_in_the_tables():
    text = sg.methods_text(everything())
    for key in ("sol_minutes", "sol_10min_minutes", "rem_latency_minutes", "rem_latency_bout_minutes"):
        quantity = quantity_of(key)
        assert f"{quantity.title} is the time {quantity.definition}." in text
    assert "REM latency" not in sg.methods_text(
        decode(CALM[:, :2] / CALM[:, :2].sum(1, keepdims=True), "human-actigraphy-2")
    )


def test_lights_of_a_cohort_are_counted():
    made = sg.simulate_night("human-psg-5", hours=3, seed=1)
    both, late = {"lights_off": 60.0, "lights_on": 9000.0}, {"lights_on": 9000.0}
    results = [decode(made.density, "human-psg-5", **lights) for lights in (both, late, {})]
    said = "Lights off was given for 1 and lights on for 2 of 3 nights: the sleep period was looked for"
    assert said in sg.methods_text(results)
    assert "was given for" not in sg.methods_text(results[2:])


# ---- a cohort


def test_a_cohort_says_its_unscored_epochs():
    made = [night(400), night(400), CALM.copy()]
    made[1][100:150] = np.nan
    results = [decode(each, profile_of()) for each in made]
    words = "50 epochs without probabilities for more than five minutes, in 1 night, were left unscored."
    assert words in sg.methods_text(results)
    assert "unscored." not in sg.methods_text(results[2:])


def cohort(n=5):
    return [sg.simulate_night("human-psg-5", hours=2, seed=seed) for seed in range(n)]


def test_a_cohort_has_one_paragraph_with_medians_and_ranges():
    results = [decode(made.density, "human-psg-5") for made in cohort()]
    text = sg.methods_text(results, subjects=["a", "a", "b", "c", "d"])
    shares = [100 * result.changed_share for result in results]
    assert text.startswith("5 nights of 4 people were decoded.")
    assert text.count("Sleep was staged in") == 1
    assert (
        f"per night {np.median(shares):.1f} (median; range {min(shares):.1f} to {max(shares):.1f}) %" in text
    )
    n_smoothed = sum(result.strength.step == "lowered" for result in results)
    assert n_smoothed
    assert f"{n_smoothed} of 5 nights were smoothed" in text
    assert f"Of {sum(result.n_scored for result in results):,} epochs" in text
    assert not any(phrase in text for phrase in ARCHAIC)
    assert text.endswith("doi:10.1145/3770855.3818916.")


def test_the_cohort_page_shows_the_paragraph():
    decoded = {f"n{i}": decode(made.density, "human-psg-5") for i, made in enumerate(cohort(3))}
    page = sg.cohort_report(decoded, subjects={"n0": "a", "n1": "a", "n2": "b"})
    shown = re.search(r'id="methods".*?class="copy">(.*?)</p>', page, re.DOTALL)
    assert shown is not None
    assert shown[1].startswith("3 nights of 2 people were decoded.")


@pytest.mark.parametrize(("nights", "subjects"), [([], None), (["a"], None), (3, None), (2, ["a"])])
def test_what_is_no_cohort_is_refused(nights, subjects):
    given = [decode(CALM, profile_of())] * 2 if subjects else nights
    with pytest.raises((InputError, TypeError)):
        sg.methods_text(given, subjects=subjects)


def test_decode_of_several_files_writes_the_paragraph(tmp_path, capsys):
    run = Runner(capsys)
    for i in range(3):
        write_night(tmp_path / f"night{i}.csv", seed=i)
    out = tmp_path / "out"
    assert run("decode", *sorted(tmp_path.glob("*.csv")), "-p", "human-psg-5", "-o", out).code == 0
    text = (out / "methods.md").read_text()
    assert text.startswith("3 nights were decoded.")
    assert run("decode", *sorted(tmp_path.glob("*.csv")), "-p", "human-psg-5", "-o", out).code == 0
    assert (out / "methods.md").read_text() == text
    (out / "methods.md").write_text("mine")
    assert "left as it is" in run("decode", *tmp_path.glob("*.csv"), "-p", "human-psg-5", "-o", out).out
    assert (out / "methods.md").read_text() == "mine"
    page = out / "cohort.report.html"
    assert run("report", out, "-o", page).code == 0
    assert "3 nights were decoded." in page.read_text()


def test_a_cohort_of_labels_is_said_to_be_one():
    made = [sg.simulate_night("human-psg-5", hours=2, seed=seed).density for seed in range(3)]
    labels = [sg.Hypnogram(each.argmax, "aasm5", 30.0) for each in made]
    text = sg.methods_text([decode(each, "human-psg-5") for each in labels])
    assert "from the labels, softened by the typical confusions of published networks, of an" in text
    assert "Nights of labels alone were not smoothed: labels alone do not show" in text
    assert "were smoothed to that mean" not in text and "stage probabilities" not in text
    mixed = sg.methods_text([decode(each, "human-psg-5") for each in (made[0], *labels)])
    assert "from the stage probabilities and labels, softened" in mixed
    assert "were smoothed to that mean" in mixed and "Nights of labels alone" in mixed
