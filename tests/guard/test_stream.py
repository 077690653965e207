"""Decoding one epoch at a time: as at once, as soon as it is certain, and at a lag limit."""

import copy
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import stageguard as sg
from messages import mentions
from nights import decode, one_hot, plain, random_mapping, random_probabilities
from small import refusal
from stageguard.errors import InputError, ProfileError
from stageguard.guard.automaton import compile_automaton, weigh

NAN = [np.nan] * 3


def run(decoder, rows, quality=None):
    """All stages a decoder gives out, and how many it had given out after each row."""
    given_out, counts = [], []
    for i, row in enumerate(rows):
        given_out += decoder.push(row, None if quality is None else quality[i])
        counts.append(len(given_out))
        assert (decoder.n_epochs, decoder.n_committed) == (i + 1, len(given_out))
    return given_out + list(decoder.finish()), counts


def random_night(seed):
    rng = np.random.default_rng([70, seed])
    n_stages = int(rng.choice([2, 3, 5]))
    mapping = random_mapping(
        rng,
        n_stages,
        ends=str(rng.choice(["paper", "censored"])),
        stay="self",
        flip=rng.random() < 0.3,
        durations=rng.random() < 0.3,
        minimum=rng.random() < 0.6,
        epoch=60.0,
    )
    n_epochs = int(rng.integers(1, 70))
    rows = random_probabilities(rng, n_epochs, n_stages, sharpness=2)
    for _ in range(rng.integers(0, 4)):  # up to five epochs without evidence are bridged, more are a gap
        start = rng.integers(0, n_epochs)
        rows[start : start + rng.integers(1, 9)] = np.nan
    if np.isnan(rows).all():
        rows[-1] = 1 / n_stages
    quality = rng.random(n_epochs) * (rng.random(n_epochs) < 0.3)
    return mapping, rows, quality


@pytest.mark.parametrize("seed", range(60))
def test_without_a_limit_it_gives_what_decode_gives(seed):
    mapping, rows, quality = random_night(seed)
    profile = sg.Profile.from_dict(mapping)
    try:
        expected = decode(rows, profile, quality=quality).stages.tolist()
    except InputError:
        with pytest.raises(InputError, match="no path obeys"):
            run(sg.StreamingDecoder(profile), rows, quality)
        return
    stages, counts = run(sg.StreamingDecoder(profile), rows, quality)
    assert stages == expected
    if "durations" not in mapping:  # which may make a limited stream leave its path
        for lag in (60.0 * len(rows), 1e300, math.inf):
            assert run(sg.StreamingDecoder(profile, max_lag_seconds=lag), rows, quality) == (stages, counts)


def agreed(evidence, automaton, transition_weight):
    """The labels that the best ways into all states share, by writing each way out."""
    a = automaton
    weight = weigh(a.scaled, transition_weight) + a.fixed
    best = {j: (a.initial[j] + evidence[0, a.stage[j]], [int(a.stage[j])]) for j in range(a.n_states)}
    best = {j: way for j, way in best.items() if way[0] > -np.inf}
    for row in evidence[1:]:
        following = {}
        for j in range(a.n_states):
            for e in range(a.first[j], a.first[j + 1]):
                score, path = best.get(int(a.source[e]), (-np.inf, []))
                score += weight[e] + row[a.stage[j]]
                if score > following.get(j, (-np.inf, []))[0]:
                    following[j] = (score, [*path, int(a.stage[j])])
        best = following
    columns = zip(*(path for _, path in best.values()), strict=True)
    return [column[0] for column in itertools.takewhile(lambda column: len(set(column)) == 1, columns)]


@pytest.mark.parametrize("seed", range(8))
def test_an_epoch_is_given_out_as_soon_as_all_survivors_agree(seed):
    mapping, rows, _ = random_night(seed)
    rows = rows[~np.isnan(rows[:, 0])][:25]
    profile = sg.Profile.from_dict(mapping)
    evidence = oracle.evidence_of(rows, mapping)
    _, counts = run(sg.StreamingDecoder(profile), rows)
    for n, count in enumerate(counts, start=1):
        shared = agreed(evidence[:n], compile_automaton(profile), profile.transition_weight)
        assert count == len(shared), n


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("lag", [0, 1, 4])
def test_a_limit_is_kept_and_the_path_is_one_the_profile_allows(seed, lag):
    mapping, rows, quality = random_night(seed)
    mapping.pop("durations", None)
    profile = sg.Profile.from_dict(mapping)
    decoder = sg.StreamingDecoder(profile, max_lag_seconds=60.0 * lag)
    stages, counts = run(decoder, rows, quality)
    assert len(stages) == len(rows)
    assert all(n - count <= lag for n, count in enumerate(counts, start=1))
    # a long gap's first epochs may have been bridged before it was known to be one: parts are runs of stages
    labels = [-1 if stage == "?" else profile.scheme.names.index(stage) for stage in stages]
    rules = oracle.rules_of(mapping)
    evidence = oracle.evidence_of(rows, mapping, quality)
    for is_gap, part in itertools.groupby(range(len(labels)), key=lambda t: labels[t] == -1):
        part = list(part)
        if not is_gap:
            own = slice(part[0], part[-1] + 1)
            assert oracle.score_part(evidence[own], labels[own], rules) > -np.inf


def test_a_longer_lag_agrees_more_with_decode():
    profile = sg.Profile.from_dict(plain(3, min_bout_seconds={"N": 90.0, "R": 90.0}))
    rows = random_probabilities(np.random.default_rng(71), 3000, 3, sharpness=1.2)
    expected = decode(rows, profile).stages
    agreement = []
    for lag in (0, 60, 300, 1200):
        stages, _ = run(sg.StreamingDecoder(profile, max_lag_seconds=lag), rows)
        agreement.append(np.mean(np.array(stages) == expected))
    assert agreement[0] < 0.95
    assert agreement == sorted(agreement)
    assert agreement[-1] > 0.999


def test_a_limit_never_leads_into_a_dead_end():
    # N lasts two epochs at most and, where it is not cut, three at least: it can only be the end of a night
    keys = {"durations": {"N": [0.5, 0.5]}, "min_bout_seconds": {"N": 90.0}, "transition_weight": 0.2}
    profile = sg.Profile.from_dict(plain(3, **keys))
    night = one_hot([0, 0, 1, 1, 1, 1, 0, 0, 2, 2, 1, 1])
    assert decode(night, profile).stages[-1] == "N"
    for lag in (0, 60):
        stages, _ = run(sg.StreamingDecoder(profile, max_lag_seconds=lag), night)
        assert len(stages) == len(night)
        assert "N" not in stages[:-2]


@pytest.mark.parametrize("lag", [None, 60, 0])
def test_up_to_five_minutes_without_evidence_are_bridged(lag):
    transitions = plain(3)["transitions"] | {"W": {"W": 0.98, "N": 0.01, "R": 0.01}}  # wake lasts longest
    keys = {"epoch_seconds": 60.0, "transitions": transitions, "transition_weight": 0.5}
    profile = sg.Profile.from_dict(plain(3, **keys))
    rows = [*one_hot([0, 0]), NAN, NAN, NAN, *one_hot([1, 1, 1])]
    stages, counts = run(sg.StreamingDecoder(profile, max_lag_seconds=lag), rows)
    assert "".join(stages) == "WWWWWNNN"
    if lag is None:  # nothing is said about epochs that may turn out to be a gap
        assert counts[2:5] == [counts[1]] * 3


@pytest.mark.parametrize(
    ("lag", "expected"), [(None, "WW??????NN"), (180, "WWWW????NN"), (120, "WWWWW???NN"), (0, "WWWWWWW?NN")]
)
def test_a_gap_is_unscored_once_it_is_known_to_be_one(lag, expected):
    profile = sg.Profile.from_dict(plain(3, epoch_seconds=60.0, min_bout_seconds={"W": 600.0}))
    rows = [*one_hot([0, 0]), *[NAN] * 6, *one_hot([1, 1])]
    stages, counts = run(sg.StreamingDecoder(profile, max_lag_seconds=lag), rows)
    assert "".join(stages) == expected  # at the limit, epochs are bridged before it is known
    assert counts[7] == 8
    if lag is None:
        assert stages == decode(rows, profile).stages.tolist()


def test_no_stage_is_given_out_before_there_is_evidence():
    profile = sg.Profile.from_dict(plain(3, epoch_seconds=60.0))
    rows = [NAN, NAN, NAN, *one_hot([2, 2])]
    assert "".join(run(sg.StreamingDecoder(profile), rows)[0]) == "RRRRR"
    assert "".join(run(sg.StreamingDecoder(profile, max_lag_seconds=60), rows)[0]) == "??RRR"
    assert run(sg.StreamingDecoder(profile), [NAN, NAN])[0] == ["?", "?"]


@pytest.mark.parametrize("lag", [None, 120.0])
def test_memory_does_not_grow(lag):
    profile = sg.Profile.from_dict(plain(3, min_bout_seconds={"N": 90.0}, epoch_seconds=30.0))
    rows = random_probabilities(np.random.default_rng(72), 500, 3)
    decoder = sg.StreamingDecoder(profile, max_lag_seconds=lag)
    sizes = []
    for _ in range(6):
        for row in rows:
            decoder.push(row)
        sizes.append(len(decoder.snapshot()))  # the bouts of all paths that may still win are in it
    assert max(sizes) < sizes[0] + 1000
    assert decoder.n_epochs == 3000


def test_undecided_paths_do_not_slow_a_limited_stream_or_fill_its_memory():
    # two worlds without a bridge between them: paths never meet, and only the limit decides
    rows = {"W": {"W": 0.8, "N": 0.2}, "N": {"W": 0.2, "N": 0.8}, "R": {"R": 1.0}}
    profile = sg.Profile.from_dict(plain(3, transitions=rows))
    night = np.tile([[0.4, 0.1, 0.5], [0.1, 0.4, 0.5]], (200, 1))
    free, limited = sg.StreamingDecoder(profile), sg.StreamingDecoder(profile, max_lag_seconds=300)
    for row in night:
        free.push(row)
        limited.push(row)
        assert limited.n_pending <= 10
    assert free.n_committed == 0
    assert limited.n_committed == 400
    assert len(limited.snapshot()) < len(free.snapshot())
    assert list(free.finish()) == decode(night, profile).stages.tolist()


def test_very_long_recordings_keep_their_digits():
    # staying costs 690 nats here, so that scores pass a million within two thousand epochs
    rows = {"W": {"W": 1e-300, "S": 1.0}, "S": {"W": 1.0, "S": 1e-300}}
    keys = {"min_bout_seconds": {"W": 240.0, "S": 180.0}, "transition_weight": 1.5}
    profile = sg.Profile.from_dict(plain(2, transitions=rows, **keys))
    night = random_probabilities(np.random.default_rng(73), 2500, 2)
    result = decode(night, profile)
    assert result.score < -1.5e6
    decoder = sg.StreamingDecoder(profile)
    assert run(decoder, night)[0] == result.stages.tolist()
    for row in night:
        decoder.push(row)
    assert decoder._stream.scores.max() > -1.1e6


NO_ROWS = [
    ([0.5, 0.2, 0.2], r"epoch \d+ sums to 0.9, expected 1"),
    ([1.2, -0.2, 0.0], r"epoch \d+ .*N -0.2"),
    ([np.nan, 0.5, 0.5], r"epoch \d+ .*W nan"),
    ([np.inf, 0.0, 0.0], r"epoch \d+ .*W inf"),
    (np.array([0.5, 0.5]), r"epoch \d+ is array.*, expected 3 numbers, one per stage: W, N, R"),
    ([[0.2, 0.3, 0.5]], r"epoch \d+ is \[\[0.2, 0.3, 0.5\]\], expected 3 numbers"),
    (["a", "b", "c"], "probabilities are text, expected real numbers"),
    ([True, False, False], "of type bool"),
]


def test_a_bad_row_is_named_and_changes_nothing():
    clock = {"curves": {"R": [-4.0] * 8}, "restart_wake_minutes": 60.0}
    profile = sg.Profile.from_dict(plain(3, min_bout_seconds={"N": 90.0}, clock=clock))
    rows = random_probabilities(np.random.default_rng(74), 30, 3)
    rows[10:12] = np.nan
    expected = run(sg.StreamingDecoder(profile), rows)[0]
    decoder, given_out = sg.StreamingDecoder(profile), []
    for row in rows:
        before = decoder.snapshot()
        for mistake, pattern in NO_ROWS:
            with pytest.raises(InputError) as error:
                decoder.push(mistake)
            refusal(error, pattern.replace(r"\d+", str(decoder.n_epochs)))
        for quality in (-0.1, math.nan, "bad", True):
            with pytest.raises(InputError, match="quality is"):
                decoder.push(row, quality)
        assert decoder.snapshot() == before
        given_out += decoder.push(row)
    assert given_out + list(decoder.finish()) == expected


def test_a_row_of_a_table_is_refused_since_its_order_is_not_known():
    pandas = pytest.importorskip("pandas")
    decoder = sg.StreamingDecoder(sg.Profile.from_dict(plain(3)))
    with pytest.raises(InputError) as error:
        decoder.push(pandas.Series([0.125, 0.25, 0.625], index=["R", "N", "W"]))
    assert mentions(error.value, 0, "Series", 3, "W, N, R")


def test_probabilities_are_no_logits():
    decoder = sg.StreamingDecoder(sg.Profile.from_dict(plain(3)), logits=True)
    with pytest.raises(InputError, match="logits: epoch 0 holds"):
        decoder.push([1.0, np.inf, 3.0])
    decoder.push([0.7, 0.2, 0.1])  # might be logits, once
    with pytest.raises(InputError, match="these are probabilities"):
        decoder.push([0.6, 0.3, 0.1])
    decoder.push([0.6, -0.3, 0.7])


SOUND = sg.StreamingDecoder(sg.Profile.from_dict(plain(3))).snapshot()


@pytest.mark.parametrize("wrong", ["text", b"PK", None, b"[]", b"{}", b'{"version": 3}', SOUND[:-1]])
def test_what_is_no_snapshot_is_refused(wrong):
    with pytest.raises(InputError, match="snapshot"):
        sg.StreamingDecoder.restore(wrong)


@pytest.mark.parametrize("lag", [-1, math.nan, "60", True])
def test_a_lag_that_is_none_is_refused(lag):
    with pytest.raises(InputError, match="max_lag_seconds is "):
        sg.StreamingDecoder(sg.Profile.from_dict(plain(3)), max_lag_seconds=lag)


def test_names_logits_and_logarithms_are_read_as_in_decode():
    rng = np.random.default_rng(76)
    profile = sg.Profile.from_dict(plain(3))
    rows = random_probabilities(rng, 25, 5)
    rows[3:5] = np.nan
    names = ["N2", "R", "W", "N1", "N3"]
    cases = [
        (rows, {"stages": names}),
        (np.log(rows), {"stages": names, "log": True}),
        (np.log(rows) + 3, {"stages": names, "logits": True}),
        (np.log(rows[:, :3]), {"logits": True}),
        (rows[:, :3] / rows[:, :3].sum(axis=1, keepdims=True), {"epoch_seconds": 10.0}),
    ]
    for night, options in cases:
        expected = decode(night, profile, **options)
        decoder = sg.StreamingDecoder(profile, **options)
        assert run(decoder, night)[0] == expected.stages.tolist()
        assert decoder.assumed == expected.assumed
        assert decoder.epoch_seconds == expected.epoch_seconds
        again = sg.StreamingDecoder.restore(decoder.snapshot())
        assert run(again, night)[0] == expected.stages.tolist()


def test_a_profile_that_sets_its_strength_per_night_streams_at_its_weight_for_streams():
    profile = sg.Profile.load("human-psg-5")
    decoder = sg.StreamingDecoder("human-psg-5")
    assert decoder.profile == profile.for_streaming()
    assert decoder.profile.transition_weight == profile.streaming.transition_weight
    assert decoder.profile.clock == profile.clock
    said = [note for note in decoder.assumed if note.startswith("transition weight")]
    assert len(said) == 1
    assert mentions(said[0], f"{decoder.profile.transition_weight:g}", "unknown stager", "target")
    fixed = sg.StreamingDecoder(profile.replace(transition_weight=0.2))
    assert fixed.profile.transition_weight == 0.2
    assert not any(note.startswith("transition weight") for note in fixed.assumed)
    again = sg.StreamingDecoder.restore(decoder.snapshot())
    assert (again.profile, again.assumed) == (decoder.profile, decoder.assumed)
    with pytest.raises(ProfileError, match="needs the whole night"):
        sg.StreamingDecoder(profile.replace(streaming=None))


def test_a_greedy_profile_is_decoded_with_the_exact_window_and_says_so():
    profile = sg.Profile.load("kdd2026-mouse-eeg-emg")
    exact = profile.replace(flip_flop=profile.to_dict()["flip_flop"] | {"method": "exact"})
    rows = random_probabilities(np.random.default_rng(77), 200, 3)
    decoder = sg.StreamingDecoder(profile)
    note = "the flip-flop window is exact: the profile's greedy one exists for decode alone"
    assert decoder.assumed[-1] == note
    assert note not in sg.StreamingDecoder(exact).assumed
    assert run(decoder, rows)[0] == decode(rows, exact).stages.tolist()


def test_finish_begins_anew():
    profile = sg.Profile.from_dict(plain(3, min_bout_seconds={"N": 90.0}))
    rows = random_probabilities(np.random.default_rng(79), 40, 3)
    decoder = sg.StreamingDecoder(profile, max_lag_seconds=120)
    assert decoder.finish() == ()
    first, second = run(decoder, rows), run(decoder, rows)
    assert first == second
    assert (decoder.n_epochs, decoder.n_committed, decoder.n_pending) == (0, 0, 0)


def test_the_lag_counts_in_whole_epochs():
    profile = sg.Profile.from_dict(plain(3, epoch_seconds=0.1))
    rows = random_probabilities(np.random.default_rng(80), 100, 3, sharpness=0.3)
    for lag, n_epochs in ((0.3, 3), (0.35, 3), (0.0999, 0)):
        decoder = sg.StreamingDecoder(profile, max_lag_seconds=lag)
        most = 0
        for row in rows:
            decoder.push(row)
            most = max(most, decoder.n_pending)
        assert most == n_epochs


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("lag", [None, 120.0])
def test_a_snapshot_goes_on_where_it_was_taken(seed, lag):
    mapping, rows, quality = random_night(seed)
    mapping.pop("durations", None)
    profile = sg.Profile.from_dict(mapping)
    expected = run(sg.StreamingDecoder(profile, max_lag_seconds=lag), rows, quality)[0]
    decoder, given_out = sg.StreamingDecoder(profile, max_lag_seconds=lag), []
    for row, beta in zip(rows, quality, strict=True):
        snapshot = decoder.snapshot()
        decoder = sg.StreamingDecoder.restore(snapshot)
        assert decoder.snapshot() == snapshot
        given_out += decoder.push(row, beta)
    assert given_out + list(copy.deepcopy(decoder).finish()) == expected


PROFILES = {
    "plain": plain(3, transition_weight=0.7),
    "minimum": plain(3, min_bout_seconds={"N": 90.0, "R": 60.0}, ends="paper"),
    "flips": plain(3, flip_flop={"penalty_nats": 1.0, "window_epochs": 3, "method": "exact"}),
    "lengths": plain(3, durations={"N": [0.2, 0.3, 0.1]}),
    "ties": plain(3, stay="free"),
}
ROW = st.one_of(
    st.sampled_from([None, [0.5, 0.5, 0.0], [0.4, 0.4, 0.2]]),
    st.lists(st.floats(0.001, 1.0), min_size=3, max_size=3).map(lambda row: [p / sum(row) for p in row]),
)
NIGHT = st.lists(
    st.tuples(ROW, st.integers(1, 12), st.sampled_from(["", "snapshot", "bad row"])), min_size=1, max_size=25
)


@settings(max_examples=80)
@given(kind=st.sampled_from(sorted(PROFILES)), blocks=NIGHT, lag=st.sampled_from([None, 0.0, 90.0, 400.0]))
def test_any_stream_gives_out_every_epoch_once_and_scores_as_decode_does(kind, blocks, lag):
    profile = sg.Profile.from_dict(PROFILES[kind])
    decoder = sg.StreamingDecoder(profile, max_lag_seconds=lag)
    rows, given_out = [], []
    for row, n, event in blocks:
        if event == "snapshot":
            decoder = sg.StreamingDecoder.restore(decoder.snapshot())
        if event == "bad row":
            with pytest.raises(InputError):
                decoder.push([0.5, 0.6, 0.7])
        for _ in range(n):
            rows.append(NAN if row is None else row)
            given_out += decoder.push(rows[-1])
            assert lag is None or decoder.n_pending <= lag // 30
    given_out += decoder.finish()
    assert len(given_out) == len(rows)
    if np.isnan(rows).all():
        assert set(given_out) == {"?"}
    elif lag is None:
        result = decode(np.array(rows), profile)
        labels = [profile.scheme.names.index(stage) if stage != "?" else -1 for stage in given_out]
        assert (result.hypnogram.labels == -1).tolist() == [label == -1 for label in labels]
        rules, evidence = oracle.rules_of(PROFILES[kind]), oracle.evidence_of(rows, PROFILES[kind])
        parts, _, _ = oracle.parts_of(rows, 30.0)
        assert oracle.score_path(evidence, labels, rules, parts) == pytest.approx(result.score, abs=1e-8)
