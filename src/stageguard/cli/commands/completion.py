"""`stageguard completion`: print a script with which a shell completes commands, options and values."""

from __future__ import annotations

from typing import Literal

import click
from click.shell_completion import get_completion_class

from stageguard.cli.app import stageguard
from stageguard.cli.command import command


@command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="Whose script.")
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a script with which a shell completes commands, options and their values.

    Write the script to ~/.local/share/bash-completion/completions/stageguard or
    ~/.config/fish/completions/stageguard.fish. For zsh, put this line into ~/.zshrc: source <(stageguard
    completion zsh).

    Examples
    --------
    stageguard completion bash
    """
    script = get_completion_class(shell)
    assert script is not None
    print(script(stageguard, {}, "stageguard", "_STAGEGUARD_COMPLETE").source())
