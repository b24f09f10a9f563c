"""envkit completion."""

import click


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print the script that completes envkit's commands, options and environment names.

    \b
    Examples:
      eval "$(envkit completion bash)"        in ~/.bashrc
      envkit completion fish > ~/.config/fish/completions/envkit.fish
    """
    from click.shell_completion import get_completion_class

    from envkit.cli import group

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(group, {}, "envkit", "_ENVKIT_COMPLETE").source())
