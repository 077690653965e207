"""What people call, held to its goals: one night, one long recording, lists of nights, posterior, clock.

Peers and yardsticks run in the same process and take turns with ours; answers are asserted equal first.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
from _common import HUMAN, MOUSE, Row, night_of, profile_of, race, report, structured_kernel
from bench_peers import assert_same_optimum, chain_of, hmmlearn_core
from bench_posterior import smooth_kernel

import stageguard as sg
from stageguard.synthetic.night import simulate_night

N_EPOCHS, MINIMUM = HUMAN["n_epochs"], HUMAN["minimum"]
K = len(MINIMUM)
ONE_NIGHT = f"one night, T = {N_EPOCHS:,}, K = {K}"
OURS = "× our sg.decode"


def one_night() -> list[Row]:
    """One night at a fixed weight beside hmmlearn, a median filter and the kernel alone."""
    from scipy.ndimage import median_filter

    night = night_of(N_EPOCHS, K)
    goals = {"plain chain": 1.5, "minimum bouts": 4.0}
    runners: dict[str, Callable[[], object]] = {"median": lambda: median_filter(night.argmax(axis=1), 5)}
    for name, minimum in zip(goals, ((1,) * K, MINIMUM), strict=True):
        profile = profile_of(minimum)
        chain = chain_of(profile)
        peer = hmmlearn_core(chain, lambda c=chain: c.evidence(night))
        assert_same_optimum(chain, chain.evidence(night), sg.decode(night, profile), {"hmmlearn": peer()})
        runners |= {f"hmmlearn, {name}": peer, f"ours, {name}": lambda p=profile: sg.decode(night, p)}
        runners[f"kernel, {name}"] = structured_kernel(profile, [night])
    best = race(runners, rounds=40)
    rows = []
    for name, goal in goals.items():
        ours, what = best[f"ours, {name}"], f"{ONE_NIGHT}, {name}"
        rows += [
            Row(f"{what}: hmmlearn from the array", best[f"hmmlearn, {name}"] / ours, OURS, goal, "more"),
            Row(f"{what}: scipy's median filter of argmax", best["median"] / ours, OURS, 1.0, "more"),
            Row(f"{what}: sg.decode", ours / best[f"kernel, {name}"], "× our kernel", 3.0),
        ]
    return rows


def long_recording() -> list[Row]:
    """24 h of a mouse, from a float64 array to the result, beside one pass of NumPy over that array."""
    mouse = sg.Profile.load("mouse-eeg-emg-3")
    night = np.array(simulate_night(mouse, hours=24, seed=1).density.probabilities)
    acting = sg.decode(night, mouse)
    assert len(night) == MOUSE["n_epochs"]
    assert acting.strength.step == "lowered"
    bouts = {"W": 8.0, "N": 12.0, "R": 8.0}
    cases = {
        f"band, acting (weight {acting.strength.transition_weight:g})": (mouse, 2.5),
        "kdd2026-mouse-eeg-emg (greedy)": (sg.Profile.load("kdd2026-mouse-eeg-emg"), 2.5),
        "fixed, minimum bouts 2,3,2": (mouse.replace(transition_weight=0.3, min_bout_seconds=bouts), 1.0),
    }
    runners = {name: lambda p=profile: sg.decode(night, p) for name, (profile, _) in cases.items()}
    best = race({**runners, "log": lambda: np.log(night), "argmax": lambda: night.argmax(1)}, rounds=40)
    yardstick = max(best["log"], best["argmax"])
    what, unit = f"24 h, T = {len(night):,}, K = 3", "× max(np.log, argmax)"
    return [Row(f"{what}: {name}", best[name] / yardstick, unit, goal) for name, (_, goal) in cases.items()]


def lists() -> list[Row]:
    """Many nights in one call, the time of all threads together; read-only arrays are not copied."""
    plain, bouts = profile_of((1,) * K), profile_of(MINIMUM)
    chain, unit = chain_of(plain), "× our sg.decode(list), all threads' time"
    nights = list(night_of(1_000 * N_EPOCHS, K).reshape(-1, N_EPOCHS, K))
    peers = [hmmlearn_core(chain, lambda each=night: chain.evidence(each)) for night in nights]
    runners = {"hmmlearn": lambda: [peer() for peer in peers], **decoders(nights, plain)}
    best = race(runners, rounds=5)
    what = "1,000 nights as a list, plain chain: hmmlearn from the arrays"
    rows = [
        Row(what, best["hmmlearn"] / best["copied"], unit, 4.0, "more"),
        Row(f"{what}, which are read-only", best["hmmlearn"] / best["read-only"], unit),
    ]
    stack = night_of(5_800 * N_EPOCHS, K).reshape(-1, N_EPOCHS, K)
    best = race({"sum": stack.sum, **decoders(list(stack), bouts)}, rounds=5)
    what, unit = "5,800 nights as a list, minimum bouts: sg.decode", "× array.sum(), all threads' time"
    return [
        *rows,
        Row(what, best["copied"] / best["sum"], unit, 12.0),
        Row(f"{what} of read-only arrays", best["read-only"] / best["sum"], unit),
    ]


def decoders(nights: list[np.ndarray], profile: sg.Profile) -> dict[str, Callable[[], object]]:
    """Decode nights as they are, which copies them, and as views that nobody can write to."""
    views = [night.view() for night in nights]
    for view in views:
        view.flags.writeable = False
    return {
        "copied": lambda: sg.decode(nights, profile),
        "read-only": lambda: sg.decode(views, profile),
    }


def posterior() -> list[Row]:
    """One night through `sg.posterior`, beside its kernel."""
    night, profile = night_of(N_EPOCHS, K), profile_of(MINIMUM)
    best = race(
        {"kernel": smooth_kernel(profile, night), "ours": lambda: sg.posterior(night, profile)}, rounds=40
    )
    return [Row(f"{ONE_NIGHT}: sg.posterior", best["ours"] / best["kernel"], "× its kernel", 3.0)]


def clock() -> list[Row]:
    """One night with the clock of its profile, beside the same without."""
    timed, rows = sg.Profile.load("human-psg-5"), []
    night = np.array(simulate_night(timed, hours=N_EPOCHS / 120, seed=1).density.probabilities)
    for what, changes in (("fixed weight", {"transition_weight": 0.3}), ("by its rule", {})):
        profiles = {"with": timed.replace(**changes), "without": timed.replace(clock=None, **changes)}
        runners = {name: lambda p=profile: sg.decode(night, p) for name, profile in profiles.items()}
        best = race(runners, rounds=25)
        name = f"one night, T = {len(night):,}, human-psg-5, {what}: with clock"
        rows.append(Row(name, best["with"] / best["without"], "× without", 2.5))
    return rows


PARTS = {part.__name__: part for part in (one_night, long_recording, lists, posterior, clock)}


def main(names: list[str]) -> None:
    """Measure the parts that are named, and keep the result where all are."""
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    rows = [row for name in names or PARTS for row in PARTS[name]()]
    report(None if names else "goals", "What people call, held to its goals", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
