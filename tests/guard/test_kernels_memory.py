"""What the kernels take of memory: by the epochs there are, and a MemoryError where there is not enough."""

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
minimum, table = np.full(2, int(sys.argv[2]), dtype=np.int32), np.zeros(int(sys.argv[3]), dtype=np.int32)
piece = np.full((2_000_000, 2), 0.5)
pieces, stay, change = [piece] * len(table), np.zeros((1, 2)), np.zeros((1, 4))
streams = np.ones((len(table), 1), dtype=np.uint64)
ones = np.ones((len(table), 2))
bouts = np.ones((1, 2)), np.ones((1, 4)), minimum, True  # of products
flat, regions = np.zeros(len(piece) * len(table), dtype=np.int8), np.array([[0, 5, 9]])
automaton = [np.arange(2, dtype=np.int32), np.array([0, 1, 2], dtype=np.int32), np.arange(2, dtype=np.int32),
             np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2))]
calls = {
    "structured": lambda k: k.structured(pieces, False, table, ones, stay, change, minimum, True, 2),
    "greedy": lambda k: k.greedy(pieces, False, table, ones, stay, change, minimum, True, 1.0, 3, 2),
    "automaton": lambda k: k.automaton(pieces, table, *automaton, 2),
    "smooth": lambda k: k.smooth(pieces, True, 1e-12, table, ones, *bouts, 2),
    "draw": lambda k: k.draw(pieces, True, 1e-12, table, ones, *bouts, streams, 2),
    "keep_automaton": lambda k: k.keep_automaton(pieces, flat, regions, table, *automaton, 2),
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


@pytest.mark.parametrize("n_pieces", [1, 2, 4])
@pytest.mark.parametrize("kernel", ["structured", "greedy", "automaton", "smooth", "draw", "keep_automaton"])
def test_out_of_memory_is_an_error_on_one_thread_and_on_several(kernel, n_pieces):
    assert run(OUT_OF_MEMORY, kernel, "2", str(n_pieces)).strip() == "MemoryError"


def test_a_batch_without_room_for_a_second_thread_is_decoded_all_the_same():
    program = """
x = np.full((50, 5), 0.2)
sg.decode([x] * 8, "human-psg-5")
bound(1)
print(len(sg.decode([x] * 8, "human-psg-5")))
"""
    assert run(program).strip() == "8"


def test_the_greedy_kernel_takes_memory_for_the_epochs_and_not_for_the_minimum_bout():
    program = """
p = sg.Profile.load("kdd2026-actigraphy").replace(min_bout_seconds={"W": 86400.0})
bound(100)
print(sg.decode(np.full((10, 2), 0.5), p, epoch_seconds=0.01).hypnogram.n_epochs)
"""
    assert run(program).strip() == "10"
