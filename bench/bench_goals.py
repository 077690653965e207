"""What people call, held to its goals: one night under the profile we recommend, and 24 h of a mouse.

Peers and yardsticks run in the same process and take turns with ours.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from _common import HUMAN, MOUSE, Row, night_of, profile_of, race, report

import stageguard as sg
from stageguard.guard.posterior import N_FIXED, posterior_like, sample_like
from stageguard.synthetic.night import simulate_night

N_EPOCHS = 960
N_DRAWS = 200
PROFILE = "human-psg-5"
PEER = "× hmmlearn's decode of the same night"


def hmmlearn_decode(night: np.ndarray, profile: sg.Profile) -> Callable[[], object]:
    """`decode` of a model of hmmlearn, whose states have the night's log-probabilities."""
    from hmmlearn.hmm import CategoricalHMM

    class Given(CategoricalHMM):
        def _compute_log_likelihood(self, X: np.ndarray) -> np.ndarray:
            return np.log(night)

    k = profile.scheme.n_stages
    model = Given(n_components=k)
    model.n_features = model.n_trials = 1
    model.startprob_ = np.full(k, 1.0 / k)
    rows = np.array(profile.transitions)
    model.transmat_ = rows / rows.sum(axis=1, keepdims=True)
    model.emissionprob_ = np.ones((k, 1))
    epochs = np.zeros((len(night), 1), dtype=np.int64)
    return lambda: model.decode(epochs)


def one_night() -> list[Row]:
    """One night that flickers and one that does not, under the profile's rule and at a fixed weight."""
    profile = sg.Profile.load(PROFILE)
    flickering = night_of(N_EPOCHS, 5)
    decoded = sg.decode(flickering, profile)
    assert decoded.strength.step == "lowered"
    calm = 0.1 * flickering + 0.9 * np.eye(5)[decoded.hypnogram.labels]
    assert sg.decode(calm, profile).strength.step == "untouched"
    fixed = profile.replace(transition_weight=0.3, clock=None)
    single = profile.replace(posterior=None)
    cases: dict[str, tuple[Callable[[], object], float]] = {
        "sg.decode, night that flickers": (lambda: sg.decode(flickering, PROFILE), 4.0),
        "sg.decode, night that does not": (lambda: sg.decode(calm, PROFILE), 1.5),
        "sg.decode, fixed weight": (lambda: sg.decode(flickering, fixed), 1.0),
        "posterior at one setting, night that flickers": (lambda: sg.posterior(flickering, single), 4.0),
        "posterior at one setting, night that does not": (lambda: sg.posterior(calm, single), 4.0),
    }
    runners = {name: run for name, (run, _) in cases.items()}
    best = race({**runners, "peer": hmmlearn_decode(flickering, profile)}, rounds=40)
    what = f"one night, T = {N_EPOCHS:,}, {PROFILE}"
    rows = [
        Row(f"{what}: {name}", best[name] / best["peer"], PEER, goal) for name, (_, goal) in cases.items()
    ]
    return [*rows, Row(f"{what}: hmmlearn's decode", 1e6 * best["peer"], "µs")]


def errors_all_night() -> list[Row]:
    """Draws and the posterior of one night, a sum over all paths for every error that the stager may make."""
    night = sg.decode(night_of(N_EPOCHS, 5), PROFILE)
    runners = {
        f"{N_DRAWS} draws, each with its own error": lambda: sample_like(night, n=N_DRAWS),
        f"posterior, mean over {N_FIXED} errors": lambda: posterior_like(night),
    }
    best = race(runners, rounds=20)
    what, goals = f"one night, T = {N_EPOCHS:,}, {PROFILE}", (20.0, None)
    return [
        Row(f"{what}: {name}", 1e3 * seconds, "ms", goal)
        for (name, seconds), goal in zip(best.items(), goals, strict=True)
    ]


def long_recording() -> list[Row]:
    """24 h of a mouse at a fixed weight, from a float64 array to the result, beside np.log of that array."""
    mouse = sg.Profile.load("mouse-eeg-emg-3")
    night = np.array(simulate_night(mouse, hours=24, seed=1).density.probabilities)
    assert len(night) == MOUSE["n_epochs"]
    fixed = mouse.replace(transition_weight=0.3)
    runners = {
        "fixed weight": lambda: sg.decode(night, fixed),
        "band": lambda: sg.decode(night, mouse),
        "log": lambda: np.log(night),
    }
    best = race(runners, rounds=40)
    what, goals = f"24 h, T = {len(night):,}, K = 3", {"fixed weight": 1.3, "band": None}
    return [
        Row(f"{what}: {name}", best[name] / best["log"], "× np.log", goal) for name, goal in goals.items()
    ]


def lists() -> list[Row]:
    """Many nights in one call, beside one by one."""
    nights = [night_of(N_EPOCHS, 5, seed) for seed in range(100)]
    chain = profile_of((1,) * len(HUMAN["minimum"]))
    rows = []
    for name, profile in ((PROFILE, sg.Profile.load(PROFILE)), ("plain chain at a fixed weight", chain)):
        best = race({"list": lambda p=profile: sg.decode(nights, p)}, rounds=5)
        rows.append(Row(f"100 nights as a list, {name}", 1e4 * best["list"], "µs per night"))
    return rows


def one_command() -> list[Row]:
    """Whole processes, beside `import numpy`: a night is read from CSV, decoded, written and printed."""
    with TemporaryDirectory() as folder:
        night = Path(folder, "night.csv")
        sg.simulate_night(PROFILE, hours=8, seed=1).density.save(night)
        stageguard = [sys.executable, "-m", "stageguard.cli"]
        commands = {
            "import numpy": [sys.executable, "-c", "import numpy"],
            "stageguard --help": [*stageguard, "--help"],
            "stageguard decode night.csv": [*stageguard, "decode", str(night), "-p", PROFILE, "--overwrite"],
        }
        rounds = [{name: cpu_seconds(command) for name, command in commands.items()} for _ in range(10)]
    base, *others = commands
    least = {name: min(seconds[name] for seconds in rounds) for name in commands}
    rows = [
        Row(f"{name} / {base}", least[name] / least[base], "x", 3.0 if "decode" in name else None)
        for name in others
    ]
    return [Row(base, least[base], "s of CPU"), *rows]


def cpu_seconds(command: Sequence[str]) -> float:
    """Return the processor time of one process, whose byte code is kept as in any installed package."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


PARTS = {part.__name__: part for part in (one_night, errors_all_night, long_recording, lists, one_command)}


def main(names: list[str]) -> None:
    """Measure the parts that are named, and keep the result where all are."""
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    rows = [row for name in names or PARTS for row in PARTS[name]()]
    report(None if names else "goals", "What people call, held to its goals", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
