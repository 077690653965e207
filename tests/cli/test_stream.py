"""`stageguard stream`: rows on stdin, stages on stdout, a state that survives."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner
from messages import mentions
from stageguard.synthetic.night import simulate_night

MOUSE = ("-p", "mouse-eeg-emg-3", "--transition-weight", "0.3")


@pytest.fixture
def stream(capsys, monkeypatch):
    """Run the command on some text or bytes; returns exit code, (epoch from 0, stage) pairs and stderr."""
    run = Runner(capsys)

    def call(given, *options):
        data = given if isinstance(given, bytes) else given.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        ran = run("stream", *options)
        pairs = [line.split("\t") for line in ran.out.splitlines()]
        return ran.code, [(int(epoch) - 1, stage) for epoch, stage in pairs], ran.err

    return call


@pytest.fixture(scope="module")
def density():
    return simulate_night("mouse-eeg-emg-3", hours=0.5, seed=1).density


@pytest.fixture(scope="module")
def decoded(density):
    profile = sg.Profile.load("mouse-eeg-emg-3").replace(transition_weight=0.3)
    return list(enumerate(sg.decode(density, profile).stages.tolist()))


def text(density, rows=slice(None), header="W,N,R"):
    lines = [",".join(map(repr, row)) for row in density.probabilities[rows].tolist()]
    return "\n".join([*([header] if header else []), *lines]) + "\n"


def test_the_whole_stream_is_what_decode_returns(stream, density, decoded):
    code, given_out, _ = stream(text(density), *MOUSE)
    assert code == 0
    assert given_out == decoded
    assert len({stage for _, stage in decoded}) > 1


def test_without_a_header_the_columns_are_the_profiles_and_it_says_so(stream, density, decoded):
    code, given_out, err = stream(text(density, header=None), *MOUSE)
    assert (code, given_out) == (0, decoded)
    assert mentions(err, "assumed", "W, N, R")


def test_a_header_names_columns_in_any_order(stream, density, decoded):
    turned = density.probabilities[:, [2, 0, 1]]
    lines = ["REM\tWake\tNREM", *("\t".join(map(repr, row)) for row in turned.tolist())]
    assert stream("\n".join(lines), *MOUSE)[:2] == (0, decoded)


def test_the_lag_limit_is_kept(stream, density):
    profile = sg.Profile.load("mouse-eeg-emg-3").replace(transition_weight=0.3)
    decoder = sg.StreamingDecoder(profile, max_lag_seconds=8)
    expected = [stage for row in density.probabilities for stage in decoder.push(row)]
    expected += decoder.finish()
    _, given_out, _ = stream(text(density), *MOUSE, "--max-lag-seconds", "8")
    assert given_out == list(enumerate(expected))


def test_logits_and_finer_stages_are_told_apart(stream):
    rows = np.log([[0.7, 0.1, 0.1, 0.05, 0.05]] * 4 + [[0.01, 0.1, 0.5, 0.38, 0.01]] * 6)
    given = "\n".join(["W,N1,N2,N3,R", *(",".join(map(repr, row)) for row in rows.tolist())])
    options = ("-p", "human-psg-3", "--transition-weight", "0.3", "--log")
    code, given_out, said = stream(given, *options)
    assert code == 0
    assert mentions(said, "clock counts")
    assert [stage for _, stage in given_out] == ["W"] * 4 + ["N"] * 6


def test_missing_rows_and_quality_go_in(stream):
    given = "W;N;R;quality\n0,9;0,05;0,05;0\n;;;\nNaN;n/a;nan;\n0,9;0,05;0,05;1\n"
    code, given_out, _ = stream(given, *MOUSE)
    assert (code, given_out) == (0, [(epoch, "W") for epoch in range(4)])


def test_a_state_goes_on_exactly_where_it_was(stream, density, decoded, tmp_path):
    state = ("--state", tmp_path / "s.bin")
    first = stream(text(density, slice(0, 101)), *MOUSE, *state)
    assert first[0] == 0
    assert len(first[1]) <= 101
    assert (tmp_path / "s.bin").is_file()
    second = stream(text(density, slice(101, 102)), *MOUSE, *state)
    third = stream(text(density, slice(102, None)), *MOUSE, *state, "--finish")
    assert "goes on from" in third[2]
    assert first[1] + second[1] + third[1] == decoded
    assert not (tmp_path / "s.bin").exists()  # the recording is over


def test_with_a_state_the_end_of_input_is_not_the_end_of_the_recording(stream, tmp_path):
    """One doubtful epoch waits, although the input is over."""
    given = "0.5,0.5,0\n"
    assert stream(given, *MOUSE)[1] == [(0, "W")]
    assert stream(given, *MOUSE, "--state", tmp_path / "s.bin")[1] == []
    assert stream("", *MOUSE, "--state", tmp_path / "s.bin", "--finish")[1] == [(0, "W")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0.9,0.9,0.2", "line 12: probabilities: epoch 10 sums to 2, expected 1"),
        ("0.9,0.1", "line 12 has 2 cells, expected 3: W, N, R."),
        ("0.9,0.1,what", "line 12 holds 'what', expected a number"),
        ("0.9,nan,0.1", "line 12: probabilities: epoch 10"),
        ("0.9,\udcff,0.1", "line 12 is not text"),
        ("1" * 70_000, "line 12 is longer than 65,536 bytes"),
    ],
)
def test_a_bad_row_is_one_line_and_the_state_is_kept(stream, density, decoded, tmp_path, line, words):
    state = ("--state", tmp_path / "s.bin")
    given = text(density, slice(0, 10)).encode() + line.encode(errors="surrogateescape") + b"\n0.1,0.2,0.7\n"
    code, given_out, err = stream(given, *MOUSE, *state)
    assert code == 1
    complaint = err.splitlines()[-1]
    assert words in complaint
    assert mentions(complaint, tmp_path / "s.bin", "10 epochs", len(given_out))
    rest = stream(text(density, slice(10, None)), *MOUSE, *state, "--finish")[1]
    assert given_out + rest == decoded


def test_without_a_state_a_bad_row_gives_out_what_was_taken_in(stream):
    code, given_out, err = stream("0.5,0.5,0\n0.5,0.5,0\nx,y,z\n", *MOUSE)
    assert code == 1
    assert given_out == [(0, "W"), (1, "W")]
    assert mentions(err.splitlines()[-1], "2 epochs", "given")


def test_a_state_of_another_recording_is_refused(stream, density, tmp_path):
    state = ("--state", tmp_path / "s.bin")
    stream(text(density, slice(0, 20)), *MOUSE, *state)
    held = (tmp_path / "s.bin").read_bytes()
    for options, words in (
        (("-p", "mouse-eeg-emg-3", "--transition-weight", "0.4"), "SHA-256"),
        ((*MOUSE, "--max-lag-seconds", "8"), "lag limit None, and 8.0 is asked for"),
        ((*MOUSE, "--epoch-seconds", "10"), "epoch length 4.0, and 10.0 is asked for"),
        ((*MOUSE, "--logits"), "kind of numbers probabilities, and logits is asked for"),
        ((*MOUSE, "--stages", "N,W,R"), "began with W, N, R"),
    ):
        code, given_out, err = stream("0.1,0.2,0.7\n", *options, *state)
        assert (code, given_out) == (1, [])
        assert words in err
        assert (tmp_path / "s.bin").read_bytes() == held


@pytest.mark.parametrize("given", ["", "\n\n", "W,N,R\n"])
def test_an_input_without_a_row_is_one_line(stream, given, tmp_path):
    state = tmp_path / "state"
    for options in ((), ("--state", state)):
        code, given_out, err = stream(given, *MOUSE, *options)
        assert (code, given_out) == (1, [])
        assert mentions(err.splitlines()[-1], "input holds no", "probabilities")
        assert not state.exists()


def test_a_recording_may_go_on_or_end_without_another_row(stream, density, decoded, tmp_path):
    state = tmp_path / "state"
    _, first, _ = stream(text(density), *MOUSE, "--state", state)
    assert stream("", *MOUSE, "--state", state)[:2] == (0, [])
    code, rest, _ = stream("", *MOUSE, "--state", state, "--finish")
    assert (code, first + rest) == (0, decoded)


def test_a_damaged_state_is_one_line(stream, tmp_path):
    (tmp_path / "s.bin").write_bytes(b"SGSTREAM and no more")
    code, _, err = stream("0.1,0.2,0.7\n", *MOUSE, "--state", tmp_path / "s.bin")
    assert code == 1
    assert err.startswith(f"stageguard: {tmp_path / 's.bin'}: the snapshot")
    assert len(err.splitlines()) == 1


def test_a_profile_without_a_weight_for_streams_is_refused_before_any_row(stream, tmp_path):
    own = tmp_path / "own.toml"
    sg.Profile.load("mouse-eeg-emg-3").replace(streaming=None).save(own)
    code, given_out, err = stream("0.1,0.2,0.7\n", "-p", own)
    assert (code, given_out) == (1, [])
    assert mentions(err, "needs the whole", "night", "streaming")
    assert "transition_weight=0.1" in err


@pytest.mark.parametrize(
    ("options", "flickers", "words"),
    [((), None, "unknown stager"), (("--flickers",), True, "stager that flickers")],
)
def test_a_recommended_profile_streams_as_in_python_and_says_its_weight(stream, options, flickers, words):
    night = simulate_night("human-psg-5", hours=1, seed=2).density
    profile = sg.Profile.load("human-psg-5").for_streaming(flickers)
    decoder = sg.StreamingDecoder(profile, max_lag_seconds=120)
    expected = [stage for row in night.probabilities for stage in decoder.push(row)]
    expected += decoder.finish()
    given = text(night, header="W,N1,N2,N3,R")
    limit = ("--max-lag-seconds", "120")
    code, given_out, err = stream(given, "-p", "human-psg-5", *options, *limit)
    assert (code, given_out) == (0, list(enumerate(expected)))
    assert mentions(err, f"transition weight {profile.transition_weight:g}", words)


def test_two_ways_to_set_the_strength_are_one_too_many(stream):
    code, given_out, err = stream("0.1,0.2,0.7\n", *MOUSE, "--flickers")
    assert (code, given_out) == (2, [])
    assert mentions(err, "--flickers", "--transition-weight")


def test_unknown_columns_are_refused(stream):
    code, _, err = stream("onset,W,N,R\n0,0.1,0.2,0.7\n", *MOUSE)
    assert code == 1
    assert "'onset'" in err


def test_wrong_usage_exits_2(stream):
    code, _, err = stream("", *MOUSE, "--finish")
    assert code == 2
    assert "--finish goes with --state" in err


def start(*options):
    return subprocess.Popen(
        [sys.executable, "-m", "stageguard.cli", "stream", *MOUSE, *map(str, options)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_stages_come_while_the_input_is_open_and_ctrl_c_keeps_the_state(density, tmp_path):
    process = start("--state", tmp_path / "s.bin", "--max-lag-seconds", "0")
    assert process.stdin is not None and process.stdout is not None
    for epoch, line in enumerate(text(density, slice(0, 3), header=None).splitlines()):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(f"{epoch + 1}\t")  # before the next one is sent
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert mentions(err.splitlines()[-1], tmp_path / "s.bin", "3 epochs", 3)
    assert sg.StreamingDecoder.restore((tmp_path / "s.bin").read_bytes()).n_epochs == 3


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are POSIX")
def test_a_reader_that_goes_is_one_line(density, tmp_path):
    process = start("--state", tmp_path / "s.bin", "--max-lag-seconds", "0")
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stdin.write(text(density))
    process.stdin.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=30) == 1
    assert mentions(err.splitlines()[-1], "whoever", "stages has gone")
    assert "Traceback" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are POSIX")
@pytest.mark.parametrize(
    ("n_read", "options"), [(0, ()), *((n, ("--max-lag-seconds", "0")) for n in (0, 1, 7))]
)
def test_stages_that_nobody_took_are_given_out_by_the_next_call(density, tmp_path, stream, n_read, options):
    path = tmp_path / "s.bin"
    process = start("--state", path, *options)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    taken = []
    for line in text(density).splitlines():
        if len(taken) == n_read and not process.stdout.closed:
            process.stdout.close()  # before the next row, so that nothing is on its way
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            break
        if not process.stdout.closed and line[0].isdigit():
            taken.append(process.stdout.readline())
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=30) == 1
    state = sg.StreamingDecoder.restore(path.read_bytes())
    assert f"{state.n_epochs} epoch" in err.splitlines()[-1]
    rest = text(density, slice(state.n_epochs, None))
    code, out, _ = stream(rest, *MOUSE, *options, "--state", path, "--finish")
    assert code == 0
    epochs = [*(int(line.split("\t")[0]) - 1 for line in taken), *(epoch for epoch, _ in out)]
    assert epochs == list(range(density.n_epochs))


@pytest.mark.slow
def test_the_state_is_kept_while_the_input_is_open(density, tmp_path, monkeypatch):
    from stageguard.cli.commands import stream as stream_run

    path, seen = tmp_path / "s.bin", []

    class Rows(io.BytesIO):
        def readline(self, size=-1):
            seen.append(sg.StreamingDecoder.restore(path.read_bytes()).n_epochs if path.exists() else None)
            return super().readline(size)

    monkeypatch.setattr(stream_run, "_SECONDS_BETWEEN_WRITES", 0.0)
    profile = sg.Profile.load("mouse-eeg-emg-3").replace(transition_weight=0.3)
    run = stream_run.Run(partial(sg.StreamingDecoder, profile), state=path, emit=lambda *_: None)
    run.feed(Rows(text(density).encode()))
    assert seen[:5] == [None, None, 1, 2, 3]


def test_a_stream_that_ends_while_nobody_reads_keeps_its_state(density, tmp_path):
    from stageguard.cli.commands import stream as stream_run

    def gone(*_):
        raise BrokenPipeError

    path = tmp_path / "s.bin"
    profile = sg.Profile.load("mouse-eeg-emg-3").replace(transition_weight=0.3)
    run = stream_run.Run(partial(sg.StreamingDecoder, profile), state=path, finish=True, emit=gone)
    rows = text(density, slice(0, 1)).encode()
    with pytest.raises(BrokenPipeError):
        run.feed(io.BytesIO(rows))
    state = sg.StreamingDecoder.restore(path.read_bytes())
    assert (state.n_epochs, state.n_committed) == (1, 0)
    assert run.standing() == "1 epoch in, 0 out"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="alarms are POSIX")
def test_the_state_is_kept_while_the_input_pauses(density, tmp_path, monkeypatch):
    from stageguard.cli.commands import stream as command

    state, seen = tmp_path / "mouse.state", []

    class Pausing(io.BytesIO):
        """Rows without a pause, then a long wait for the end."""

        def readline(self, *limit):
            line = super().readline(*limit)
            if not line:
                until = time.monotonic() + 5
                while not state.exists() and time.monotonic() < until:
                    time.sleep(0.01)
                seen.append(state.exists())
            return line

    monkeypatch.setattr(command, "_SECONDS_BETWEEN_WRITES", 0.2)
    profile = sg.Profile.load("mouse-eeg-emg-3").replace(transition_weight=0.3)
    run = command.Run(partial(sg.StreamingDecoder, profile), state=state, emit=lambda *_: None)
    run.feed(Pausing(b"0.8,0.1,0.1\n0.7,0.2,0.1\n"))
    assert seen == [True]
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_a_state_that_cannot_be_written_is_refused_before_any_row(stream, tmp_path):
    code, pairs, err = stream("W,N,R\n0.8,0.1,0.1\n", *MOUSE, "--state", tmp_path / "none" / "x.state")
    assert (code, pairs) == (1, [])
    assert mentions(err, "folder", "Choose a folder")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_a_state_that_is_a_loop_or_a_pipe_is_refused_and_left_alone(stream, tmp_path):
    loop, pipe = tmp_path / "loop.state", tmp_path / "pipe.state"
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    for path, words in ((loop, "symbolic links"), (pipe, "is a pipe or a device")):
        code, pairs, err = stream("W,N,R\n0.8,0.1,0.1\n", *MOUSE, "--state", path)
        assert (code, pairs) == (1, [])
        assert words in err and err.count(path.name) == 1
    assert loop.is_symlink()
