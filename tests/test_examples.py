"""Examples for clusters: they are valid, and call commands and options that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from cli_runner import Runner

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_python_examples_are_valid_and_say_what_they_are_for(path):
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


@pytest.mark.parametrize("name", ["slurm_dask", "kubernetes_dask"])
def test_cluster_examples_run_a_study_with_options_that_exist(name, capsys):
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text("utf-8"))
    words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    lists = [node.elts for node in ast.walk(tree) if isinstance(node, ast.List)]
    commands = [[getattr(item, "value", None) for item in items][:3] for items in lists]
    assert ["stageguard", "study", "run"] in commands
    options = [word for word in words if str(word).startswith("--")]
    assert options == ["--output", "--scheduler"]
    said = Runner(capsys)("study", "run", "--help").out
    assert all(option in said for option in options)


def test_the_snakefile_is_python_but_for_its_rules_and_calls_options_that_exist(capsys):
    text = (EXAMPLES / "Snakefile").read_text("utf-8")
    before, *rules = re.split(r"^rule (\w+):$", text, flags=re.MULTILINE)
    compile(before, "Snakefile", "exec")
    assert rules[::2] == ["all", "decode"]
    for body in rules[1::2]:
        for block in re.split(r"^    \w+:\n", body.strip("\n") + "\n", flags=re.MULTILINE)[1:]:
            compile(f"given(\n{block})", "Snakefile", "eval")
    (command,) = re.findall(r'"(stageguard decode [^"]+)"', text)
    said = Runner(capsys)("decode", "--help").out
    assert [option for option in re.findall(r"--\w+", command) if option not in said] == []
