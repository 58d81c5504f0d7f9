"""DATA and --data: a file of data, and as many more as have a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from lgmdsl.cli.options import split
from lgmdsl.files import irregular

F = TypeVar("F", bound=Callable[..., Any])
_NAMED = re.compile(r"[A-Za-z][A-Za-z0-9_]*=")


def data_argument(required: bool) -> Callable[[F], F]:
    """DATA: a path to npz, csv, parquet or nc; and --data NAME=FILE for more, as often as wanted.

    The command takes both as `data`: a path, or a list of a path and a dict of paths.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def joined(*positional: Any, tables: dict[str, str], **named: Any) -> Any:
            if named["data"] is None and not tables and required:
                context = click.get_current_context()
                parameter = next(p for p in context.command.params if p.name == "data")
                raise click.MissingParameter(ctx=context, param=parameter)
            named["data"] = sources(named["data"], tables)
            return function(*positional, **named)

        option = click.option(
            "--data",
            "tables",
            metavar="NAME=FILE",
            multiple=True,
            callback=_tables,
            help="A table over an index (named by it, or by a map into it), or a graph.",
        )
        argument = click.argument("data", metavar="DATA" if required else "[DATA]", required=False)
        return cast(F, argument(option(joined)))

    return decorate


def earlier_data_option(help: str) -> Callable[[F], F]:
    """--data FILE and --data NAME=FILE: the data of a fit, joined as by `data_argument`."""
    whole = f"{help} NAME=FILE: a table."
    return click.option("--data", metavar="FILE", multiple=True, callback=_earlier, help=whole)


def sources(main: str | None, tables: dict[str, str]) -> Any:
    """A path, or a list of it and the files that have names; None where there is nothing. Raises
    DataError E306 for pipes and devices, before anything else is loaded."""
    for path in [*([] if main is None else [main]), *tables.values()]:
        if irregular(path):
            from lgmdsl.dataset.refusals import check_regular

            check_regular(Path(path))
    if not tables:
        return main
    paths = {name: Path(path) for name, path in tables.items()}
    return [paths] if main is None else [main, paths]


def _tables(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    form = "NAME=FILE (NAME is an index, a map or a graph of the model)"
    return split(texts, "--data", form)


def _earlier(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> Any:
    named = [text for text in texts if _NAMED.match(text) and not Path(text).exists()]
    plain = [text for text in texts if text not in named]
    if len(plain) > 1:
        raise click.UsageError(
            "--data takes one FILE; others as NAME=FILE", click.get_current_context(silent=True)
        )
    return sources(plain[0] if plain else None, split(named, "--data", "NAME=FILE"))
