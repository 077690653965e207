"""The figure of a study, and files of all its tables."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.files import write_together
from stageguard.lazy import library
from stageguard.report.table import Table
from stageguard.study.store import ARGMAX, EXPERT, FIGURES, PAPER, TABLES_FOLDER, Results, means
from stageguard.study.tables import TABLES, TITLES
from stageguard.study.variants import LONGEST_BOUT

FORMATS = ("md", "tex", "csv")  # of tables
# Okabe and Ito's palette, for red-green blind readers and for printing in grey.
COLOURS = {EXPERT: "#000000", ARGMAX: "#E69F00", PAPER: "#0072B2"}
WIDEST = 24  # total letters of the stages' names; beyond, names are vertical
DARK = 0.3  # share above which a number is white on its dark colour
MARKS = {EXPERT: "o-", ARGMAX: "s--", PAPER: "^-."}


def effect_figure(results: Results) -> Any:
    """Draw the lengths of bouts, percentages of transitions before and after, and reductions by network."""
    library("matplotlib", "figures of a study", "study")
    from matplotlib.figure import Figure

    name = results.backbones[0]
    figure = Figure(figsize=(12.5, 3.6), layout="constrained", dpi=150)
    bouts, before, after, reductions = figure.subplots(1, 4, width_ratios=(1.2, 1, 1, 1.4))
    synthetic = " (SYNTHETIC)" * bool(results.about["synthetic"])
    figure.suptitle(f"{results.config.title}, {name}{synthetic}", fontsize=10)
    _bouts(bouts, {variant: _counts(results, name, variant, "bouts") for variant in COLOURS})
    for ax, variant in ((before, ARGMAX), (after, PAPER)):
        _transitions(ax, results, _counts(results, name, variant, "pairs"))
        ax.set_title(f"(b) transitions, {TITLES[variant]}", fontsize=9)
    _reductions(reductions, results)
    for ax in (bouts, reductions):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _counts(results: Results, name: str, variant: str, column: str) -> Floats:
    """Return counts of nights, added up."""
    rows = results.of(name, variant)
    counts = rows[column].drop_null().to_pylist() if column in rows.column_names else []
    if not counts:
        raise InputError(f"{results.folder}: the results have no {column} to draw. Run the study again.")
    return np.asarray(np.sum(counts, axis=0))


def _bouts(ax: Any, counts: Mapping[str, Floats]) -> None:
    lengths = np.arange(1, LONGEST_BOUT + 1)
    for variant, found in counts.items():  # the last count is of longer bouts
        style = {"color": COLOURS[variant], "label": TITLES[variant], "ms": 4}
        ax.plot(lengths, found[:-1] / found.sum(), MARKS[variant], **style)
    ax.set_title("(a) bout lengths", fontsize=9)
    ax.set(xlabel="bout length (epochs)", ylabel="proportion of bouts", ylim=(0, None))
    ax.set_xticks(lengths)
    ax.legend(fontsize=7, frameon=False)


def _transitions(ax: Any, results: Results, pairs: Floats) -> None:
    """Draw the shares of transitions by their first stage, with a frame around rare ones."""
    from matplotlib.patches import Rectangle

    stages = results.about["stages"]
    counts = pairs.reshape(len(stages), len(stages))
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0)
    ax.imshow(np.sqrt(np.nan_to_num(shares)), cmap="Blues", vmin=0, vmax=1)  # the root shows small ones
    for (row, column), value in np.ndenumerate(shares):
        text = "–" if np.isnan(value) else f"{value:.3f}".lstrip("0") if value < 1 else "1"
        colour = "white" if value > DARK else "black"
        ax.text(column, row, text or "0", ha="center", va="center", fontsize="small", color=colour)
    is_long = max(map(len, stages)) * len(stages) > WIDEST
    ax.set_xticks(range(len(stages)), stages, rotation=90 if is_long else 0)
    ax.set_yticks(range(len(stages)), stages)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.images[0].set_clip_on(False)  # whose box differs in the last digits, and with it the bytes of an SVG
    for source, target in results.about["rare"]:
        corner = stages.index(target) - 0.5, stages.index(source) - 0.5
        ax.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=COLOURS[ARGMAX], lw=2, clip_on=False))
    ax.set_xlabel("from row to column; framed: rare", fontsize=7)


def _reductions(ax: Any, results: Results) -> None:
    """Draw how far the published method lowers TVR and FI, by network."""
    series = {"tvr_percent": ("TVR (percentage points)", 1.0), "fi": ("FI × 10", 10.0)}
    for number, (metric, (title, factor)) in enumerate(series.items()):
        bars = {}
        for place, name in enumerate(results.backbones):
            before, after = (list(means(results.of(name, v), metric).values()) for v in (ARGMAX, PAPER))
            if before and after:
                bars[place + 0.36 * (number - 0.5)] = factor * float(np.mean(before) - np.mean(after))
        if bars:
            ax.bar(bars.keys(), bars.values(), 0.34, color=COLOURS[(ARGMAX, PAPER)[number]], label=title)
    ax.axhline(0, color="black", lw=0.6)
    ax.set_xticks(range(len(results.backbones)), results.backbones, rotation=35, ha="right", fontsize=7)
    ax.set_title("(c) reduction by network", fontsize=9)
    ax.set(ylabel="argmax less published method")
    ax.legend(fontsize=7, frameon=False)


def image(figure: Any, form: str) -> bytes:
    """Return a figure as png, pdf or svg; the bytes are the same every time."""
    buffer = io.BytesIO()
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    matplotlib = library("matplotlib", "figures of a study", "study")
    with matplotlib.rc_context({"svg.hashsalt": "stageguard"}):  # otherwise ids inside an SVG are random
        figure.savefig(buffer, format=form, metadata=metadata[form])
    return buffer.getvalue()


def check_results(results: Results) -> None:
    """Refuse a study without results of the main comparison."""
    if not results.backbones:
        errors = " ".join(results.about["failures"][:1])
        raise InputError(f"{results.folder}: no job of the main comparison is done. {errors}")


def write_tables(tables: Mapping[str, Table], folder: Path, forms: Iterable[str] = FORMATS) -> list[Path]:
    """Write tables in several formats; return their files."""
    files = {folder / f"{name}.{form}": table.text(form) for name, table in tables.items() for form in forms}
    write_together({**files}, overwrite=True, make_folders=True)
    return list(files)


def write_report(results: Results) -> list[Path]:
    """Write all tables and the figure into the study's folder; return their files."""
    check_results(results)
    tables = {name: make(results) for name, make in TABLES.items()}
    figure, folder = effect_figure(results), results.folder / FIGURES
    drawn = {folder / f"effect.{form}": image(figure, form) for form in ("png", "pdf", "svg")}
    write_together({**drawn}, overwrite=True, make_folders=True)
    return [*write_tables(tables, results.folder / TABLES_FOLDER), *drawn]
