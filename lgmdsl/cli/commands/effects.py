"""`lgm effects`: what a covariate does to the response."""

from __future__ import annotations

import warnings
from typing import Any

import click

from lgmdsl.cli import options
from lgmdsl.cli.output import show, show_json, warned


@click.command("effects")
@click.argument("fit", metavar="FIT.nc")
@click.argument("name", metavar="NAME")
@options.gathered(
    "compared",
    click.option(
        "--by", metavar="B", help="Average over each group of a map, a datum or an index."
    ),
    click.option(
        "--kind",
        default="average",
        metavar="K",
        show_default=True,
        help="Rows: average (of the data), conditional (at the means), balanced (a grid).",
    ),
    click.option(
        "--contrast",
        metavar="C",
        help="slope, a step (1), two values (a,b), sd, iqr, minmax, levels; reference, pairwise, "
        "sequential of maps.",
    ),
    click.option(
        "--compare",
        default="difference",
        metavar="D",
        show_default=True,
        help="difference, or ratio.",
    ),
    click.option(
        "--scale",
        default="response",
        metavar="S",
        show_default=True,
        help="response, or link: that of the predictor.",
    ),
    click.option("--response", metavar="Y", help="The response, where several are observed."),
    click.option(
        "--df",
        metavar="W",
        help="t-tests of Gaussian effects, satterthwaite or kenward-roger, with the fit's --data.",
    ),
)
@click.option("--data", metavar="DATA", help="Average over the rows of DATA, not of the fit.")
@click.option(
    "--without", metavar="U", multiple=True, help="Leave a latent out: its members are at 0."
)
@click.option(
    "--draws",
    type=click.IntRange(min=100),
    default=None,
    metavar="N",
    help="Draws, where there is no closed form (4000, or all that the posterior is made of).",
)
@options.quantiles_option
@options.map_option
@options.seed_option
@options.json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print csv.")
def command(
    fit: str,
    name: str,
    compared: dict[str, Any],
    data: str | None,
    without: tuple[str, ...],
    draws: int | None,
    quantiles: tuple[float, ...],
    mapping: dict[str, str],
    seed: int,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Slopes, comparisons and contrasts of the expected response in the covariate NAME, from the
    result in FIT.nc; `X[age]` is one column of a matrix.

    \b
    lgm effects model.fit.nc age
    lgm effects model.fit.nc dose --contrast 0,10 --by sex
    lgm effects model.fit.nc treatment --kind balanced --contrast levels
    lgm effects model.fit.nc treatment --compare ratio --scale response
    lgm effects model.fit.nc dose --df kenward-roger --data data.csv

    Defined as in R's marginaleffects (average, conditional) and emmeans (balanced);
    `fit.effects` in the manual says how.
    """
    if as_json and as_csv:
        raise click.UsageError("--json or --csv, not both", click.get_current_context())
    from lgmdsl.api.effects.effects import EffectSettings, effect_columns
    from lgmdsl.api.fit.restore import load_fit
    from lgmdsl.cli.tables import csv_of, records

    compared["contrast"] = _contrast(compared["contrast"])
    asked = EffectSettings(**compared, without=without, quantiles=quantiles, n=draws, seed=seed)
    result = load_fit(fit)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        columns = effect_columns(result, name, asked, data, mapping)
    for warning in said:
        warned(warning.message)
    if as_json:
        show_json({"fit": fit, "effects": records(columns)})
    elif as_csv:
        show(csv_of(columns), end="")
    else:
        show(_page(columns))


def _contrast(text: str | None) -> object:
    """A word, a number, or two values."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1:
        try:
            return float(text)
        except ValueError:
            return text
    try:
        return tuple(float(part) for part in parts)
    except ValueError:
        return tuple(parts)


def _page(columns: dict[str, object]) -> str:
    """The table, numbers with the digits that their sd needs."""
    import numpy as np

    from lgmdsl.api.assess.coefficient_tests import TESTED
    from lgmdsl.api.page import columns as aligned
    from lgmdsl.api.summary.table import cells

    values = {k: np.asarray(v).tolist() for k, v in columns.items()}
    numbers = [*values][[*values].index("estimate") :]
    labels = [k for k in values if k not in numbers]
    rows: list[tuple[str, ...]] = [(*labels, *numbers)]
    tested = [n for n in TESTED if n in numbers]
    for k in range(len(values["estimate"])):
        row = {n: float(values[n][k]) for n in numbers}
        tests = tuple(f"{row.pop(n):.4g}" for n in tested)
        mean, sd, *quantiles = cells(row.pop("estimate"), row.pop("sd"), [*row.values()])
        rows.append((*(str(values[n][k]) for n in labels), mean, sd, *tests, *quantiles))
    return "\n".join(aligned(rows, right=range(len(labels), len(labels) + len(numbers))))
