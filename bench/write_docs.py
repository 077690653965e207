"""Copy the tables of the last runs into docs/bench.md. Measures nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

from _common import RESULTS, Row, cells_of

PAGE = Path(__file__).parents[1] / "docs" / "bench.md"


def table(name: str) -> str:
    """Return one result file as a Markdown table with the machine beneath."""
    document = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    rows = [cells_of(Row(**row)) for row in document["rows"]]
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
    pattern = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
    text = PAGE.read_text("utf-8")
    PAGE.write_text(pattern.sub(lambda m: f"{m[1]}{table(m[2])}\n{m[3]}", text), "utf-8")


if __name__ == "__main__":
    main()
