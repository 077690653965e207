"""What the figures draw, read back from their artists and compared with numbers computed otherwise."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import stageguard as sg
from messages import naming
from nights import decode, random_probabilities
from stageguard.errors import MissingExtraError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import dates  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

START = datetime(2024, 5, 1, 22, 30)
PLOTS = [name for name in sg.__all__ if name.startswith("plot_")]


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def cohort():
    made = [sg.simulate_night("human-psg-5", hours=2, seed=seed) for seed in range(6)]
    return [decode(night.density, "human-psg-5") for night in made], [night.expert for night in made]


def scored(labels, scheme="aasm5", seconds=30.0, **described):
    return sg.Hypnogram(np.array(labels), scheme, seconds, **described)


def drawn(ax, label):
    """Return the values and edges of the steps with a label."""
    (patch,) = [patch for patch in ax.patches if patch.get_label() == label]
    return patch.get_data()


def ticks(ax):
    return {tick: text.get_text() for tick, text in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)}


def stages_at(ax, values):
    """Return which stage each height of a line is the row of."""
    rows = ticks(ax)
    return ["?" if np.isnan(value) else rows[value] for value in values]


def test_hypnogram_line_is_at_the_row_of_each_epochs_stage(ax):
    labels = [0, 0, 1, 2, -1, 4, 3, 4]
    night = scored(labels, scorer="A")
    assert sg.plot_hypnogram(night, ax=ax) is ax
    line = drawn(ax, "A")
    assert stages_at(ax, line.values) == list(night.stages)
    assert np.allclose(line.edges, np.arange(9) * 0.5)  # minutes
    assert stages_at(ax, drawn(ax, "R").values) == ["R" if stage == 4 else "?" for stage in labels]
    assert ax.get_xlabel() == "Minutes"
    assert [text for _, text in sorted(ticks(ax).items(), reverse=True)] == ["W", "R", "N1", "N2", "N3"]


def test_hypnogram_lies_where_its_clock_says(ax):
    first = scored([0] * 240, start=START, scorer="one")
    later = scored([1] * 100, start=datetime(2024, 5, 1, 23, 0), scorer="two")
    untimed = scored([2] * 100, offset_seconds=600.0, scorer="three")
    sg.plot_hypnogram(first, later, untimed, ax=ax, lights_off=1200.0, lights_on="00:10")
    begins = [dates.num2date(drawn(ax, name).edges[0]) for name in ("one", "two", "three")]
    apart = [(begin - START.replace(tzinfo=UTC)).total_seconds() for begin in begins]
    assert apart == pytest.approx([0, 1800, 600], abs=1e-3)
    lights = [dates.num2date(line.get_xdata()[0]) for line in ax.get_lines()]
    assert [f"{moment:%H:%M}" for moment in lights] == ["22:50", "00:10"]
    assert ax.get_xlabel() == "Clock time"


def test_hypnogram_of_a_decoding_marks_what_changed(ax, cohort):
    night = cohort[0][0]
    sg.plot_hypnogram(night, ax=ax)
    assert night.changed.any()
    assert (~np.isnan(drawn(ax, "changed").values) == night.changed).all()
    before, after = (
        next(patch for patch in ax.patches if patch.get_label() == name).get_data().values
        for name in ("before", "after")
    )
    rows = ticks(ax)
    assert [rows[value] for value in before] == [night.profile.scheme.names[k] for k in night.argmax]
    assert [rows[value] for value in after] == list(night.stages)


@pytest.mark.parametrize("n_epochs", [3_001, 1_000_000])
def test_many_epochs_are_drawn_as_the_shares_of_columns(ax, n_epochs):
    labels = np.random.default_rng(0).integers(-1, 3, n_epochs)
    sg.plot_hypnogram(scored(labels, "wnr3", 4.0), ax=ax)
    width = -(-n_epochs // 600)
    columns = [labels[k : k + width] for k in range(0, n_epochs, width)]
    for stage, name in enumerate(("W", "N", "R")):
        data = drawn(ax, name)
        share = (data.values - data.baseline) / 0.84
        assert np.allclose(share, [np.mean(column == stage) for column in columns])
    assert "(columns of " in ax.get_xlabel()
    assert len(data.edges) == len(columns) + 1 <= 601


def test_scorings_that_do_not_overlap_are_refused(ax):
    with pytest.raises(sg.InputError, match=naming("scoring 2", "24.00 h", "24.08 h")):
        sg.plot_hypnogram(
            scored([0] * 10, start=START), scored([0] * 10, start=datetime(2024, 5, 2, 22, 30)), ax=ax
        )


@pytest.mark.parametrize("n_stages", range(2, 9))
def test_density_areas_are_the_probabilities(ax, n_stages):
    rng = np.random.default_rng(n_stages)
    probabilities = random_probabilities(rng, 50, n_stages)
    probabilities[10:20] = np.nan
    scheme = sg.StageScheme.custom([f"state {k}" for k in range(n_stages)])
    sg.plot_density(sg.Hypnodensity(probabilities, scheme, 30.0), ax=ax)
    for stage, name in enumerate(scheme.names):
        data = drawn(ax, name)
        assert np.allclose(data.values - data.baseline, probabilities[:, stage], equal_nan=True)
    colours = {patch.get_facecolor() for patch in ax.patches}
    assert len(colours) == n_stages + 1  # and that of no evidence


def test_density_of_many_epochs_is_the_mean_of_columns(ax):
    probabilities = random_probabilities(np.random.default_rng(0), 6_000, 3)
    probabilities[:15] = np.nan
    sg.plot_density(sg.Hypnodensity(probabilities, "wnr3", 30.0), ax=ax)
    data = drawn(ax, "N")
    means = np.nanmean(probabilities[10:].reshape(-1, 10, 3), axis=1)[:, 1]
    assert np.isnan(data.values[0])
    assert np.allclose((data.values - data.baseline)[1:], means)


def complete_bouts(labels, stage):
    """Lengths in epochs of the runs of a stage between two scored epochs of others."""
    lengths, begin = [], 0
    for end in range(1, len(labels) + 1):
        if end == len(labels) or labels[end] != labels[begin]:
            if (
                labels[begin] == stage
                and begin
                and end < len(labels)
                and min(labels[begin - 1], labels[end]) >= 0
            ):
                lengths.append(end - begin)
            begin = end
    return np.array(lengths)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-1, 2), min_size=1, max_size=80))
def test_survival_is_the_percent_of_bouts_at_least_as_long(labels):
    ax = sg.plot_bouts(scored(labels, "wnr3", 60.0), stages="N", ax=Figure().subplots())
    (line,) = ax.get_lines()
    lengths = complete_bouts(labels, 1)
    assert line.get_label().endswith(f"(n = {len(lengths)})")
    x, y = line.get_data()
    assert list(x) == sorted(set(lengths))
    if len(lengths):
        survival = stats.ecdf(lengths).sf  # P(L > x)
        assert np.allclose(y, 100 * survival.evaluate(np.asarray(x) - 0.5))
    assert line.get_drawstyle() == "steps-pre"


def test_bouts_of_decodings_are_compared_before_and_after(ax, cohort):
    nights, experts = cohort
    sg.plot_bouts(nights, experts, stages=["R", "N2"], names=["raw", "guarded", "expert"], ax=ax)
    labels = [line.get_label().partition(" (")[0] for line in ax.get_lines()]
    assert labels[:6] == ["raw, R", "raw, N2", "guarded, R", "guarded, N2", "expert, R", "expert, N2"]
    n_before = sum(len(complete_bouts(list(night.argmax), 4)) for night in nights)
    assert ax.get_lines()[0].get_label().endswith(f"(n = {n_before})")


def test_bland_altman_lines_are_bias_and_limits(ax, cohort):
    nights, experts = cohort
    sg.plot_bland_altman(experts, nights, "waso_minutes", ax=ax)
    waso = [[sg.sleep_statistics(one).waso_minutes for one in several] for several in (nights, experts)]
    differences = np.subtract(*waso)
    points = {line.get_label(): line for line in ax.get_lines()}["after (n = 6)"]
    assert np.allclose(points.get_ydata(), differences)
    assert np.allclose(points.get_xdata(), np.mean(waso, axis=0))
    heights = {round(line.get_ydata()[0], 9) for line in ax.get_lines() if len(line.get_ydata()) == 2}
    spread = 1.96 * differences.std(ddof=1)
    for expected in (differences.mean() + spread, differences.mean(), differences.mean() - spread):
        assert round(expected, 9) in heights
    interval = stats.t.interval(0.95, 5, differences.mean(), stats.sem(differences))
    bars = [path.vertices[:, 1] for each in ax.collections for path in each.get_paths()]
    assert any(np.allclose(sorted(bar), interval) for bar in bars)


def test_bland_altman_leaves_out_what_is_missing_and_draws_what_is_constant(ax):
    no_rem = scored([0, 1, 2, 2] * 10)
    with_rem = scored([0, 1, 2, 4] * 10)
    sg.plot_bland_altman([with_rem] * 3, [no_rem, with_rem, with_rem], "rem_latency_minutes", ax=ax)
    (points,) = [line for line in ax.get_lines() if "n = " in str(line.get_label())]
    assert points.get_label() == "scoring 1 (n = 2 of 3)"
    assert list(points.get_ydata()) == [0.0, 0.0]
    with pytest.raises(sg.InputError, match="no night has rem_latency_minutes both"):
        sg.plot_bland_altman([no_rem], [no_rem], "rem_latency_minutes", ax=ax)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n, ax: sg.plot_hypnogram([0, 1], ax=ax), ("Hypnogram", "or a Decoding")),
        (
            lambda n, ax: sg.plot_hypnogram(n, names=["a", "b"], ax=ax),
            (1, "for each lane"),
        ),
        (lambda n, ax: sg.plot_hypnogram(n, names="a", ax=ax), ("expected a list", 1)),
        (lambda n, ax: sg.plot_hypnogram(n, ax=3), ("ax", 3, "Axes")),
        (lambda n, ax: sg.plot_hypnogram(n, lights_off="22:30", ax=ax), ("is not known",)),
        (lambda n, ax: sg.plot_density(n, ax=ax), ("hypnogram has no", "probabilities")),
        (lambda n, ax: sg.plot_bouts(n, stages="N9", ax=ax), ("'N9'", "stage")),
        (lambda n, ax: sg.plot_bouts(n, n.merge("wnr3"), ax=ax), ("expected the same",)),
        (lambda n, ax: sg.plot_bland_altman([n, n], [n], ax=ax), (1, 2, "scorings")),
        (lambda n, ax: sg.plot_bland_altman([n], [n], "tst", ax=ax), ("unknown measure 'tst'",)),
        (lambda n, ax: sg.plot_bland_altman([n], [n], "fragmentation_index", ax=ax), ("is not measured",)),
        (lambda n, ax: sg.plot_bland_altman([replace(n, epoch_seconds=20)], [n], ax=ax), ("night 1: ",)),
    ],
)
def test_what_cannot_be_drawn_is_one_line(ax, call, message):
    with pytest.raises(sg.StageGuardError, match=naming(*message)) as refused:
        call(scored([0, 1, 2, 4] * 10), ax)
    assert "\n" not in str(refused.value)


@settings(max_examples=15, deadline=None)
@given(
    n_stages=st.integers(2, 8),
    lengths=st.lists(st.tuples(st.integers(-1, 7), st.integers(1, 40)), min_size=1, max_size=20),
    seconds=st.sampled_from([0.5, 4.0, 30.0, 3600.0]),
    clock=st.booleans(),
)
def test_any_hypnogram_can_be_drawn_and_saved(n_stages, lengths, seconds, clock):
    labels = np.repeat([k for k, _ in lengths], [n for _, n in lengths])
    labels = np.where(labels < n_stages, labels, -1)
    scheme = sg.StageScheme.custom([f"state {k}" for k in range(n_stages)])
    night = scored(labels, scheme, seconds, start=START if clock else None)
    before = dict(matplotlib.rcParams)
    for draw in (sg.plot_hypnogram, sg.plot_bouts):
        figure = Figure()
        draw(night, ax=figure.subplots())
        figure.canvas.draw()
    assert dict(matplotlib.rcParams) == before


def test_axes_that_are_given_leave_pyplot_alone(cohort):
    script = (
        "import sys, stageguard as sg, numpy as np\nfrom matplotlib.figure import Figure\n"
        "n = sg.Hypnogram(np.array([0, 1, 2, 4] * 10), 'aasm5', 30.0)\n"
        "sg.plot_hypnogram(n, ax=Figure().subplots())\nsg.plot_bouts(n, ax=Figure().subplots())\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert ran.stdout == "False\n"


@pytest.mark.parametrize("name", PLOTS)
def test_without_matplotlib_the_extra_is_named(name, monkeypatch, cohort):
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    nights, experts = cohort
    arguments = {"plot_bland_altman": (experts, nights)}.get(name, (nights[0],))
    with pytest.raises(MissingExtraError, match=r"a plot needs 'matplotlib'.*stageguard\[plots\]"):
        getattr(sg, name)(*arguments)


def test_bland_altman_compares_the_epochs_that_the_expert_scored(ax):
    night, expert = scored([2, 2, 2, 0] * 10), scored([-1] * 20 + [2, 2, 0, 0] * 5)
    sg.plot_bland_altman([expert, expert], [night, night], "tst_minutes", ax=ax)
    (points,) = [line for line in ax.get_lines() if "n = " in str(line.get_label())]
    assert list(points.get_ydata()) == [2.5, 2.5]  # 15 against 10 of 20 epochs
