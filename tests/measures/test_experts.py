"""Consensus and standing of several scorers, against hand-made panels and the published definition."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from small import refusal
from stageguard.errors import InputError
from stageguard.measures.experts import soft_agreement
from stageguard.night.stages import AASM5, WNR3


def scoring(text, scheme=WNR3, scorer=None, seconds=30.0):
    places = {"W": 0, "N": 1, "R": 2, "?": -1}
    return sg.Hypnogram(np.array([places[c] for c in text], dtype=np.int8), scheme, seconds, scorer=scorer)


def said(hypnogram):
    return "".join(hypnogram.stages.tolist())


def random_panel(seed, n_scorers=5, n_epochs=300):
    """Scorers of different skill; some epochs unscored."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.integers(0, 5, size=n_epochs // 6 + 1), 6)[:n_epochs]
    panel = []
    for j in range(n_scorers):
        labels = np.where(rng.random(n_epochs) < 0.1 + 0.1 * j, rng.integers(0, 5, n_epochs), truth)
        labels[rng.random(n_epochs) < 0.03] = -1
        panel.append(sg.Hypnogram(labels.astype(np.int8), AASM5, 30.0, scorer=f"scorer {j + 1}"))
    return panel


def published_soft_agreement(panel, j):
    """Epoch by epoch, as Guillot et al. 2020 write it; unscored epochs are no votes."""
    total, n = 0.0, 0
    for t in range(panel[0].n_epochs):
        votes = [one.labels[t] for i, one in enumerate(panel) if i != j and one.labels[t] >= 0]
        own = panel[j].labels[t]
        if own < 0 or not votes:
            continue
        share = {stage: votes.count(stage) for stage in set(votes)}
        total += share.get(own, 0) / max(share.values())
        n += 1
    return total / n


def test_most_votes_win():
    panel = [scoring("WWNNR"), scoring("WNNNR"), scoring("WNNRW")]
    for method in ("soft-agreement", "majority"):
        assert said(sg.consensus(panel, method)) == "WNNNR"


def test_a_tie_goes_to_the_scorer_the_others_agree_with_most():
    # the second scorer sides with the third almost everywhere, the first is alone with its N
    panel = [scoring("NNNNWWR"), scoring("WWWWWWR"), scoring("WWWWWW?"), scoring("NWWWWNR")]
    soft = soft_agreement(panel)
    assert soft[1] == max(soft)
    assert said(sg.consensus(panel, "majority"))[0] == "?"
    assert said(sg.consensus(panel))[0] == "W"


def test_a_tie_is_never_given_to_a_third_stage():
    # 2 W, 2 N, 1 R at epoch 0; the scorer of R is the most agreed with elsewhere
    panel = [
        scoring("R" + "WNRWNRWNR"),
        scoring("W" + "WNRWNRWNN"),
        scoring("W" + "WNRWNRWWR"),
        scoring("N" + "WNRNNRWNR"),
        scoring("N" + "NNRWNRWNR"),
    ]
    soft = soft_agreement(panel)
    assert soft[0] == max(soft)
    assert said(sg.consensus(panel))[0] == "W"  # of the next, all alike, the first


@pytest.mark.parametrize("seed", range(4))
def test_soft_agreement_is_the_published_one(seed):
    panel = random_panel(seed)
    soft = soft_agreement(panel)
    assert soft == pytest.approx([published_soft_agreement(panel, j) for j in range(5)])
    assert sorted(soft, reverse=True) == list(soft)  # made worse and worse
    assert soft[0] - soft[-1] > 0.1


def test_unscored_epochs_are_no_votes():
    panel = [scoring("W??"), scoring("?N?"), scoring("?N?")]
    assert said(sg.consensus(panel)) == "WN?"
    assert soft_agreement([scoring("W?"), scoring("?W")]) == pytest.approx((np.nan, np.nan), nan_ok=True)


def test_finer_scorings_are_merged_into_the_coarsest():
    fine = sg.Hypnogram(np.array([0, 1, 2, 3, 4], dtype=np.int8), AASM5, 30.0)
    merged = sg.consensus([fine, scoring("WNNNR")])
    assert (merged.scheme, said(merged)) == (WNR3, "WNNNR")


def test_a_stager_is_placed_among_the_scorers():
    panel = random_panel(3)
    labels = panel[0].labels.copy()  # as good as the best of them
    night = sg.Hypnogram(labels, AASM5, 30.0)
    found = sg.among_experts(panel, night)
    assert found.scorers == tuple(f"scorer {j}" for j in range(1, 6))
    assert found.kappa[0] == pytest.approx(1.0)
    own = [sg.agreement(night, one).kappa for one in panel]
    assert found.kappa == pytest.approx(own)
    assert found.mean_kappa == pytest.approx(np.mean(own))
    others = [np.mean([sg.agreement(panel[i], panel[j]).kappa for j in range(5) if j != i]) for i in range(5)]
    assert found.scorer_kappa == pytest.approx(others)
    assert (found.rank, found.place) == (1, "above")
    assert str(found).endswith("rank 1 of 6.")
    assert found.to_dict()["scorers"][2]["kappa_with_others"] == pytest.approx(others[2])


def test_a_poor_stager_is_below_and_a_middling_one_inside():
    panel, rng = random_panel(4), np.random.default_rng(0)
    poor = sg.Hypnogram(rng.integers(0, 5, 300).astype(np.int8), AASM5, 30.0)
    found = sg.among_experts(panel, poor)
    assert (found.place, found.rank) == ("below", 6)
    middling = random_panel(4, n_scorers=3)[2]
    labels = np.where(rng.random(300) < 0.2, 0, middling.labels).astype(np.int8)
    assert sg.among_experts(panel, sg.Hypnogram(labels, AASM5, 30.0)).place == "inside"


def test_several_nights_are_averaged_scorer_by_scorer():
    panels = [random_panel(seed) for seed in (1, 2)]
    nights = [sg.Hypnogram(panel[1].labels, AASM5, 30.0) for panel in panels]
    whole = sg.among_experts(panels, nights)
    single = [sg.among_experts(panel, night) for night, panel in zip(nights, panels, strict=True)]
    assert whole.n_nights == 2
    assert whole.kappa == pytest.approx(np.mean([one.kappa for one in single], axis=0))
    assert whole.soft_agreement == pytest.approx(np.mean([one.soft_agreement for one in single]))


TWO, UNEQUAL = [scoring("WN")] * 2, [scoring("WN"), scoring("WNRR")]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sg.consensus(TWO[:1]), "expected two or more scorings of one night"),
        (lambda: sg.consensus(UNEQUAL), "the expert scored up to epoch 4 and the night has 2"),
        (lambda: sg.consensus(TWO, "mean"), "method is 'mean', expected 'soft-agreement' or 'majority'"),
        (lambda: sg.among_experts(TWO[:1], TWO[0]), "got 1 expert, expected two or more"),
        (lambda: sg.among_experts([TWO], TWO), "expected a list"),
        (lambda: sg.among_experts([TWO, UNEQUAL], TWO), "^night 1: "),
        (lambda: sg.among_experts([TWO, [TWO[0]] * 3], TWO), "nights have 2 to 3 experts"),
    ],
)
def test_what_cannot_be_merged_is_refused(call, words):
    with pytest.raises(InputError) as error:
        call()
    refusal(error, words)


def test_a_stager_without_kappa_has_no_place_but_a_reason():
    panel = [scoring("WNNRWN"), scoring("WNNRRN")]
    found = sg.among_experts(panel, scoring("??????"))
    assert (found.rank, found.place) == (None, None)
    assert mentions(str(found), 2, "same stage throughout")
    told = found.to_dict()
    assert (told["rank"], told["place"], told["reason"]) == (None, None, found.reason)
    flat = sg.among_experts([scoring("WWWW"), scoring("WWWW")], scoring("WWWW"))
    assert (flat.rank, flat.place) == (None, None)
    alone = sg.among_experts([scoring("WN??"), scoring("??RN")], scoring("WNRN"))
    assert (alone.rank, alone.place) == (None, None)
    assert mentions(alone.reason, "scorers", "does not exist")


def test_a_scorer_without_kappa_is_left_out_of_the_ranking():
    panel = [scoring("WNNRWN"), scoring("WNNRRN"), scoring("??????")]
    found = sg.among_experts(panel, scoring("WNNRWW"))
    assert found.place == "below"
    assert (found.rank, found.to_dict()["of"]) == (3, 3)
    assert mentions(str(found), 3, "scorers", 1)
    assert str(found).endswith("rank 3 of 3.")


def test_scorers_of_the_dreem_nights_stand_where_they_should(data_dir):
    """Five experts, six stagers that know many more nights than any of them."""
    with np.load(data_dir / "dod-h" / "dod_h.npz") as archive:
        nights = [key.removesuffix("/scorers") for key in archive.files if key.endswith("/scorers")]
        names = [key.split("/")[1] for key in archive.files if key.startswith(f"{nights[0]}/")]
        panels = [[sg.Hypnogram(row, AASM5, 30.0) for row in archive[f"{night}/scorers"]] for night in nights]
        other = next(
            n for n in names if n not in ("scorers", "votes") and archive[f"{nights[0]}/{n}"].ndim == 1
        )
        stagers = [sg.Hypnogram(archive[f"{night}/{other}"], AASM5, 30.0) for night in nights]
    soft = np.array([soft_agreement(panel) for panel in panels]).mean(axis=0)
    assert soft.min() > 0.8
    assert soft.max() < 0.96
    found = sg.among_experts(panels, stagers)
    assert found.n_nights == 25
    assert 0.6 < min(found.scorer_kappa) < max(found.scorer_kappa) < 0.9
    assert found.mean_kappa > 0.6
