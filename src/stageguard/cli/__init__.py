"""The command line, `stageguard`. Commands parse and print; other folders do the work."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence

# All else is imported inside `main`, where Ctrl-C is handled.
from stageguard.runner.stopping import Stopped, stoppable


def _print_error(error: object) -> None:
    from stageguard.cli.terminal import print_error

    print_error(error)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning that no command has caught on one line, such as a missing compiled core."""
    from stageguard.cli.terminal import print_warning

    print_warning(message)


def _open_streams() -> None:
    """Open the null device for streams that were closed when this process began."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (number := os.open(os.devnull, os.O_WRONLY)) <= 2:  # or the next open file would be a stream
        pass
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 ok, 1 failed, 2 wrong usage, 3 some files failed, 129 on: stopped."""
    warnings.showwarning = _show_warning
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # for characters that its encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        with stoppable():
            from stageguard.cli.app import run

            sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Stopped as stopped:
        from stageguard.runner.pool import runs_the_script_again

        if not runs_the_script_again():  # else the pool has ended this process, and the parent says why
            _print_error(stopped)
        sys.exit(stopped.exit_code)
    except Exception as error:
        from stageguard.errors import StageGuardError
        from stageguard.storage import hide_addresses

        if isinstance(error, StageGuardError | OSError):
            _print_error(error)
            sys.exit(1)
        if os.environ.get("STAGEGUARD_DEBUG"):
            raise
        _print_error(
            f"unexpected {type(error).__name__}: {hide_addresses(str(error))}. This is a fault of "
            "stageguard, not yours; run again with STAGEGUARD_DEBUG=1 and report what it prints."
        )
        sys.exit(1)
