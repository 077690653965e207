"""The pages on posterior, streaming and uncertainty show what their examples print."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    ("page", "n_examples"), [("posterior.md", 1), ("streaming.md", 2), ("uncertainty.md", 1)]
)
def test_examples_print_what_the_page_shows(page, n_examples, capsys):
    text = (DOCS / page).read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == n_examples == text.count("```python")
    for code, shown in examples:
        exec(compile(code, page, "exec"), {})
        assert capsys.readouterr().out == shown
