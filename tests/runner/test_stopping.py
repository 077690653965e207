"""Ctrl-C, SIGTERM and SIGHUP stop a command once, and are not lost."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from stageguard.runner.run import attempt
from stageguard.runner.stopping import STOPS, Stopped, raise_if_stopped, sparing_children, stoppable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


@pytest.mark.parametrize("kind", STOPS)
def test_a_signal_is_one_exception_with_the_exit_code_of_shells(kind):
    with pytest.raises(Stopped) as caught, stoppable():
        signal.raise_signal(kind)
    assert caught.value.exit_code == 128 + kind


def test_an_error_that_a_library_made_of_a_stop_is_the_stop():
    with pytest.raises(Stopped) as caught, stoppable():
        try:
            signal.raise_signal(signal.SIGTERM)
        except Stopped:  # as NumPy does if the signal comes while it is imported
            raise ImportError("could not import datetime") from None
    assert caught.value.exit_code == 143


def test_after_a_stop_that_was_swallowed_the_next_one_stops():
    with pytest.raises(Stopped), stoppable():
        with contextlib.suppress(Stopped):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_a_stop_that_was_swallowed_is_raised_before_the_next_piece_of_work():
    done = []
    with pytest.raises(Stopped) as caught, stoppable():
        with contextlib.suppress(Stopped):  # as compiled code does that calls back
            signal.raise_signal(signal.SIGTERM)
        attempt(done.append, SimpleNamespace(file="night.csv", id="night"))
    assert (done, caught.value.exit_code) == ([], 143)
    with stoppable():
        raise_if_stopped()  # the stop of an earlier command is not this one's


@pytest.mark.parametrize("second", STOPS)
def test_another_signal_does_not_interrupt_the_tidying_up(second):
    tidied = []

    @contextlib.contextmanager
    def tidying():
        try:
            yield
        finally:
            signal.raise_signal(second)
            tidied.append(True)

    with pytest.raises(Stopped) as caught, stoppable(), tidying():
        signal.raise_signal(signal.SIGINT)
    assert (tidied, caught.value.exit_code) == ([True], 130)


@pytest.mark.parametrize("kind", STOPS)
def test_a_signal_that_comes_while_a_process_is_started_is_put_off(kind):
    done = []
    with pytest.raises(Stopped), stoppable(), sparing_children():
        signal.raise_signal(kind)
        done.append(True)
    assert done == [True]


def test_processes_that_are_started_are_spared_what_a_terminal_sends():
    code = "import signal; print(*sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    with sparing_children():
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [str(int(signal.SIGHUP)), str(int(signal.SIGINT))]
