"""`lgm fmt`: model files in the canonical format, written whole or not at all."""

from __future__ import annotations

import click

from lgmdsl.cli import options
from lgmdsl.cli.exit_status import OK, REFUSED
from lgmdsl.cli.output import diagnose, note, show, show_json
from lgmdsl.errors import LgmError, ModelError
from lgmdsl.files import write


@click.command("fmt")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; list the files that would change.")
@options.json_option
def command(files: tuple[str, ...], check: bool, as_json: bool) -> int:
    """Rewrite model files in place, or stdin to stdout with `-`.

    \b
    lgm fmt model.lgm
    lgm fmt --check models/*.lgm
    lgm fmt - < model.lgm

    Comments and meaning are kept. A file with errors of syntax is left as it is. With --check the
    exit status is 1 if a file would change.
    """
    status, results = OK, []
    for file in files:
        entry: dict[str, object] = {"file": file, "changed": False, "errors": []}
        results.append(entry)
        try:
            before = _read(file)
            after = formatted(before, "<stdin>" if file == "-" else file)
            if after != before and file != "-" and not check:
                write(file, after.encode("utf-8"))
        except LgmError as error:
            status = REFUSED
            entry["errors"] = [d.as_json() for d in error.diagnostics]
            if not as_json:
                diagnose(error.diagnostics, error.left_out)
            continue
        changed = after != before
        entry["changed"] = changed
        if check:
            if changed:
                status = REFUSED
                if not as_json:
                    show(file)
        elif file == "-":
            if as_json:
                entry["text"] = after
            else:
                show(after, end="")
        elif changed and not as_json:
            note(f"{file}: formatted")
    if as_json:
        show_json({"files": results})
    return status


def formatted(text: str, name: str) -> str:
    """The text in the canonical format. Raises ModelError for errors of syntax."""
    from lgmdsl.language.parse.parse import parse_all
    from lgmdsl.language.tree.print_model import print_model

    parsed = parse_all(text, name)
    if parsed.diagnostics:
        raise ModelError(parsed.diagnostics)
    after = print_model(parsed.tree)
    again = parse_all(after, name)
    if again.diagnostics or again.tree != parsed.tree:
        raise RuntimeError("the formatter would change the meaning of the file; it is left as is")
    return after


def _read(file: str) -> str:
    from lgmdsl.language.load import read_text

    return options.read_stdin() if file == "-" else read_text(file)
