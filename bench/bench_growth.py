"""How time grows with the length of a night, the stages and the number of nights, as a table and a plot."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from _common import RESULTS, Row, night_of, path_kernel, profile_of, race, report

import stageguard as sg

LENGTHS = tuple(1_000 * 4**i for i in range(6))
STAGES = tuple(range(2, 6))  # more are decoded over an automaton
NIGHTS = tuple(8 * 4**i for i in range(5))
# Loose on purpose: quadratic growth must not pass, and a busy machine must not fail.
STEEPEST = 1.25

Curve = dict[int, float]  # size -> seconds


def over_lengths() -> dict[str, Curve]:
    profile = profile_of((2, 3, 2))
    nights = {n: night_of(n, 3) for n in LENGTHS}
    return _curves(
        {
            "kernel": {n: path_kernel(profile, [night]) for n, night in nights.items()},
            "sg.decode": {n: lambda p=night: sg.decode(p, profile) for n, night in nights.items()},
        }
    )


def over_stages(n_epochs: int = 20_000) -> dict[str, Curve]:
    profiles = {k: profile_of((2,) * k) for k in STAGES}
    nights = {k: night_of(n_epochs, k) for k in STAGES}
    return _curves(
        {
            "kernel": {k: path_kernel(profiles[k], [nights[k]]) for k in STAGES},
            "sg.decode": {k: lambda k=k: sg.decode(nights[k], profiles[k]) for k in STAGES},
        }
    )


def over_nights(n_epochs: int = 1_000) -> dict[str, Curve]:
    profile = profile_of((2, 2, 3, 3, 2))
    stack = night_of(max(NIGHTS) * n_epochs, 5).reshape(-1, n_epochs, 5)
    return _curves(
        {
            "kernel": {n: path_kernel(profile, stack[:n]) for n in NIGHTS},
            "sg.decode": {n: lambda n=n: sg.decode(list(stack[:n]), profile) for n in NIGHTS},
        }
    )


def _curves(runners: Mapping[str, Mapping[int, Callable[[], object]]]) -> dict[str, Curve]:
    flat = {(what, size): run for what, sized in runners.items() for size, run in sized.items()}
    best = race(flat, rounds=12)
    return {what: {size: best[what, size] for size in sized} for what, sized in runners.items()}


def power_of(curve: Curve) -> float:
    """Return b of time = a · size**b, fitted in logarithms.

    Where sizes span orders of magnitude the larger half counts: what a call costs by itself is past there.
    """
    sizes = sorted(curve)
    if sizes[-1] > 100 * sizes[0]:
        sizes = sizes[len(sizes) // 2 :]
    return float(np.polyfit(np.log(sizes), np.log([curve[size] for size in sizes]), 1)[0])


def plot(panels: Sequence[tuple[str, dict[str, Curve]]]) -> str:
    """Draw one log-log panel per quantity as SVG; the grey line is exactly linear."""
    body = "".join(_panel(60 + 300 * i, title, curves) for i, (title, curves) in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {300 * len(panels) + 30} 300" '
        'font-family="system-ui, sans-serif" font-size="12">'
        "<title>Decoding time against size</title>"
        f'<rect width="100%" height="100%" fill="#fff"/>{body}</svg>\n'
    )


COLOURS = {"kernel": "#0072b2", "sg.decode": "#d55e00"}
LEFT, TOP, WIDTH, HEIGHT = 0, 40, 220, 200


def _panel(x0: float, title: str, curves: dict[str, Curve]) -> str:
    sizes = sorted(next(iter(curves.values())))
    times = [seconds for curve in curves.values() for seconds in curve.values()]
    low, high = np.floor(np.log10(min(times))), np.ceil(np.log10(max(times)))

    def at(size: float, seconds: float) -> str:
        x = x0 + WIDTH * np.log(size / sizes[0]) / np.log(sizes[-1] / sizes[0])
        y = TOP + HEIGHT * (high - np.log10(seconds)) / (high - low)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<text x="{x0}" y="24" font-weight="600">{title}</text>',
        f'<rect x="{x0}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
    ]
    for power in range(int(low), int(high) + 1):
        y = TOP + HEIGHT * (high - power) / (high - low)
        parts.append(f'<line x1="{x0 - 4}" x2="{x0}" y1="{y:.1f}" y2="{y:.1f}" stroke="#999"/>')
        parts.append(f'<text x="{x0 - 7}" y="{y + 4:.1f}" text-anchor="end">{_seconds(power)}</text>')
    for size in (sizes[0], sizes[len(sizes) // 2], sizes[-1]):
        x = at(size, 10**low).split(",")[0]
        parts.append(f'<text x="{x}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{size:,}</text>')
    for row, (name, curve) in enumerate(curves.items()):
        anchor = curve[sizes[-1]] / sizes[-1]
        begin = max(sizes[0], 10**low / anchor)
        line = f"{at(begin, anchor * begin)} {at(sizes[-1], anchor * sizes[-1])}"
        parts.append(f'<polyline points="{line}" fill="none" stroke="#bbb" stroke-dasharray="4 3"/>')
        points = " ".join(at(size, seconds) for size, seconds in curve.items())
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        label = f"{name}: size to the {power_of(curve):.2f}"
        y = TOP + HEIGHT + 36 + 15 * row
        parts.append(f'<text x="{x0}" y="{y}" fill="{COLOURS[name]}">{label}</text>')
    return "".join(parts)


def _seconds(power: int) -> str:
    unit, base = {0: ("s", 0), 1: ("ms", -3), 2: ("µs", -6), 3: ("ns", -9)}[-(power // 3)]
    return f"{10 ** (power - base)} {unit}"


def main() -> None:
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    panels = [
        ("epochs in a night (K = 3)", over_lengths()),
        ("stages (20,000 epochs)", over_stages()),
        ("nights (1,000 epochs, K = 5)", over_nights()),
    ]
    rows = [
        Row(f"{what}, growth with {title}", power_of(curve), "power of the size", STEEPEST)
        for title, curves in panels
        for what, curve in curves.items()
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "growth.svg").write_text(plot(panels), "utf-8")
    report("growth", "Growth of decoding time", rows, seconds=dict(panels))
    steep = [row.what for row in rows if row.value > 1.6]
    assert not steep, f"grows faster than it should: {steep}"


if __name__ == "__main__":
    main()
