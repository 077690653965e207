"""Simulated polysomnograms staged by YASA: fragmentation and REM latency under three rules.

    STAGEGUARD_CACHE=... python simulated.py    needs stageguard[yasa]; 20 s a night; writes simulated.json

Recordings are made and staged by the commands `simulate` and `stage`; what YASA gave is kept in the cache.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from candidates import BEFORE, CANDIDATES, rounded, write_lines
from choose import SHIPPED
from judging import fragmentation
from stagers import CACHE

import stageguard as sg

SEEDS, N_SUBJECTS = (0, 1, 2), 10
FOLDER = CACHE / "simulated-yasa"
HERE = Path(__file__).parent


def stage(seed: int) -> Path:
    """Simulate and stage nights, unless they are in the cache."""
    folder = FOLDER / f"seed-{seed}"
    if not (folder / "staged" / "cohort.tsv").exists():
        command = [sys.executable, "-m", "stageguard"]
        made = ["simulate", "-m", "polysomnography", "-n", f"{N_SUBJECTS}", "--seed", f"{seed}"]
        subprocess.run([*command, *made, "-o", folder / "recorded"], check=True)
        recordings = folder / "recorded" / "polysomnography" / "edfs" / "shhs1"
        staged = ["--stager", "yasa", "--no-report", "-o", folder / "staged"]
        subprocess.run([*command, "stage", recordings, *staged], check=True)
    return folder


def nights(seed: int):
    """Yield the name, YASA's probabilities and the true stages of each night."""
    folder = stage(seed)
    truths = folder / "recorded" / "polysomnography" / "annotations-events-nsrr" / "shhs1"
    for path in sorted((folder / "staged").glob("*.hypnodensity.csv")):
        name = path.name.partition(".")[0]
        yield f"seed {seed}, {name}", sg.read_density(path), sg.read_hypnogram(truths / f"{name}-nsrr.xml")


def facts(stages: sg.Hypnogram) -> dict[str, float]:
    """Return what is compared with the truth."""
    latency = sg.sleep_statistics(stages).rem_latency_minutes
    return {"fi": fragmentation(stages.labels), "rem_latency": latency}


def main() -> None:
    shipped = sg.Profile.load("human-psg-5")
    rules = {"argmax": "off", "before": BEFORE, SHIPPED: CANDIDATES[SHIPPED]}
    found = {}
    for name, density, truth in (night for seed in SEEDS for night in nights(seed)):
        by_rule = {}
        for words, values in rules.items():
            strength = (
                None
                if values == "off"
                else {"rule": "target", "fi_target": shipped.strength.fi_target, **values}
            )
            profile = shipped if strength is None else shipped.replace(strength=strength)
            result = sg.decode(density, profile, strength=values if values == "off" else None)
            by_rule[words] = facts(result.hypnogram) | {"kappa": sg.agreement(truth, result).kappa}
        found[name] = {"truth": facts(truth), "rules": by_rule}
        print(name, flush=True)
    write_lines(HERE / "simulated.json", rounded(found))


if __name__ == "__main__":
    main()
