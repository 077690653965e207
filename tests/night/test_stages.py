from __future__ import annotations

import itertools

import numpy as np
import pytest

from stageguard.night.stages import (
    AASM5,
    SCHEMES,
    WNR3,
    WS2,
    StageScheme,
    canonical_name,
    scheme_for,
)

SCHEME_NAMES = ("aasm5", "wldr4", "wnr3", "ws2")
ALIASES = {  # separated by semicolons
    "W": "W;w;Wake;WAKE;awake; W ;Sleep stage W;Prob. W;PP_W;P_W;P(W);sleep_wake",
    "N1": "N1;NREM1;S1;Sleep stage 1;Sleep stage N1;Stage 1 sleep;PP_N1;Prob. N1;sleep_N1",
    "N2": "N2;nrem2;S2;Sleep stage 2;Stage 2 sleep;stage2;p_n2",
    "N3": "N3;NREM3;S3;S4;N4;Sleep stage 3;Sleep stage 4;Stage 4 sleep;S3/4;SWS",
    "R": "R;REM;rem;Sleep stage R;REM sleep;Prob. REM;PP_R;sleep_REM;probability: REM",
    "Light": "Light;light sleep;P_light;Sleep stage light",
    "Deep": "Deep;deep sleep;Prob. Deep",
    "N": "N;NREM;NR;PP_NR;non-REM;NREM sleep;P_NREM",
    "S": "S;Sleep;SLEEP;P_sleep;Prob. S",
}
ALIASES = {name: texts.split(";") for name, texts in ALIASES.items()}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in ALIASES.items() for text in texts]
)
def test_alias_stands_for_its_stage(name, text):
    assert canonical_name(text) == name


@pytest.mark.parametrize(
    "text",
    ["", " ", "0", "1", "stage", "p", "Prob.", "W2", "?", "Movement time", "N1 N2", "Sleep stage 5"],
)
def test_what_is_no_stage_has_no_canonical_name(text):
    assert canonical_name(text) is None


def test_standard_schemes_are_as_documented():
    assert AASM5.names == ("W", "N1", "N2", "N3", "R")
    assert WNR3.names == ("W", "N", "R")
    assert WS2.names == ("W", "S")
    assert {name: scheme.name for name, scheme in SCHEMES.items()} == {n: n for n in SCHEME_NAMES}
    assert [(s.wake_index, s.rem_index) for s in SCHEMES.values()] == [(0, 4), (0, 3), (0, 2), (0, None)]
    assert AASM5.n_stages == 5


def test_custom_equal_to_a_standard_scheme_is_that_scheme():
    assert StageScheme.custom(["W", "N", "R"], wake="W", rem="R") is WNR3
    assert StageScheme.custom(np.array(["W", "S"]), wake="W") is WS2
    assert StageScheme.custom(["W", "N", "R"]) != WNR3
    assert StageScheme.custom(["R", "N", "W"], wake="W", rem="R") != WNR3


def test_custom_scheme_keeps_names_and_roles():
    scheme = StageScheme.custom(["Light", "Deep", "Wake"], wake="Wake")
    assert (scheme.name, scheme.names, scheme.wake_index, scheme.rem_index) == (
        "custom",
        ("Light", "Deep", "Wake"),
        2,
        None,
    )


@pytest.mark.parametrize(
    ("text", "label"), [("N3", 3), ("NREM3", 3), ("rem", 4), ("Sleep stage W", 0), ("PP_N1", 1)]
)
def test_index_finds_names_and_aliases(text, label):
    assert AASM5.index(text) == label


def test_index_prefers_the_exact_name_to_an_alias():
    scheme = StageScheme.custom(["S4", "S3", "W"])
    assert [scheme.index(name) for name in ("S4", "S3", "Wake")] == [0, 1, 2]


def test_index_of_a_name_outside_the_alias_table_ignores_case():
    assert StageScheme.custom(["Light", "Deep"]).index("deep") == 1


RK = StageScheme.custom(["Wake", "S1", "S2", "S3", "S4", "REM"], wake="Wake", rem="REM")
CARDIO4 = StageScheme.custom(["wake", "light", "deep", "rem"], wake="wake", rem="rem")


@pytest.mark.parametrize(
    ("fine", "coarse", "expected"),
    [
        (AASM5, WNR3, [0, 1, 1, 1, 2]),
        (AASM5, WS2, [0, 1, 1, 1, 1]),
        (WNR3, WS2, [0, 1, 1]),
        (WNR3, WNR3, [0, 1, 2]),
        (RK, AASM5, [0, 1, 2, 3, 3, 4]),
        (CARDIO4, WNR3, [0, 1, 1, 2]),
        (CARDIO4, WS2, [0, 1, 1, 1]),
        (AASM5, StageScheme.custom(["REM", "NREM", "Wake"], wake="Wake", rem="REM"), [2, 1, 1, 1, 0]),
        (StageScheme.custom(["dozing", "up"], wake="up"), WS2, [1, 0]),
        (StageScheme.custom(["a", "b"]), StageScheme.custom(["b", "a"]), [1, 0]),
        (
            StageScheme.custom(["W", "R"]),
            StageScheme.custom(["dreaming", "up"], wake="up", rem="dreaming"),
            [1, 0],
        ),
    ],
)
def test_merge_map_sends_each_stage_to_its_broader_one(fine, coarse, expected):
    assert fine.merge_map(coarse).tolist() == expected


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_scheme_for_finds_every_order_of_columns(scheme):
    for names in itertools.permutations(scheme.names):
        found, columns = scheme_for(names)
        assert found is scheme
        assert tuple(names[column] for column in columns) == scheme.names


@pytest.mark.parametrize(
    ("names", "scheme", "columns"),
    [
        (["PP_W", "PP_R", "PP_NR"], WNR3, [0, 2, 1]),
        (["N3", "N2", "N1", "REM", "WAKE"], AASM5, [4, 2, 1, 0, 3]),
        (["Prob. W", "Prob. N1", "Prob. N2", "Prob. N3", "Prob. REM"], AASM5, [0, 1, 2, 3, 4]),
        (["SLEEP", "WAKE"], WS2, [1, 0]),
    ],
)
def test_scheme_for_reads_the_columns_of_real_stagers(names, scheme, columns):
    assert scheme_for(names)[0] is scheme
    assert scheme_for(names)[1].tolist() == columns
