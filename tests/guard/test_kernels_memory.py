"""What the kernels take of memory: by the epochs there are, and a MemoryError where there is not enough."""

import re
import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="limits of memory are set by the POSIX module")

PREPARE = """
import resource, sys, warnings
import numpy as np
import stageguard as sg
from stageguard.guard import kernels
warnings.simplefilter("ignore")

def bound(n_megabytes):
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (n_megabytes << 20),) * 2)
"""
OUT_OF_MEMORY = """
minimum, rows = np.full(2, int(sys.argv[2]), dtype=np.int32), np.full((2_000_000, 2), 0.5)
stay, change, ones = np.zeros((1, 2)), np.zeros((1, 4)), np.ones(2)
streams = np.ones(4, dtype=np.uint64)
bouts = np.ones((1, 2)), np.ones((1, 4)), minimum, True  # of products
flat, regions = np.zeros(len(rows), dtype=np.int8), np.array([[5, 9]])
automaton = [np.arange(2, dtype=np.int32), np.array([0, 1, 2], dtype=np.int32), np.arange(2, dtype=np.int32),
             np.zeros(2), np.zeros(2), np.zeros(2)]
whole = [(0, len(rows))]
calls = {
    "path": lambda k: k.path(rows, whole, False, ones, stay, change, minimum, True),
    "curve": lambda k: k.curve(rows, whole, True, ones, *bouts),
    "greedy": lambda k: k.greedy(rows, False, ones, stay, change, minimum, True, 1.0, 3),
    "automaton": lambda k: k.automaton(rows, *automaton),
    "smooth": lambda k: k.smooth(rows, 1e-12, ones, *bouts),
    "draw": lambda k: k.draw(rows, 1e-12, ones, *bouts, streams, 1),
    "draw on threads": lambda k: k.draw(rows, 1e-12, ones, *bouts, streams, 4),
    "draw_tables": lambda k: k.draw_tables(
        rows, np.ones((4, 2)), np.ones((4, 2)), np.ones((4, 4)), minimum, True, streams, 1
    ),
    "keep_automaton": lambda k: k.keep_automaton(rows, flat, regions, *automaton),
}
bound(15)
try:
    calls[sys.argv[1]](kernels.active)
except MemoryError:
    print("MemoryError")
"""


def run(program, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", PREPARE + program, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def _needs_the_core_and_its_limits():
    if not sys.platform.startswith("linux"):
        pytest.skip("/proc tells how much memory is taken on Linux alone")
    pytest.importorskip("stageguard.guard.kernels._core._native", reason="the reference starts no threads")


@pytest.mark.parametrize("kernel", re.findall(r"^    \"(.*)\": lambda", OUT_OF_MEMORY, re.MULTILINE))
def test_out_of_memory_is_an_error_on_one_thread_and_on_several(kernel):
    assert run(OUT_OF_MEMORY, kernel, "2").strip() == "MemoryError"


def test_the_greedy_kernel_takes_memory_for_the_epochs_and_not_for_the_minimum_bout():
    program = """
p = sg.Profile.load("kdd2026-actigraphy").replace(min_bout_seconds={"W": 86400.0})
bound(100)
print(sg.decode(np.full((10, 2), 0.5), p, epoch_seconds=0.01).hypnogram.n_epochs)
"""
    assert run(program).strip() == "10"
