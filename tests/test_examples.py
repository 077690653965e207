"""Examples for clusters: they are valid, and call commands and options that exist."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest

import stageguard as sg
from cli_runner import Runner

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", ["slurm_dask", "kubernetes_dask"])
def test_cluster_examples_decode_a_cohort_with_arguments_that_exist(name):
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text("utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (call,) = [call for call in calls if ast.unparse(call.func) == "sg.decode_cohort"]
    options = {keyword.arg: None for keyword in call.keywords}
    assert {"scheduler", "wait_minutes"} <= options.keys()
    bound = inspect.signature(sg.decode_cohort).bind(*call.args, **options)
    assert [*bound.arguments][:3] == ["source", "profile", "output"]


@pytest.mark.parametrize("name", ["Snakefile", "stageguard.nf"])
def test_workflows_call_options_that_exist(name, capsys):
    (command,) = re.findall(r"stageguard decode .+", (EXAMPLES / name).read_text("utf-8"))
    options = re.findall(r"--\w+", command)
    assert {"--profile", "--output"} <= set(options)
    said = Runner(capsys)("decode", "--help").out
    assert [option for option in options if option not in said] == []


def test_the_nextflow_process_keeps_what_its_command_writes(tmp_path, monkeypatch, capsys):
    """Nextflow itself is not installed: its command is run as a task would run it."""
    text = (EXAMPLES / "stageguard.nf").read_text("utf-8")
    assert text.count("{") == text.count("}")
    (command,) = re.findall(r"stageguard (decode .+)", text)
    patterns = re.findall(r'path "(.+)", emit', text)
    values = {"${night}": "night.csv", "${night.baseName}": "night", "${profile}": "human-psg-5"}
    for name, value in values.items():
        command = command.replace(name, value)
        patterns = [pattern.replace(name, value) for pattern in patterns]
    monkeypatch.chdir(tmp_path)
    sg.simulate_night("human-psg-5", seed=1).density.save("night.csv")
    assert Runner(capsys)(*shlex.split(command)).code == 0
    assert [[path.name for path in tmp_path.glob(pattern)] for pattern in patterns] == [
        ["night.hypnogram.tsv"],
        ["night.hypnogram.json"],
    ]
