"""The commands by name: each is imported when it runs, its one line of help is here."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "check": "Check a model, and data against it.",
    "new": "Write a model for a table to begin with.",
    "fmt": "Rewrite model files in the canonical format.",
    "info": "List what a model declares.",
    "explain": "Show what the compiler makes of a model, and what can run it.",
    "graph": "Draw a model as dot, mermaid or svg.",
    "methods": "Show which sites each method can take.",
    "fit": "Fit a model to data.",
    "shard": "Split a table by groups, for fits of more rows than memory holds.",
    "compare": "Fit with several methods and compare them.",
    "summary": "Print a saved fit.",
    "plot": "Draw a saved fit.",
    "predict": "Predict new rows from a saved fit.",
    "effects": "Slopes and contrasts of the response, from a saved fit.",
    "impute": "Complete data: predict what is missing of them.",
    "simulate": "Draw a data set from a model.",
    "calibrate": "Test a method on data drawn from a model.",
    "design": "Choose the cases to label next.",
    "help": "Explain an error code, a command, or any other word.",
}


class LazyGroup(click.Group):
    """A group whose commands live in `lgmdsl.cli.<name>` as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"lgmdsl.cli.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
