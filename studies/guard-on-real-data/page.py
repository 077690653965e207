"""Put the study's figures beside the paper's claims, in the page on real nights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from elsewhere import learning_summary, transfer_summary
from layout import error_ratio, has_method, mean, paired, summary, table

PAGE = Path(__file__).parents[2] / "docs" / "real-nights.md"
SHOWN = ("paper", "band", "clock", "clock + target", "clock + tune", "fit before", "fit")
SAID = {
    "TVR after": "0.1 to 0.8 %",
    "FI": "56 to 62 % lower",
    "FI over the expert's": "not given",
    "accuracy": "same or slightly better",
    "errors of sleep statistics": "59 to 79 % lower",
}


def write_page(held: Mapping, pairs: Mapping, draws: Mapping, goals: str, path: Path = PAGE) -> None:
    """Replace what stands between the marks that the page has."""
    text = path.read_text("utf-8")
    groups = ("good", "flickering", "neither")
    tables = {
        "tasks": summary(held, groups, SHOWN),
        "goals": goals,
        "elsewhere": transfer_summary(pairs) if pairs else "",
        "learning": learning_summary(held, draws) if draws else "",
        "claims": claims(held),
    }
    for name, made in tables.items():
        if f"<!-- {name} -->" not in text:
            continue
        before, rest = text.split(f"<!-- {name} -->\n", 1)
        _, after = rest.split(f"<!-- end of {name} -->", 1)
        text = f"{before}<!-- {name} -->\n{made}<!-- end of {name} -->{after}"
    path.write_text(text, "utf-8")


def claims(held: Mapping) -> str:
    """What the paper says of its decoder, and what it and ours do here: medians over tasks, and ranges."""
    methods = ("paper", "clock + target", "fit")
    rows = [[what, said, *(_range(what, held, method) for method in methods)] for what, said in SAID.items()]
    return table(["", "the paper says", *(f"`{method}` here" for method in methods)], rows)


def _range(what: str, held: Mapping, method: str) -> str:
    measured = {
        "TVR after": lambda task: mean(task, method, "tvr_percent"),
        "FI": lambda task: 100 * (mean(task, method, "fi") / mean(task, "argmax", "fi") - 1),
        "FI over the expert's": lambda task: mean(task, method, "fi") / mean(task, method, "fi_expert"),
        "accuracy": lambda task: 100 * float(paired(task, method, "accuracy").mean()),
        "errors of sleep statistics": lambda task: 100 * (error_ratio(task, method) - 1),
    }[what]
    form, unit = {
        "TVR after": ("{:.2f}", " %"),
        "FI": ("{:+.0f}", " %"),
        "FI over the expert's": ("{:.2f}", ""),
        "accuracy": ("{:+.1f}", " points"),
        "errors of sleep statistics": ("{:+.0f}", " %"),
    }[what]
    values = np.array([measured(task) for task in held.values() if has_method(task, method)])
    known = values[~np.isnan(values)]
    middle, low, high = (form.format(value) for value in (np.median(known), known.min(), known.max()))
    return f"{middle}{unit} ({low} to {high})"
