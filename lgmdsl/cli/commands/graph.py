"""`lgm graph`: a picture of a model."""

from __future__ import annotations

import click

from lgmdsl import files
from lgmdsl.cli import options
from lgmdsl.cli.output import note, show, show_json

FORMATS = ("dot", "mermaid", "svg")


@click.command("graph")
@options.model_argument
@click.option("--to", "to", type=click.Choice(FORMATS), help="The language of the picture.")
@click.option("-o", "--output", metavar="FILE", help="Write it there instead of to stdout.")
@options.json_option
def command(model: str, to: str | None, output: str | None, as_json: bool) -> None:
    """Draw MODEL: latents, data, hyperparameters, sites, and plates around what repeats.

    \b
    lgm graph model.lgm --to svg -o model.svg
    lgm graph model.lgm --to mermaid

    Without --to the ending of FILE decides; to stdout it is mermaid. --json prints nodes and edges.
    """
    from lgmdsl.graph.build import model_graph

    graph = model_graph(options.read_model(model).checked)
    if as_json:
        show_json(
            {
                "nodes": [
                    {"id": n.id, "kind": n.kind, "label": n.label, "dims": n.dims, "type": n.type,
                     "detail": n.detail, "doc": n.doc}
                    for n in graph.nodes
                ],
                "edges": [
                    {"source": e.source, "target": e.target, "role": e.role,
                     "argument": e.argument}
                    for e in graph.edges
                ],
                "plates": [
                    {"index": i.name, "size": i.size, "labels": i.labels, "doc": i.doc}
                    for i in graph.index_sets
                ],
            }
        )  # fmt: skip
        return
    language = to or _by_ending(output)
    if language == "dot":
        from lgmdsl.graph.draw.text_formats import to_dot as draw
    elif language == "svg":
        from lgmdsl.graph.draw.svg import to_svg as draw
    else:
        from lgmdsl.graph.draw.text_formats import to_mermaid as draw
    picture = draw(graph)
    if not picture.endswith("\n"):
        picture += "\n"
    if output is None:
        show(picture, end="")
        return
    from lgmdsl.cli.files import writable

    place = writable(output, (".svg", ".dot", ".gv", ".mmd", ".md", ".txt"), {"the model": model})
    files.write(place, picture.encode("utf-8"))
    note(f"{output}: written")


def _by_ending(output: str | None) -> str:
    ending = (output or "").rpartition(".")[2]
    return {"svg": "svg", "dot": "dot", "gv": "dot"}.get(ending, "mermaid")
