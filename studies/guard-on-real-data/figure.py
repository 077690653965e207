"""Draw the study: what each method does to kappa and to the errors of what studies report, task by task.

python figure.py     writes docs/real-nights.svg
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from kept import read
from layout import error_ratio, figures, has_method, is_added, of_group, paired

HERE = Path(__file__).parent
COLOURS = {
    "paper": "#b5443c",
    "band": "#9aa0a6",
    "clock + target": "#c08a3e",
    "clock + tune": "#3b78b5",
    "fit": "#1d7a4d",
}
WIDTH, ROW, LEFT, GAP = 1080, 21, 330, 60
PANEL = (WIDTH - LEFT - GAP - 30) / 2


def main() -> None:
    every = read(HERE / "results.json")
    held = {name: task for name, task in every.items() if not is_added(task)}
    names = [name for group in ("good", "neither", "flickering") for name in of_group(held, group)]
    shown = {n: [m for m in COLOURS if has_method(held[n], m)] for n in names}
    gains = {n: {m: float(paired(held[n], m, "kappa").mean()) for m in shown[n]} for n in names}
    ratios = {n: {m: error_ratio(held[n], m) for m in shown[n]} for n in names}
    top = 92
    height = top + ROW * len(names) + 64
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="16" y="24" font-size="15" font-weight="bold">Against argmax, the black line</text>',
        *_legend(),
    ]
    for i, name in enumerate(names):
        y = top + ROW * (i + 0.5)
        if i % 2 == 0:
            parts.append(
                f'<rect x="8" y="{y - ROW / 2}" width="{WIDTH - 16}" height="{ROW}" fill="#f5f6f7"/>'
            )
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
    bottom = top + ROW * len(names)
    parts += _panel(
        LEFT, top, bottom, gains, names, (-0.06, 0.08), 0.02, 0.0, "change of κ: right is better", "{:+.2f}"
    )
    right = LEFT + PANEL + GAP
    title = "errors of what studies report: left is better"
    parts += _panel(right, top, bottom, ratios, names, (0.5, 1.5), 0.25, 1.0, title, "{:.2f}")
    parts += [f'<text x="16" y="{bottom + 52}" fill="#444">{escape(_caption(held))}</text>', "</svg>"]
    (HERE.parents[1] / "docs" / "real-nights.svg").write_text("\n".join(parts) + "\n")


def _legend() -> list[str]:
    parts, x = [], 16.0
    for name in COLOURS:
        parts.append(f'<circle cx="{x + 5}" cy="46" r="5" fill="{COLOURS[name]}"/>')
        parts.append(f'<text x="{x + 15}" y="50">{name}</text>')
        x += 38 + 7.0 * len(name)
    return parts


def _panel(left, top, bottom, values, names, limits, tick, middle, title, form) -> list[str]:
    """One dot per method and task; values beyond the limits sit on the edge, hollow."""
    low, high = limits

    def place(value: float) -> float:
        return left + PANEL * (min(max(value, low), high) - low) / (high - low)

    parts = [f'<text x="{left + PANEL / 2}" y="{top - 24}" text-anchor="middle">{escape(title)}</text>']
    for k in range(round((high - low) / tick) + 1):
        at = low + k * tick
        x, line = place(at), "#333" if abs(at - middle) < 1e-9 else "#dddddd"
        parts.append(f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" stroke="{line}"/>')
        parts.append(
            f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" fill="#555">{form.format(at)}</text>'
        )
    for i, name in enumerate(names):
        y = top + ROW * (i + 0.5)
        for method, value in values[name].items():
            colour = COLOURS[method]
            fill = colour if low <= value <= high else "#ffffff"
            parts.append(
                f'<circle cx="{place(value):.1f}" cy="{y}" r="4.5" fill="{fill}" stroke="{colour}" '
                f'fill-opacity="0.85"><title>{escape(f"{name}, {method}: {value:.3f}")}</title></circle>'
            )
    return parts


def _caption(held: dict) -> str:
    parts = []
    for group in ("good", "flickering"):
        one = figures(of_group(held, group), "clock + tune")
        parts.append(f"{group} stagers ({one['tasks']} tasks): errors {one['ratio']:.2f} of argmax's")
    return "clock + tune, which needs no scored night: " + "; ".join(parts) + ". Hollow: beyond the edge."


if __name__ == "__main__":
    main()
