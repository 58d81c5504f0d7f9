"""`lgm check`: every error of a model, and of data against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lgmdsl.cli import options
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.exit_status import OK, REFUSED
from lgmdsl.cli.files import paths_of
from lgmdsl.cli.output import diagnose, show, show_json
from lgmdsl.errors import Diagnostic, LgmError
from lgmdsl.language.tree.statements import STATEMENTS

if TYPE_CHECKING:
    from lgmdsl.api.explain.of_shards import ShardsView
    from lgmdsl.api.explain.readings import Readings
    from lgmdsl.language.builder import Model


@click.command("check")
@options.model_argument
@data_argument(required=False)
@options.map_option
@options.json_option
def command(model: str, data: Any, mapping: dict[str, str], as_json: bool) -> int:
    """Check MODEL, and DATA against it where they are given.

    \b
    lgm check model.lgm
    lgm check model.lgm data.npz --map X=features

    Prints every error (20 at most) with its place and a remedy. With DATA, prints what each datum
    was read as, in which order, and how many of its entries are missing; what this version
    parses but cannot fit yet is a warning. Exit status 1 if there is an error.
    """
    from lgmdsl.graph.build import model_graph
    from lgmdsl.graph.warnings import warnings_of

    try:
        checked = options.read_model(model)
        diagnostics, counts = [*warnings_of(model_graph(checked.checked))], _counts(checked)
        known = None
        if data is not None:
            more, sizes, known = _with_data(checked, data, mapping)
            diagnostics += more
            counts = f"{counts}; {sizes}"
    except LgmError as error:
        errors, warnings = _parted(error.diagnostics)
        if as_json:
            _report(model, data, errors, warnings)
        else:
            diagnose(error.diagnostics, error.left_out)
        return REFUSED
    if as_json:
        _report(model, data, (), diagnostics, known)
        return OK
    if diagnostics:
        diagnose(diagnostics)
    show(f"{model}: ok ({counts})")
    if known is not None:
        show(str(known))
    return OK


def _with_data(
    model: Model, data: Any, mapping: dict[str, str]
) -> tuple[list[Diagnostic], str, Readings | ShardsView]:
    """Ground the data, lower the model, build its priors; warnings, the sizes found, and what the
    data were read as; of shards, what they hold."""
    from lgmdsl.shards.given import is_sharded

    if is_sharded(data):
        from lgmdsl.api.explain.of_shards import view_of_shards

        view = view_of_shards(model, data, mapping)
        refused = [replace(d, severity="warning") for d in view.refused]
        return refused, f"{view.data}: {view.rows} rows, {view.groups} groups", view
    from lgmdsl.api.explain.outline import check_priors, outline_of
    from lgmdsl.api.explain.readings import readings

    outline = outline_of(model, data, mapping)
    check_priors(outline)
    warnings = [*outline.grounded.warnings]
    warnings += [replace(d, severity="warning") for d in outline.refused]
    sizes = ", ".join(f"{name} {index.size}" for name, index in outline.grounded.indices.items())
    return warnings, f"{outline.grounded.source}: {sizes}", readings(outline.grounded)


def _counts(model: Model) -> str:
    kinds = [type(s) for s in model.tree.statements]
    parts = [(kinds.count(s.node), s.counted) for s in STATEMENTS if s.counted]
    return ", ".join(f"{n} {word}{'s' if n != 1 else ''}" for n, word in parts if n)


def _parted(
    diagnostics: Sequence[Diagnostic],
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    errors = [d for d in diagnostics if d.severity == "error"]
    return errors, [d for d in diagnostics if d.severity != "error"]


def _report(
    model: str,
    data: Any,
    errors: Sequence[Diagnostic],
    warnings: Sequence[Diagnostic],
    known: Readings | ShardsView | None = None,
) -> None:
    show_json(
        {
            "file": model,
            "data": " ".join(paths_of(data)) or None,
            "ok": not errors,
            "errors": [d.as_json() for d in errors],
            "warnings": [d.as_json() for d in warnings],
            **({} if known is None else known.as_json()),
        }
    )
