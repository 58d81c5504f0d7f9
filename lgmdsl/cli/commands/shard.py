"""`lgm shard`: a table split by groups, for fits of more rows than one machine holds."""

from __future__ import annotations

import click

from lgmdsl.cli import options
from lgmdsl.cli.output import note, show, show_json


@click.command("shard")
@click.argument("rows", metavar="ROWS.parquet")
@click.option("--by", required=True, metavar="DATUM", help="The column that maps rows to groups.")
@click.option("-o", "--output", required=True, metavar="DIR", help="The new folder of shards.")
@click.option(
    "--shards", type=int, metavar="N", help="How many (default: one for each 4 million rows)."
)
@options.json_option
def command(rows: str, by: str, output: str, shards: int | None, as_json: bool) -> None:
    """Split ROWS.parquet by groups into a folder of shards for `lgm fit`, whole groups to each.

    \b
    lgm shard visits.parquet --by patient -o visits.shards
    lgm fit model.lgm visits.shards --method laplace --jobs 2 -o visits.fit.nc

    The table is read by batches and sorted shard by shard, so that no more than one shard is in
    memory. The folder holds the shards and manifest.json, with the number of rows and groups and
    the sha256 of each. Digits of a fit depend on the shards, not on who works on them.
    """
    from lgmdsl.api.streaming import reporting
    from lgmdsl.cli.progress import Progress
    from lgmdsl.shards.split import split

    with Progress() as progress:
        made = split(rows, by, output, shards, reporting(progress.on_step))
    if as_json:
        show_json(made.fields())
        return
    lines = [f"{'shard':<24} {'rows':>12} {'groups':>12}"]
    for shard in made.shards:
        lines.append(f"{shard.name:<24} {shard.rows:>12,} {shard.groups:>12,}")
    lines.append(f"{'':<24} {made.rows:>12,} {made.groups:>12,}")
    show("\n".join(lines) + "\n")
    note(f"wrote {output}")
