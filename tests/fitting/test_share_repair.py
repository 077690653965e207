"""Stage shares of a stager that experts do not score, and the biases that repair them."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from messages import naming
from nights import decode
from small import profile_of
from stageguard.errors import InputError
from stageguard.fitting.nights import read_nights
from stageguard.guard.night import GuardOptions
from stageguard.profile.parts import ExpertShares

EXPERTS = {
    "here": {"A": [0.30, 0.05], "B": [0.50, 0.05], "C": [0.20, 0.05]},
    "there": {"A": [0.34, 0.05], "B": [0.46, 0.05], "C": [0.20, 0.05]},
}


def base(**changes):
    # an animal's, so that whole recordings are measured
    document = profile_of(species="mouse").replace(strength={"rule": "target", "fi_target": 0.1}).to_dict()
    names = sg.Profile.from_dict(document).scheme.names
    renamed = {cohort: dict(zip(names, table.values(), strict=True)) for cohort, table in EXPERTS.items()}
    return sg.Profile.from_dict(document | {"shares": {"cohorts": renamed}} | changes)


def night(shares, seed, lowest=0.52, highest=0.98):
    """A night whose argmax has these shares, in bouts of twelve epochs; some epochs are nearly undecided."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(rng.permutation(np.repeat([0, 1, 2], np.rint(np.array(shares) * 50).astype(int))), 12)
    second = (labels + rng.integers(1, 3, size=len(labels))) % 3
    tops = rng.uniform(lowest, highest, size=len(labels))
    rows = np.full((len(labels), 3), 0.01)
    rows[np.arange(len(labels)), labels] = tops
    rows[np.arange(len(labels)), second] = 0.99 - tops
    return rows / rows.sum(axis=1, keepdims=True)


def nights(shares, n=20, **options):
    return [night(shares, seed, **options) for seed in range(n)]


def pooled(given, biases=(0.0, 0.0, 0.0)):
    """The mean share of each stage over nights, by its definition."""
    own = [np.bincount((np.log(rows) + biases).argmax(axis=1), minlength=3) / len(rows) for rows in given]
    return np.mean(own, axis=0)


OFF = (0.08, 0.52, 0.40)  # far more of the last stage than experts score, hardly any of the first


def test_the_range_is_that_of_resampled_means_a_quarter_wider():
    shares = ExpertShares({"a": ((0.3, 0.05),), "b": ((0.4, 0.1),)})
    rng = np.random.default_rng(0)
    means = np.concatenate([rng.normal(m, s / 4, size=200_000) for m, s in ((0.3, 0.05), (0.4, 0.1))])
    low, high = np.percentile(means, [2.5, 97.5])
    centre, half = (low + high) / 2, 1.25 * (high - low) / 2
    assert shares.ranges(16) == (pytest.approx((centre - half, centre + half), abs=1e-3),)


def test_shares_outside_are_brought_to_the_edge_by_small_biases():
    given = nights(OFF)
    tuned = sg.tune(given, base())
    repair, biases = tuned.shares.repair, tuned.calibration.biases
    assert repair.n_people == 20
    assert repair.before == pytest.approx(pooled(given), abs=1e-4)
    assert repair.after == pytest.approx(pooled(given, biases), abs=1e-4)
    assert repair.outside == (0, 2)
    assert 0 < max(map(abs, biases)) <= 1.0
    assert biases[0] > 0 > biases[2] and biases[1] == 0
    ranges = base().shares.ranges(20)
    assert list(zip(repair.low, repair.high, strict=True)) == [pytest.approx(own, abs=1e-4) for own in ranges]
    for stage in repair.outside:
        low, high = ranges[stage]
        edge = low if repair.before[stage] < low else high
        assert abs(repair.after[stage] - edge) < abs(repair.before[stage] - edge)
    assert tuned.share_repair is not None and tuned.provenance["shares"] == "repaired"


def test_no_bias_is_larger_than_a_nat_wherever_that_leads():
    tuned = sg.tune(nights((0.0, 0.02, 0.98), lowest=0.7), base())
    assert max(map(abs, tuned.calibration.biases)) == 1.0
    assert tuned.share_repair.after[2] > tuned.share_repair.high[2]


def test_shares_that_experts_score_are_left_alone():
    tuned = sg.tune(nights((0.32, 0.48, 0.2)), base())
    assert tuned.provenance["shares"] == "in range"
    assert tuned.calibration.biases is None and tuned.shares.repair is None
    assert tuned.share_repair is None


def test_an_unsure_stager_is_left_alone():
    tuned = sg.tune(nights(OFF, highest=0.8), base())
    assert tuned.provenance["shares"] == "unsure" and tuned.share_repair is None


def test_a_stager_whose_rare_stages_the_rule_lifts_is_left_to_it():
    tuned = sg.tune(nights(OFF), base(), trained="natural")
    assert tuned.provenance["shares"] == "lifted" and tuned.share_repair is None
    assert sg.tune(nights(OFF), base(), trained="balanced").provenance["shares"] == "repaired"
    never_lifts = base().to_dict()["strength"] | {"lift": False}
    tuned = sg.tune(nights(OFF), base().replace(strength=never_lifts), trained="natural")
    assert tuned.provenance["shares"] == "repaired"


@pytest.mark.parametrize("trained", ["natural", "balanced"])
def test_the_default_of_a_fit_knows_how_the_stager_was_trained(trained):
    given = nights(OFF, n=2)
    experts = [rows.argmax(axis=1).astype(np.int8) for rows in given]
    options = GuardOptions(epoch_seconds=30.0, trained=trained)
    read = read_nights(experts, given, base(), options=options)
    assert [night.measured.is_lifted for night in read] == 2 * [trained == "natural"]


def test_a_named_cohort_switches_the_repair_off_when_tuned_and_when_decoded():
    caution = {"cohort": "narcolepsy", "aliases": [], "action": "warn", "reason": "It has its own."}
    given, cautious = nights(OFF), base().replace(not_for=[caution])
    named = sg.tune(given, cautious, cohort="narcolepsy")
    assert named.provenance["shares"] == "named cohort" and named.share_repair is None
    tuned = sg.tune(given, cautious, cohort="students")
    assert tuned.share_repair is not None
    assert tuned.for_nights_of(None, "students") is tuned
    assert tuned.for_nights_of(None, "narcolepsy").calibration.biases is None
    result = decode(given[0], tuned, cohort="narcolepsy")
    assert any("narcolepsy" in words and "repair" in words for words in result.assumed)
    own = cautious.replace(cohort="ours")
    assert sg.tune(given, own, cohort="others").share_repair is None
    assert sg.tune(given, own, cohort="Ours").share_repair is not None


def test_people_are_counted_and_not_nights():
    given = [*nights((0.30, 0.50, 0.20), n=9), *(night(OFF, 100 + i) for i in range(30))]
    apart = sg.tune(given, base())
    together = sg.tune(given, base(), subjects=[*range(9), *("one",) * 30])
    assert apart.shares.repair.n_people == 39
    assert together.provenance["shares"] == "in range"
    with pytest.raises(InputError, match=naming("subjects", 2, 39)):
        sg.tune(given, base(), subjects=["a", "b"])


def test_decode_moves_stages_of_the_tuned_stager_by_the_repair():
    given = nights(OFF)
    tuned = sg.tune(given, base(), stager="Mine 1.0")
    plain = tuned.replace(calibration=None, shares=None)
    shares, unrepaired = (
        pooled_labels(decode(given, profile, stager="Mine 1.0")) for profile in (tuned, plain)
    )
    assert shares[2] < unrepaired[2] and shares[0] > unrepaired[0]
    other = decode(given[0], tuned, stager="Another 2.0")
    assert other.profile.calibration.biases is None


def pooled_labels(results):
    counted = [np.bincount(r.hypnogram.labels, minlength=3) / len(r.hypnogram.labels) for r in results]
    return np.mean(counted, axis=0)


def test_the_median_index_is_that_of_the_repaired_stages():
    given = nights(OFF)
    tuned = sg.tune(given, base())
    indices = [
        np.mean(np.diff((np.log(rows) + tuned.calibration.biases).argmax(axis=1)) != 0) for rows in given
    ]
    assert tuned.strength.stager_fi == pytest.approx(np.median(indices), rel=1e-3)
    assert np.median(indices) > np.median([np.mean(np.diff(rows.argmax(axis=1)) != 0) for rows in given])


def test_the_document_is_read_back_and_the_words_say_by_how_much(tmp_path):
    given = nights(OFF)
    tuned = sg.tune(given, base())
    tuned.save(tmp_path / "tuned.toml")
    assert sg.Profile.load(tmp_path / "tuned.toml") == tuned
    repair, (name, *_) = tuned.shares.repair, tuned.scheme.names
    moved = f"{name} {100 * repair.before[0]:.1f} to {100 * repair.after[0]:.1f} %"
    assert moved in tuned.provenance["decision"]
    assert moved in sg.methods_text(decode(given[0], tuned))
    assert moved not in sg.methods_text(decode(given[0], tuned.replace(calibration=None)))
