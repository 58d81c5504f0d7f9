"""Messages of failed commands, as text on stderr or with --json as JSON on stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from lgmdsl.cli.group import COMMANDS
from lgmdsl.cli.output import diagnose, note, show_json
from lgmdsl.errors import LgmError, meant, nearest
from lgmdsl.visible import visible

USUAL = {
    "check": "lgm check model.lgm data.npz",
    "fmt": "lgm fmt model.lgm",
    "new": "lgm new data.csv > model.lgm",
    "info": "lgm info model.lgm data.npz",
    "explain": "lgm explain model.lgm data.npz",
    "graph": "lgm graph model.lgm --to svg -o model.svg",
    "methods": "lgm methods model.lgm",
    "fit": "lgm fit model.lgm data.npz -o model.fit.nc",
    "shard": "lgm shard rows.parquet --by group -o rows.shards",
    "compare": "lgm compare model.lgm data.npz --plot compare.png",
    "summary": "lgm summary model.fit.nc",
    "predict": "lgm predict model.fit.nc new.csv -o predictions.csv",
    "effects": "lgm effects model.fit.nc x --contrast 1",
    "impute": "lgm impute model.lgm data.npz -o filled.npz",
    "plot": "lgm plot model.fit.nc --out pictures",
    "design": "lgm design model.lgm labelled.npz --candidates pool.npz",
    "simulate": "lgm simulate model.lgm --sizes obs=100,feat=3 -o data.npz",
    "calibrate": "lgm calibrate model.lgm --sizes obs=200,feat=3 --runs 200",
    "help": "lgm help E203",
}


def refused(error: LgmError, as_json: bool) -> None:
    """An error in the model, the data or the choice of method."""
    if as_json:
        show_json({"errors": [d.as_json() for d in error.diagnostics], "left_out": error.left_out})
    else:
        diagnose(error.diagnostics, error.left_out)


# The commands whose first argument is a model and whose second is data.
MODEL_FIRST = ("check", "info", "explain", "fit", "compare", "impute", "design")

# Click's messages about numbers, in plainer words.
PLAIN = {
    "is not a valid float range": "is not a number",
    "is not a valid integer range": "is not a whole number",
    "Got unexpected extra arguments": "there are arguments too many:",
    "Got unexpected extra argument": "there is an argument too many:",
}


def usage(error: click.UsageError, arguments: Sequence[str], as_json: bool) -> None:
    """Wrong usage of the command line `arguments`: what is wrong, what it should look like."""
    context, commands = error.ctx, tuple(COMMANDS)
    name = context.info_name if context is not None and context.parent is not None else None
    if context is None:  # click does not always say which command it was
        name = next((word for word in arguments if word in COMMANDS), None)
    message = error.format_message()
    for words, plain in PLAIN.items():
        message = message.replace(words, plain)
    help = ""
    if name is None and message.startswith("No such command"):
        typed = message.split("'")[1] if "'" in message else ""
        message = f"there is no command `{typed}`"
        close = nearest(typed, commands)
        if close:
            help = meant(f"lgm {close}")
        elif typed.endswith(".lgm"):
            help = f"name a command first: lgm check {typed}"
        else:
            help = f"commands: {' '.join(commands)}"
    elif name in USUAL:
        help = f"{USUAL[name]}   (lgm {name} --help says more)"
    elsewhere = _elsewhere(error) if isinstance(error, click.NoSuchOption) else ""
    if elsewhere:
        message, _, _ = message.partition(". ")
        help = f"{elsewhere}; {help}" if help else elsewhere
    if isinstance(error, click.MissingParameter):
        message = message.rstrip(".") + _in_place_of_model(arguments)
    message = visible(message[:1].lower() + message[1:]).rstrip(".")
    if as_json:
        failure = {"severity": "error", "code": "usage", "message": message, "range": None}
        show_json({"errors": [{**failure, "help": help}]})
        return
    note(f"lgm {name}: {message}" if name else f"lgm: {message}")
    note(f"  = help: {help or 'lgm --help lists the commands'}")


def _elsewhere(error: click.NoSuchOption) -> str:
    """The option that other software calls as the one that does not exist."""
    from lgmdsl.api.fit.options import remedy
    from lgmdsl.remedies import on_command_line

    return on_command_line(remedy(error.option_name.lstrip("-")))


def _in_place_of_model(arguments: Sequence[str]) -> str:
    """Words on a command that wants a model and data, whose only file holds data or a result."""
    from lgmdsl.language.load import HOLD_DATA

    files = [word for word in arguments[1:] if not word.startswith("-")][:1]
    wrong = [f for f in files if f.lower().endswith(HOLD_DATA)]
    first = "MODEL" if wrong and arguments[0] in MODEL_FIRST else ""
    return f", and `{wrong[0]}` is no {first} but data or a saved fit" if first else ""


def system(error: OSError, as_json: bool) -> None:
    """A file that cannot be written, a full disk."""
    reason = (error.strerror or str(error)).lower()
    where = f" `{error.filename}`" if error.filename else ""
    _plain("E306", f"the system refused{where}: {reason}", as_json)


def memory(as_json: bool) -> None:
    """The machine has too little memory."""
    _plain("E505", "there is not enough memory for this model and data", as_json)


def interrupted(as_json: bool) -> None:
    """Ctrl-C where no result exists yet."""
    if as_json:
        _plain("interrupted", "interrupted before there was a result", as_json)
    else:
        note("\nlgm: interrupted before there was a result")


def defect(error: Exception, as_json: bool) -> None:
    """A defect in the program: a short message that asks for a report."""
    if os.environ.get("LGM_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    lines = str(error).strip().split("\n")
    description = visible(f"{type(error).__name__}: {lines[0][:200]}".rstrip(": "))
    if as_json:
        _plain("defect", description, as_json)
        return
    note(f"lgm: a defect in lgm itself: {description}")
    note("  = help: please report it, with this line, the command and the model file")
    note("  = note: LGM_TRACEBACK=1 shows where it happened")


def _plain(code: str, message: str, as_json: bool) -> None:
    if as_json:
        failure = {"severity": "error", "code": code, "message": message, "range": None, "help": ""}
        show_json({"errors": [failure]})
    else:
        note(f"error[{code}]: {message}")
