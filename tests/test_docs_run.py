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

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Ran, Runner, all_commands, examples_of
from stageguard.cli.app import SHORT_HELP
from stageguard.errors import StageGuardWarning

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SLOW = {"training.md"}  # it trains networks
LANGUAGES = {"sh", "python", "toml", "text"}
REASONS = {"installs", "downloads", "needs the dataset", "needs another program"}
FENCED = re.compile(
    r"^(?:<!-- (file|not run): ([^\n]+) -->\n)?```([^\n]*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL
)
SHOWN = re.compile(r"\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = {  # package -> what on a page needs it
    "torch": re.compile(r"^(import torch|from stageguard\.nn|stageguard (train|study) )", re.MULTILINE),
    "yasa": re.compile("--stager yasa"),
    "onnx": re.compile("--onnx"),
    "keras": re.compile("--stager sleepecg"),
    "distributed": re.compile('scheduler="local"'),
}
CONFIG = """data = "wrists"
dataset = "sleep-accel"
recipe = "actigraphy"
output = "model"
backbone = "accusleep"
profile = "human-actigraphy-2"
penalty_weight = 0.0
steps = 4
"""
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


def test_every_command_on_the_page_of_commands_exists():
    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert set(re.findall(r"^\|[^|]*\| `(\w+)` \|", text, re.MULTILINE)) == set(SHORT_HELP)


def nights_of_help() -> None:
    """Write what the examples of help read."""
    for folder in ("nights", "experts"):
        Path(folder).mkdir()
    groups = ["id\tgroup"]
    for k in range(4):
        made = sg.simulate_night("human-psg-5", hours=1, seed=k)
        made.density.save(f"nights/n{k}.csv")
        made.expert.save(f"experts/n{k}.txt")
        for number, scorer in enumerate(("anna", "ben", "carl")):
            Path("scored", scorer).mkdir(parents=True, exist_ok=True)
            moved = np.roll(made.expert.labels, number)
            sg.Hypnogram(moved, "aasm5", 30).save(f"scored/{scorer}/n{k}.txt")
        groups.append(f"n{k}\t{'ab'[k % 2]}")
    Path("groups.tsv").write_text("\n".join(groups) + "\n")
    night = sg.simulate_night("human-psg-5", seed=1)
    for name in ("night.csv", "c3.csv", "c4.csv"):
        night.density.save(name)
    night.expert.save("expert.txt")
    sg.Hypnogram(np.roll(night.expert.labels, 1), "aasm5", 30).save("expert-2.txt")
    Path("config.toml").write_text(CONFIG)


def test_examples_of_help_run(tmp_path, monkeypatch, capsys):
    """But those of review, which serves a page, and of study, which are on the page of training."""
    if missing := [package for package in ("torch", "onnx", "yasa") if find_spec(package) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)
    nights_of_help()
    run, known = Runner(capsys), all_commands()
    training = [words for block in blocks(ROOT / "docs" / "training.md") for words, _ in commands(block)]
    assert run("decode", "night.csv").code == 0
    assert (
        run(
            "simulate", *["-m", "polysomnography", "-n", "1", "--hours", "0.5", "--seed", "1", "-o", "lab"]
        ).code
        == 0
    )
    Path("lab/polysomnography/edfs/shhs1/shhs1-900001.edf").rename("psg.edf")
    first = ("decode", "fit", "grade", "simulate")  # what others read
    for path in sorted(known, key=lambda path: path not in first):
        lines = [shlex.split(line, comments=True) for line in examples_of(known[path])]
        assert lines, path
        for words in lines:
            if path.partition(" ")[0] == "study":
                assert words in training
            elif path != "review":
                ran = run_command(words, run, monkeypatch)
                assert ran.code == 0, (words, ran.err)
