"""A study from its configuration to its results, small enough for a test, and what must stop it."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from messages import naming
from stageguard.errors import FileFormatError, InputError, MissingFileError, OutputError, OutputExistsError
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import WNR3
from stageguard.profile.profile import Profile
from stageguard.runner.pool import Cluster, executor_for
from stageguard.signals.features import Features, Recipe
from stageguard.study import run as runs
from stageguard.study import stagers, store
from stageguard.study.config import CohortSource, Job, Split, jobs_of, read_study, study_of
from stageguard.study.figures import write_report
from stageguard.study.nights import (
    LeakError,
    StudyCohort,
    StudyNight,
    check_leaks,
    cohort_bytes,
    cohort_of,
    make_folds,
    night_of,
    read_cohort,
)
from stageguard.study.run import run_study
from stageguard.study.store import read_results, select
from stageguard.study.variants import counted, learn
from stageguard.synthetic.cohort import simulate_recording
from stageguard.synthetic.night import simulate_night

STUDIES = Path(__file__).parents[2] / "studies"
DOCUMENT = {
    "name": "tiny",
    "title": "Tiny",
    "backbones": ["accusleep"],
    "cohort": {"source": "features", "folder": "none"},
    "guard": {"paper": "kdd2026-cardiorespiratory", "base": "human-cardiorespiratory-3"},
    "split": {"kind": "k-fold", "folds": 2},
    "training": {
        "network": {"small": True},
        "steps": 2,
        "batch_size": 2,
        "sequence_epochs": 16,
        "validation_share": 0.5,
    },
}


def night(subject: str, number: int) -> StudyNight:
    made = simulate_night("human-psg-3", hours=1.5, seed=number)
    features = np.log(made.density.probabilities + 1e-3).astype(np.float32)
    labels = made.expert.labels.astype(np.int64)
    labels[:3] = 0, 1, 2  # every stage occurs
    table = Features(f"{subject}-{number}", subject, features, ("a", "b", "c"), None, labels, WNR3, 30.0)
    scorings = {"first": labels, "second": np.roll(labels, 1)}
    facts = {"sex": "FM"[number % 2], "age": 20.0 + 10 * number}
    return StudyNight(table, np.zeros(len(labels)), facts, scorings)


@pytest.fixture(scope="module")
def cohort() -> StudyCohort:
    return StudyCohort(tuple(night(f"s{k}", k) for k in range(6)), is_synthetic=True)


@pytest.fixture
def study(monkeypatch, cohort):
    monkeypatch.setattr("stageguard.study.run.read_cohort", lambda source: cohort)
    return study_of(DOCUMENT)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, cohort):
    """The folder of a run from beginning to end."""
    folder = tmp_path_factory.mktemp("study") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stageguard.study.run.read_cohort", lambda source: cohort)
        run_study(study_of(DOCUMENT), folder)
    return folder


@pytest.fixture
def copy(tmp_path, whole):
    """A copy of that folder."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))


@pytest.fixture
def done() -> list[str]:
    return []


def numbers(folder: Path) -> list[dict[str, object]]:
    """All rows, without times."""
    rows = store.read_rows(folder)
    return rows.drop_columns([name for name in rows.column_names if name.endswith("_seconds")]).to_pylist()


def trained_nothing(monkeypatch) -> None:
    monkeypatch.setattr(stagers, "train", lambda *a, **k: pytest.fail("a network was trained"))


def test_cohort_reads_back_equal(cohort):
    read = cohort_of(cohort_bytes(cohort), "nights.npz")
    assert read.is_synthetic and read.fingerprint == cohort.fingerprint
    for a, b in zip(cohort.nights, read.nights, strict=True):
        assert (a.recording, a.subject, dict(a.covariates)) == (b.recording, b.subject, dict(b.covariates))
        assert [one.scorer for one in b.panel()] == ["first", "second"]
        for wanted, found in zip([a.expert(), *a.panel()], [b.expert(), *b.panel()], strict=True):
            np.testing.assert_array_equal(wanted.labels, found.labels)


def test_the_scoring_begins_where_the_features_do(cohort):
    night = cohort.nights[0]
    late = replace(night, table=replace(night.table, epochs=night.table.epochs + 945)).expert()
    assert late.offset_seconds == 945 * night.table.epoch_seconds
    np.testing.assert_array_equal(late.labels, night.expert().labels)


def test_a_recording_with_two_scorers_keeps_both_beside_their_consensus():
    made = simulate_recording("eeg-emg", 1, seed=0, hours=0.2).recording
    (scored,) = made.scorings.values()
    other = replace(scored, labels=np.roll(scored.labels, 5))
    two = replace(made, scorings={"first": scored, "second": other})
    night = night_of(two, Recipe.load("accusleep"), WNR3, 4.0)
    for scoring, wanted in zip(night.panel(), (scored, other), strict=True):
        np.testing.assert_array_equal(scoring.labels, wanted.merge(WNR3).labels[: night.table.n_epochs])
    assert night_of(made, Recipe.load("accusleep"), WNR3, 4.0).panel() == []


def test_a_run_that_is_killed_goes_on_to_the_same_numbers(tmp_path, study, whole, done):
    assert not read_results(whole).about["failures"]
    assert {"expert", "argmax", "paper", "calibrated"} <= {row["variant"] for row in numbers(whole)}

    class Killed(BaseException):
        pass

    def kill(n_done, total, key):
        if n_done == 2:
            raise Killed

    with pytest.raises(Killed):
        run_study(study, tmp_path / "killed", report=kill)
    assert read_results(tmp_path / "killed").progress == "2 of 4 jobs"
    run_study(study, tmp_path / "killed", report=lambda *progress: done.append(progress[:2]))
    assert done == [(3, 4), (4, 4)]
    assert numbers(tmp_path / "killed") == numbers(whole)


def test_a_failed_fold_is_named_and_is_tried_again(tmp_path, study, monkeypatch):
    real = stagers._fit_once
    with monkeypatch.context() as patch:
        patch.setattr(stagers, "_fit_once", lambda c, job, t, s: real(c, job, t, s) if job.fold else 1 / 0)
        results = run_study(study, tmp_path / "out")
    assert ["fold00" in text and "ZeroDivision" in text for text in results.about["failures"]] == [True] * 2
    assert results.n_done == 2
    assert not run_study(study, tmp_path / "out").about["failures"]


def test_a_second_run_of_a_folder_is_refused_until_the_first_ends(tmp_path, study, monkeypatch):
    folder, refused = tmp_path / "out", []

    def train_one(config, job, training, shared):
        with pytest.raises(OutputError, match=naming("another", "run is writing")) as caught:
            run_study(study, folder)
        refused.append(caught.value)
        raise ZeroDivisionError

    monkeypatch.setattr(stagers, "_fit_once", train_one)
    for _ in range(2):
        assert len(run_study(study, folder).about["failures"]) == 4
    assert len(refused) == 8
    assert not (folder / "lock").exists()


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"seed": 7}, "seed differs"), ({"training": {**DOCUMENT["training"], "steps": 3}}, "training differs")],
)
def test_another_configuration_does_not_share_a_folder(study, whole, changes, word):
    with pytest.raises(OutputExistsError, match=word):
        run_study(replace(study, **changes), whole)


def test_another_guard_is_measured_on_the_stored_predictions(monkeypatch, study, whole, copy):
    before = {path.name: path.read_bytes() for path in (copy / "predictions").iterdir()}
    trained_nothing(monkeypatch)
    other = replace(study, robustness=replace(study.robustness, minimum_scales=(2.0,)))
    assert not run_study(other, copy).about["failures"]
    assert {path.name: path.read_bytes() for path in (copy / "predictions").iterdir()} == before
    new, old = ({(row["change"], row["value"]) for row in numbers(each)} for each in (copy, whole))
    assert new - old == {("minimum x", 2.0)}
    run_study(study, copy)
    assert numbers(copy) == numbers(whole)


def test_overwriting_begins_a_study_anew_but_refuses_before_it_removes(study, whole, copy):
    write_report(read_results(copy))
    run_study(study, copy, overwrite=True)
    assert numbers(copy) == numbers(whole)
    (copy / "notes.txt").write_text("mine")
    there = sorted(copy.rglob("*"))
    with pytest.raises(OutputExistsError, match=r"notes\.txt"):
        run_study(study, copy, overwrite=True)
    assert sorted(copy.rglob("*")) == there


def test_a_damaged_prediction_is_made_again(study, whole, copy):
    prediction = min((copy / "predictions").iterdir())
    prediction.write_bytes(prediction.read_bytes()[:200])
    assert not run_study(study, copy, guard_again=True).about["failures"]
    assert numbers(copy) == numbers(whole)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("results.json", lambda text: text[:300]),
        ("results.json", lambda text: text.replace(b'"n_jobs"', b'"jobs"')),
        ("results.json", lambda text: text.replace(b'"title"', b'"titel"')),
        ("results.parquet", lambda data: data[:300]),
        ("nights.npz", lambda data: data[:5000]),
    ],
)
def test_a_damaged_file_of_a_study_is_named_in_one_line(study, copy, name, change):
    (copy / name).write_bytes(change((copy / name).read_bytes()))
    with pytest.raises(FileFormatError, match=naming(name)) as caught:
        run_study(study, copy)
    assert "\n" not in str(caught.value)


def test_results_without_epochs_have_all_tables_and_others_say_what_is_missing(tmp_path, whole):
    for name in ("results.json", "results.parquet"):
        shutil.copy(whole / name, tmp_path / name)
    assert all(path.is_file() for path in write_report(read_results(tmp_path)))
    with pytest.raises(MissingFileError, match="Epochs lie where the study was run"):
        read_results(tmp_path).stages("accusleep")
    (tmp_path / "results.json").unlink()
    with pytest.raises(MissingFileError, match=r"results\.json"):
        read_results(tmp_path)


def test_matrix_and_calibration_see_training_subjects_only(cohort, study):
    fold = make_folds(cohort.subjects, study.split, 42)[0]
    training = fold.sides(cohort.nights)[0]
    learned = learn(study, training)
    assert set(learned.subjects) == set(fold.training)
    pairs = np.zeros((3, 3))
    for one in training:
        np.add.at(pairs, (one.table.labels[:-1], one.table.labels[1:]), 1)
    np.testing.assert_allclose(learned.paper.transitions, pairs / pairs.sum(axis=1, keepdims=True), atol=1e-9)
    published = Profile.load("kdd2026-cardiorespiratory")
    assert learned.paper.rare == published.rare
    assert learned.paper.min_bout_seconds == published.min_bout_seconds


def test_the_matrix_is_the_share_of_pairs_and_nothing_else_changes():
    base, rng = Profile.load("kdd2026-mouse-eeg-emg"), np.random.default_rng(1)
    nights = [np.repeat(rng.integers(0, 3, 200), rng.integers(1, 6, 200)).astype(np.int8) for _ in range(2)]
    nights[0][[5, 60, 61]] = -1
    n = np.zeros((3, 3))
    for labels in nights:
        for a, b in pairwise(labels.tolist()):
            if a >= 0 and b >= 0:
                n[a, b] += 1
    made = counted([Hypnogram(labels, WNR3, 4.0) for labels in nights], base)
    np.testing.assert_allclose(made.transitions, n / n.sum(axis=1, keepdims=True), rtol=1e-12)
    changed = {key for key, value in made.to_dict().items() if base.to_dict().get(key) != value}
    assert changed == {"name", "transitions", "provenance"}
    without_rem = counted([Hypnogram(np.tile([0, 0, 1, 1], 40), WNR3, 4.0)], base)
    assert without_rem.transitions[2] == base.transitions[2]


def test_leaks_are_found(cohort):
    fold = make_folds(cohort.subjects, Split(), 42)[0]
    training, test = fold.sides(cohort.nights)
    check_leaks(fold, training, test, {"calibration": fold.training})
    with pytest.raises(LeakError, match=naming("'s0'", "tested")):
        check_leaks(fold, [*training, *test], test, {})
    copied = replace(test[0].table, recording="other", subject="s9")
    with pytest.raises(LeakError, match="'s0-0' is training recording 'other' under another name"):
        check_leaks(fold, [*training, StudyNight(copied)], test, {})
    with pytest.raises(LeakError, match=naming("learned", "'s0'")):
        check_leaks(fold, training, test, {"calibration": fold.test})


def test_a_leak_ends_the_run(tmp_path, monkeypatch, study, cohort):
    """A copy under another name, or a calibration that saw a test subject, is not one failed fold of many."""
    copied = replace(cohort.nights[0].table, recording="other", subject="s9")
    leaky = replace(cohort, nights=(*cohort.nights, replace(cohort.nights[0], table=copied)))
    with monkeypatch.context() as patch:
        patch.setattr("stageguard.study.run.read_cohort", lambda source: leaky)
        with pytest.raises(LeakError, match="under another name"):
            run_study(replace(study, split=Split(folds=2)), tmp_path / "copy")
    real = runs.learn
    monkeypatch.setattr(runs, "learn", lambda c, t: replace(real(c, t), calibrated_on=("s0", "s1")))
    with pytest.raises(LeakError, match=naming("learned", "'s0'")):
        run_study(replace(study, split=Split(folds=2)), tmp_path / "calibration")


@pytest.mark.parametrize("best", [0.1, 2.0])
def test_one_held_out_subject_chooses_lambda(tmp_path, monkeypatch, study, best):
    """Networks of one lambda stage well, the others guess: the subject who tunes tells them apart."""
    trained: list[str] = []

    def network(config, job, training, shared):
        trained.extend(night.subject for night in training)
        rng = np.random.default_rng(0)

        def density(table):
            truth = StudyNight(table).expert()
            labels = truth.labels if job.penalty_weight == best else rng.integers(0, 3, truth.n_epochs)
            rows = np.full((truth.n_epochs, 3), 0.02) + 0.94 * np.eye(3)[labels]
            return Hypnodensity(rows, WNR3, 30.0, offset_seconds=truth.offset_seconds)

        return stagers.Stager(density, training[:2])

    monkeypatch.setattr(stagers, "PENALTY_WEIGHTS", (0.1, 2.0))
    monkeypatch.setattr(stagers, "FLIP_FLOP_NATS", (2.0,))
    monkeypatch.setattr(stagers, "_fit_once", network)
    tuned = replace(study, split=Split("k-fold", 2, tuning_subject="s2"))
    results = run_study(tuned, tmp_path / "out")
    assert set(select(results.rows, loss="penalty")["chosen_weight"].to_pylist()) == {best}
    assert set(select(results.rows, loss="base")["chosen_weight"].to_pylist()) == {None}
    assert "s2" not in {*trained, *results.rows["subject"].to_pylist()}
    run_study(tuned, tmp_path / "out", report=lambda *_: pytest.fail("a job was done again"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_loses_a_worker_gives_the_same_numbers(tmp_path, study, whole):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    killed: list[int] = []
    with (
        distributed.LocalCluster(**options, host="127.0.0.1") as cluster,
        executor_for(Cluster(cluster.scheduler_address)) as executor,
    ):

        def kill_one(*progress):
            if not killed:
                killed.append(next(iter(executor._client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        results = run_study(study, tmp_path / "there", executor=executor, report=kill_one)
    assert killed and not results.about["failures"]
    assert numbers(tmp_path / "there") == numbers(whole)


@pytest.mark.parametrize("split", [Split(), Split("k-fold", 4), Split(tuning_subject="s2")])
def test_everybody_is_tested_once_and_never_trained_on_then(split):
    subjects = [f"s{k}" for k in range(9)]
    folds = make_folds(subjects, split, 42)
    tested = [name for fold in folds for name in fold.test]
    assert sorted(tested) == [name for name in subjects if name != split.tuning_subject]
    for fold in folds:
        assert not set(fold.training) & set(fold.test)
        assert split.tuning_subject not in (*fold.training, *fold.test)


def test_jobs_are_each_there_once_and_penalties_only_where_there_are_rare_pairs():
    study = study_of(DOCUMENT | {"robustness": {"penalty_weights": [0.5, 2.0], "seeds": [43]}})
    jobs = jobs_of(study, 1)
    assert len(jobs) == len(set(jobs)) == 5
    assert Job("accusleep", "penalty", 2.0, False, 42, 0.0, 0) in jobs
    two = {"scheme": "ws2", **DOCUMENT["cohort"]}
    guard = {"paper": "kdd2026-actigraphy", "base": "human-actigraphy-2"}
    without = {**DOCUMENT["guard"], "penalty_weight": 0.0}
    for changes in ({"cohort": two, "guard": guard}, {"guard": without}):
        assert {job.loss for job in jobs_of(study_of(DOCUMENT | changes), 2)} == {"base"}
    tuned = study_of(DOCUMENT | {"split": {"kind": "k-fold", "folds": 2, "tuning_subject": "s2"}})
    keys = [job.key for job in jobs_of(tuned, 1)]
    assert keys == ["accusleep-base-seed42-fold00", "accusleep-penalty-chosen-seed42-fold00"]


@pytest.mark.skipif("STAGEGUARD_DATA" not in os.environ, reason="needs STAGEGUARD_DATA")
@pytest.mark.parametrize(
    ("source", "scheme", "n_nights", "n_subjects"),
    [("sleep-edf", "aasm5", 50, 26), ("dod-h", "aasm5", 25, 25), ("sleep-accel", "wnr3", 31, 31)],
)
def test_public_cohorts_are_read_in_the_scheme(source, scheme, n_nights, n_subjects):
    found = read_cohort(CohortSource(source=source, scheme=scheme))
    assert (len(found.nights), len(found.subjects)) == (n_nights, n_subjects)
    stages = np.concatenate([night.table.labels for night in found.nights])
    assert set(np.unique(stages)) - {-1} == set(range({"aasm5": 5, "wnr3": 3}[scheme]))


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_studies_can_be_read(path):
    assert read_study(path).name == path.stem
    smaller, whole = (len(jobs_of(read_study(path, smoke=smoke), 2)) for smoke in (True, False))
    assert smaller < whole
    assert read_study(path, smoke=True).smoke and not read_study(path).smoke


X = {"group": "sex", "first": "F", "second": "X", "statistic": "tst"}
MOUSE = {"paper": "kdd2026-mouse-eeg-emg", "base": "mouse-eeg-emg-3"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backbones": ["usleeep"]}, ("usleeep",)),
        ({"split": {"kind": "k-fold"}}, ("no folds",)),
        ({"split": {"kind": "k-fold", "folds": 9}}, ("Use fewer folds",)),
        ({"cohort": {"source": "simulated"}}, ("needs modality",)),
        ({"guard": {"paper": "kdd2026-actigraphy", "base": "human-actigraphy-2"}}, ("cohort's scheme",)),
        ({"guard": MOUSE}, ("guard.paper", "'kdd2026-mouse-eeg-emg'", "epochs of 4 s")),
        ({"training": {"stepz": 3}}, ("stepz",)),
        ({"nonsense": 1}, ("nonsense",)),
        ({"robustness": {"subgroups": ["sexe"]}}, ("'sexe'", "sex")),
        ({"robustness": {"contrasts": [X]}}, ("'sex'", "'X'", "F, M")),
        ({"robustness": {"bins": {"age": ["20-30", "30-90", "90+"]}}}, ("'age'", "'90+'")),
        ({"robustness": {"bins": {"age": ["old"]}}}, ("bin 'old'",)),
    ],
)
def test_what_cannot_be_run_is_one_line_before_training_and_leaves_no_folder(
    tmp_path, monkeypatch, study, change, words
):
    trained_nothing(monkeypatch)
    with pytest.raises(InputError, match=naming(*words)):
        run_study(study_of(DOCUMENT | change), tmp_path / "out")
    assert not (tmp_path / "out").exists()
