"""`stageguard completion`: print a script with which a shell completes commands, options and values."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Annotated, Literal

from stageguard.cli.app import SHORT_HELP, find_command
from stageguard.cli.parser import HELP, Argument, Command

Shell = Annotated[
    Literal["bash", "zsh", "fish"], Argument(metavar="SHELL", help="Whose script: bash, zsh or fish.")
]

# The first case that matches is used: a value after its option, then subcommands and options. Options are
# offered only after a dash, so that files are completed without one. zsh has its own variable `words`.
BASH = """\
_stageguard() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" typed="${{COMP_WORDS[*]:1:COMP_CWORD-1}}" known="" word
  case "$typed" in
{cases}
    "") known="{commands}" ;;
  esac
  COMPREPLY=()
  for word in $known; do
    if [[ $word == "$current"* && ( $word != -* || $current == -* ) ]]; then COMPREPLY+=("$word"); fi
  done
}}
complete -o default -F _stageguard stageguard
"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def completion(shell: Shell) -> None:
    """Print a script with which a shell completes commands, options and their values.

    If none of them fits, the shell completes files. Write the script to
    ~/.local/share/bash-completion/completions/stageguard or ~/.config/fish/completions/stageguard.fish. For
    zsh, put this line into ~/.zshrc: source <(stageguard completion zsh).

    Examples
    --------
    stageguard completion bash
    """
    scripts = {"bash": bash_script, "zsh": lambda: ZSH + bash_script(), "fish": fish_script}
    print(scripts[shell](), end="")


def all_commands() -> Iterator[Command]:
    """Yield all commands, each followed by its subcommands."""
    for name in SHORT_HELP:
        command, _ = find_command([name])
        yield command
        for subcommand in command.subcommands:
            yield find_command([name, subcommand])[0]


def bash_script() -> str:
    """Return the script for bash, which zsh reads too."""
    cases: list[str] = []
    for command in all_commands():
        typed = command.path.removeprefix("stageguard ")
        values = [
            f'    "{typed}"*" {name}") known="{" ".join(option.choices)}" ;;'
            for option in command.options
            if option.choices
            for name in option.names
        ]
        words = " ".join((*command.subcommands, *command.option_names))
        of_command = [*values, f'    "{typed}"|"{typed} "*) known="{words}" ;;']
        cases = [*of_command, *cases] if " " in typed else [*cases, *of_command]
    return BASH.format(cases="\n".join(cases), commands=" ".join((*SHORT_HELP, "--version", *HELP)))


def fish_script() -> str:
    """Return the script for fish, with the line about each command and option."""
    lines = [
        f"complete -c stageguard -n __fish_use_subcommand -a {name} -d {quote(text)}"
        for name, text in SHORT_HELP.items()
    ]
    for command in all_commands():
        name, *sub = command.path.removeprefix("stageguard ").split()
        seen = f"__fish_seen_subcommand_from {name}"
        seen += f"; and __fish_seen_subcommand_from {sub[0]}" if sub else ""
        lines += [f"complete -c stageguard -n {quote(seen)} -a {word}" for word in command.subcommands]
        for one in command.options:
            short = "".join(f" -s {word[1:]}" for word in one.names if not word.startswith("--"))
            names = [word[2:] for word in (*one.names, one.negation) if word.startswith("--")]
            value = "" if one.is_flag else f" -r -a {quote(' '.join(one.choices))}" if one.choices else " -r"
            for long in names:
                about = quote(one.declared.help)
                lines.append(f"complete -c stageguard -n {quote(seen)}{short} -l {long}{value} -d {about}")
                short = ""
    return "\n".join(lines) + "\n"
