"""README and every page of docs/ can be followed from top to bottom, each in an empty folder.

Commands and Python blocks run in the order of the page. An HTML comment before a block says what else it is:
`<!-- file: NAME -->` a file to save, `<!-- not run: REASON -->` what no test can do. `# exit code N` after a
command announces its exit code. A text block right after Python or a command is what it prints.
"""

from __future__ import annotations

import io
import re
import shlex
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from cli_runner import Ran, Runner, all_commands, examples_of
from stageguard.cli.app import SHORT_HELP
from stageguard.errors import StageGuardWarning

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SLOW = {"study.md"}  # it trains networks
LANGUAGES = {"sh", "python", "toml", "text"}
REASONS = {"installs", "downloads", "needs the dataset", "needs another program"}
FENCED = re.compile(
    r"^(?:<!-- (file|not run): ([^\n]+) -->\n)?```([^\n]*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL
)
SHOWN = re.compile(r"\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = {  # package -> what on a page needs it
    "torch": re.compile(r"^(import torch|from stageguard\.nn|stageguard (train|study) )", re.MULTILINE),
    "yasa": re.compile("--stager yasa"),
    "keras": re.compile("--stager sleepecg"),
    "distributed": re.compile('scheduler="local"'),
}
COMMAND = re.compile(r"^(\$ |stageguard [a-z])", re.MULTILINE)


class Block(NamedTuple):
    kind: str  # "file", "not run" or nothing
    word: str  # the file's name, or the reason
    language: str
    text: str
    shown: str | None  # the text block that follows at once


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    matches = list(FENCED.finditer(text))
    assert text.count("\n```") == 2 * len(matches), "a block has no end, or is indented"
    found = []
    for match in matches:
        after = SHOWN.match(text, match.end())
        found.append(Block(match[1] or "", match[2] or "", match[3], match[4], after and after[1]))
    return found


def commands(block: Block) -> list[tuple[list[str], int]]:
    """Words and exit code of every line."""
    lines = block.text.replace("\\\n", " ").splitlines()
    codes = [re.search(r"#.*exit code (\d)", line) for line in lines]
    words = [shlex.split(line, comments=True) for line in lines]
    return [(line, int(code[1]) if code else 0) for line, code in zip(words, codes, strict=True) if line]


def is_shown(printed: str, shown: str) -> bool:
    """Whether a command printed what a page shows of it, at any width; `...` stands for lines left out."""
    text, *parts = (" ".join(some.replace("─", "").split()) for some in (printed, *shown.split("\n...\n")))
    return re.search(".*".join(map(re.escape, parts)), text) is not None


def run_command(words: list[str], run: Runner, monkeypatch: pytest.MonkeyPatch) -> Ran:
    program, *arguments = words
    assert program == "stageguard"
    if "<" in arguments:
        *arguments, _, source = arguments
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(source).read_bytes())))
    expanded = [sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in arguments]
    ran = run(*(word for some in expanded for word in some))
    assert ran.out or ran.err, words
    print(ran.err)  # shown where the exit code is another one
    return ran


def needs(page: Path) -> list[str]:
    text = "".join(block.text for block in blocks(page) if block.kind != "not run")
    return [package for package, words in NEEDS.items() if words.search(text)]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page.name in SLOW else []) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_runs_as_written(page, tmp_path, monkeypatch, capsys):
    if missing := [package for package in needs(page) if find_spec(package) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)
    run, names = Runner(capsys), {}
    for block in blocks(page):
        if block.kind == "file":
            Path(block.word).parent.mkdir(parents=True, exist_ok=True)
            Path(block.word).write_text(block.text, "utf-8")
        elif block.kind == "not run":
            assert block.word in REASONS
        elif block.language == "python":
            capsys.readouterr()
            with warnings.catch_warnings():  # a reader gets them too, and goes on
                warnings.simplefilter("ignore", StageGuardWarning)
                exec(compile(block.text, page.name, "exec"), names)
            assert block.shown in (None, capsys.readouterr().out)
        elif block.language == "sh":
            for words, code in commands(block):
                ran = run_command(words, run, monkeypatch)
                assert ran.code == code, words
            if block.shown is not None:
                assert is_shown(ran.out + ran.err, block.shown), ran.out + ran.err


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_has_a_language(page):
    """So that no command hides in a block that nobody runs."""
    for block in blocks(page):
        assert block.language in LANGUAGES, block.text
        assert block.language == "sh" or not COMMAND.search(block.text)


def shown_commands(page: Path) -> list[list[str]]:
    return [words for block in blocks(page) if block.language == "sh" for words, _ in commands(block)]


def test_the_page_of_commands_has_an_example_of_every_one():
    assert set(SHORT_HELP) == {words[1] for words in shown_commands(ROOT / "docs" / "commands.md")}


@pytest.mark.parametrize("path", all_commands())
def test_examples_of_help_are_on_a_page_and_run_there(path):
    shown = [words for page in ("commands", "study") for words in shown_commands(ROOT / f"docs/{page}.md")]
    examples = examples_of(all_commands()[path])
    assert examples
    assert [line for line in examples if shlex.split(line, comments=True) not in shown] == []
