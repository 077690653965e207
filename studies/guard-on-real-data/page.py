"""Put the study's figures beside the paper's claims, in the page on real nights. Measures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from goals import bars
from layout import error_ratio, figures, mean, of_group, paired, table

PAGE = Path(__file__).parents[2] / "docs" / "real-nights.md"


def write_page(held: Mapping, path: Path = PAGE) -> None:
    """Replace what stands between the page's marks."""
    text = path.read_text("utf-8")
    for name, made in (("claims", claims(held)), ("tasks", tasks(held)), ("goals", bars(held))):
        before, rest = text.split(f"<!-- {name} -->\n", 1)
        _, after = rest.split(f"<!-- end of {name} -->", 1)
        text = f"{before}<!-- {name} -->\n{made}<!-- end of {name} -->{after}"
    path.write_text(text, "utf-8")


def claims(held: Mapping) -> str:
    """What the paper says of its decoder, and what it and ours do here: medians over tasks, and ranges."""
    said = {
        "TVR after": "0.1 to 0.8 %",
        "FI": "56 to 62 % lower",
        "FI over the expert's": "not given",
        "accuracy": "same or slightly better",
        "errors of sleep statistics": "59 to 79 % lower",
    }
    rows = []
    for what, own in said.items():
        cells = [_range(what, held, method) for method in ("paper", "band", "fitted")]
        rows.append([what, own, *cells])
    return table(["", "the paper says", "`paper` here", "`band` here", "`fitted` here"], rows)


def _range(what: str, held: Mapping, method: str) -> str:
    values = []
    for task in held.values():
        if what == "TVR after":
            values.append(mean(task, method, "tvr_percent"))
        elif what == "FI":
            values.append(100 * (mean(task, method, "fi") / mean(task, "argmax", "fi") - 1))
        elif what == "FI over the expert's":
            values.append(mean(task, method, "fi") / mean(task, method, "fi_expert"))
        elif what == "accuracy":
            values.append(100 * float(paired(task, method, "accuracy").mean()))
        else:
            values.append(100 * (error_ratio(task, method) - 1))
    known = np.array([value for value in values if not np.isnan(value)])
    form, unit = {
        "TVR after": ("{:.2f}", " %"),
        "FI": ("{:+.0f}", " %"),
        "FI over the expert's": ("{:.2f}", ""),
        "accuracy": ("{:+.1f}", " points"),
    }.get(what, ("{:+.0f}", " %"))
    middle, low, high = (form.format(value) for value in (np.median(known), known.min(), known.max()))
    return f"{middle}{unit} ({low} to {high})"


def tasks(held: Mapping) -> str:
    """One row a group of tasks and method."""
    rows = []
    for group in ("context-free stagers", "votes of networks", "networks"):
        chosen = of_group(held, group)
        for method in ("majority of 3", "HMM", "paper", "shipped", "band", "fitted") if chosen else ():
            found = figures(chosen, method)
            rows.append(
                [
                    f"{group} ({found['tasks']}): {method}",
                    f"{found['kappa median']:+.3f}",
                    f"{found['up']} / {found['down']}",
                    f"{found['ratio']:.2f}",
                    f"{found['better']} / {found['worse']}",
                    f"{100 * found['in band']:.0f} %",
                    f"{found['accuracy down']}",
                ]
            )
    header = ["stagers (tasks): method", "κ, median change", "tasks up / down", "errors", "better / worse"]
    return table([*header, "nights in band", "accuracy down"], rows)
