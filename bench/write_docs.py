"""Copy the tables of the last runs into docs/bench.md. Measures nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from _common import RESULTS, Row, cells_of

PAGE = Path(__file__).parents[1] / "docs" / "bench.md"
PART = ": in "  # between a whole call and one of the parts that it is made of


def read(name: str) -> dict[str, Any]:
    """Return one result file."""
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return document


def parts(name: str) -> str:
    """Return what each whole call is made of, as a Markdown table with a column per part."""
    calls: dict[str, dict[str, float]] = {}
    for row in read(name)["rows"]:
        call, _, part = row["what"].partition(PART)
        if part:
            calls.setdefault(call, {})[part] = row["value"]
    names = list(next(iter(calls.values())))
    lines = [f"| % of instructions | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
    lines += [f"| {call} | {' | '.join(f'{calls[call][one]:.0f}' for one in names)} |" for call in calls]
    return "\n".join(lines)


def table(name: str) -> str:
    """Return one result file as a Markdown table with the machine beneath."""
    document = read(name)
    rows = [cells_of(Row(**row)) for row in document["rows"] if PART not in row["what"]]
    lines = ["| | value | unit | goal | |", "|---|--:|---|--:|---|"]
    lines += [f"| {' | '.join(cells)} |".replace("  ", " ") for cells in rows]
    m = document["machine"]
    load = "" if m["load_average"] is None else f", load average {m['load_average']}"
    lines += [
        "",
        f"{m['processor']}, {m['cores']} cores, {m['system']}, Python {m['python']}, NumPy {m['numpy']}, "
        f"stageguard {m['stageguard']} ({m['core']} core, {m['simd']}){load}.",
    ]
    return "\n".join(lines)


def main() -> None:
    pattern = re.compile(r"(<!-- (table|parts): (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
    kinds = {"table": table, "parts": parts}
    text = PAGE.read_text("utf-8")
    PAGE.write_text(pattern.sub(lambda m: f"{m[1]}{kinds[m[2]](m[3])}\n{m[4]}", text), "utf-8")


if __name__ == "__main__":
    main()
