"""The words in the folder of a simulated cohort. Writes no files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FILES = {
    ("eeg-emg", "mat"): """MouseNN_synthetic/Day1_light_cycle/
    EEG.mat, EMG.mat    512 Hz, in uV, as in AccuSleep
    labels.mat          one code per 2.5 s: 1 REM, 2 Wake, 3 NREM""",
    ("eeg-emg", "parquet"): """MouseNN_synthetic/Day1_light_cycle/
    recording.parquet   columns eeg and emg, 512 Hz, in uV, as in AccuSleePy
    labels.csv          brain_state per 2.5 s: 1 REM, 2 Wake, 3 NREM""",
    ("eeg-emg", "csv"): """MouseNN_synthetic/Day1_light_cycle/
    recording.csv       columns eeg and emg, 512 Hz, in uV, as in AccuSleePy
    labels.csv          brain_state per 2.5 s: 1 REM, 2 Wake, 3 NREM""",
    (
        "actigraphy",
        "txt",
    ): """motion/syntheticNNN_acceleration.txt      seconds, x, y, z in g, as in Sleep-Accel
heart_rate/syntheticNNN_heartrate.txt     seconds, beats per minute
steps/syntheticNNN_steps.txt              seconds, steps in the days before
labels/syntheticNNN_labeled_sleep.txt     seconds, stage: 0 W, 1 N1, 2 N2, 3 N3, 5 REM""",
    (
        "cardiorespiratory",
        "edf",
    ): """polysomnography/edfs/shhs1/shhs1-900NNN.edf     SaO2, H.R., ECG, belts, airflow, as in SHHS
polysomnography/annotations-events-nsrr/shhs1/shhs1-900NNN-nsrr.xml     stages and apnoeas
datasets/shhs1-dataset-0.0.0-synthetic.csv      age, sex, BMI, AHI""",
    ("bioradar", "npz"): """synthetic-NNN.npz    radar_i, radar_q at 50 Hz; stages per 30 s
recordings.toml      subjects, starts and covariates""",
    ("bioradar", "edf"): """sbj9NN.edf, sbj9NN.edf.atr    I/Q pair 1 (S1, S2) and stages, as in SLEEPBRL
subjects-synthetic.csv        age, sex, BMI, AHI""",
}


def readme(plan: Mapping[str, Any]) -> str:
    """Return the text for README.txt."""
    count, hours, seed, modality = (plan[key] for key in ("n_subjects", "hours", "seed", "modality"))
    who = "mice" if modality == "eeg-emg" else "people"
    variant = "" if plan["variant"] == "adult" else f", variant {plan['variant']}"
    unit = " --dataset-option unit=uV" if plan["dataset"] == "accusleep" else ""
    options = f"--modality {modality} --subjects {count} --hours {hours:g} --seed {seed}{_rest(plan)}"
    return f"""SYNTHETIC DATA. Nobody slept here: {plan["made_by"]} made up every number in this folder.
It is for trying out software. It is no evidence about real {who}, and must not be published as data.

{count} {who}, {hours:g} h each, {modality}, seed {seed}{variant}. Made again, to the byte, by:
  stageguard simulate {options} -o FOLDER

{FILES[modality, plan["layout"]]}
synthetic-subjects.tsv    covariates of each subject, and the true sleep statistics
synthetic-events.tsv      where artefacts, losses of a sensor and apnoeas are
synthetic.json            marks the folder: every reader of stageguard calls what is in it synthetic

Read it:  stageguard features FOLDER --dataset {plan["dataset"]}{unit} --recipe NAME -o TABLES
"""


def _rest(plan: Mapping[str, Any]) -> str:
    variant = "" if plan["variant"] == "adult" else f" --variant {plan['variant']}"
    layouts = {"eeg-emg": "mat", "bioradar": "npz"}
    usual = layouts.get(plan["modality"], plan["layout"])
    return variant + ("" if plan["layout"] == usual else f" --layout {plan['layout']}")
