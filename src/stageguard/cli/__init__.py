"""The command line, `stageguard`. Commands parse and print; other folders do the work."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence

from stageguard.cli.app import run
from stageguard.cli.terminal import print_error, print_warning
from stageguard.runner.stopping import Stopped, stoppable


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning that no command has caught on one line, such as a missing compiled core."""
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
    """Run the command line and exit: 0 ok, 1 a data problem (one line), 2 wrong usage, 129 to 143 stopped."""
    from stageguard.base.errors import StageGuardError

    warnings.showwarning = _show_warning
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # for characters that its encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        with stoppable():
            sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Stopped as stopped:
        print_error(stopped)
        sys.exit(stopped.exit_code)
    except (StageGuardError, OSError) as error:
        print_error(error)
        sys.exit(1)
    except Exception as error:
        if os.environ.get("STAGEGUARD_DEBUG"):
            raise
        print_error(
            f"unexpected {type(error).__name__}: {error}. This is a fault of stageguard, not yours; "
            "run again with STAGEGUARD_DEBUG=1 and report what it prints."
        )
        sys.exit(1)
