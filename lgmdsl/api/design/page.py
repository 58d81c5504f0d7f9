"""How a design is shown: a page, JSON, a picture of the test error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lgmdsl.api.page import columns, counted, wrapped
from lgmdsl.errors import MethodError
from lgmdsl.remedies import either

if TYPE_CHECKING:
    from lgmdsl.acquisition.sequence import Query
    from lgmdsl.api.design.design import Design

# Queries that are listed on the page; JSON and record hold all.
SHOWN = 40


def table(design: Design) -> str:
    """A page of 80 columns."""
    asked = design.task.oracle is not None
    kind = "queries" if asked else "next queries"
    start = (
        f"{counted(design.labelled, 'labelled case')}, {counted(len(design.labels), 'candidate')}"
    )
    lines = [f"{kind} by {design.task.score}: {start}", ""]
    heads = ["query", design.index, "score", f"P({design.response} = 1)"]
    rows = [[*heads, design.response] if asked else heads]
    rows += [_row(design, q) for q in design.queries[:SHOWN]]
    lines += columns(rows, 0, (0, 1, 2, 3, 4))
    if len(design.queries) > SHOWN:
        lines.append(f"... and {len(design.queries) - SHOWN} more (--json has all)")
    if asked:
        tested = design.task.test is not None
        rows = [["labels", "log evidence", *(["test error"] if tested else [])]]
        for point in design.course:
            rows.append([f"{design.labelled + point.included}", f"{point.log_evidence:.4f}"])
            if point.test_error is not None:
                rows[-1].append(f"{100 * point.test_error:.2f} %")
        if len(rows) > SHOWN:
            rows = [rows[0], *rows[1 :: len(rows) // SHOWN + 1], rows[-1]]
        lines += ["", *columns(rows, 0, (0, 1, 2))]
    elif design.queries:
        lines += [
            "",
            *wrapped(
                "No oracle was given: each query counts with its expected weight for those that "
                "follow, and leaves the means. Label some, add them to the data, and run again."
            ),
        ]
    if design.interrupted:
        lines += ["", f"interrupted after {len(design.queries)} of {design.wanted} queries"]
    return "\n".join(lines)


def _row(design: Design, query: Query) -> list[str]:
    score = "-" if query.score is None else f"{query.score:.6f}"
    cells = [f"{query.number}", f"{design.labels[query.row]}", score, f"{query.probability:.4f}"]
    return cells if query.label is None else [*cells, f"{query.label:.0f}"]


def as_json(design: Design) -> dict[str, object]:
    """The queries and the course; a query's `case` is its label in the index."""
    return {
        "score": design.task.score, "seed": design.task.seed, "block": design.task.block,
        "steps": design.wanted, "labelled": design.labelled, "candidates": len(design.labels),
        "index": design.index, "response": design.response, "interrupted": design.interrupted,
        "queries": [
            {"query": q.number, "row": q.row, "case": design.labels[q.row].item(),
             "score": q.score, "probability": q.probability,
             "label": None if q.label is None else int(q.label)}
            for q in design.queries
        ],
        "course": [
            {"labels": design.labelled + p.included, "log_evidence": p.log_evidence,
             "test_error": p.test_error}
            for p in design.course
        ],
    }  # fmt: skip


def picture(design: Design, format: str) -> bytes:
    """Test error against labels. Raises MethodError E501 where there is none."""
    from lgmdsl.plot.canvas import check_matplotlib
    from lgmdsl.plot.comparison import learning_picture

    check_matplotlib()
    tested = [p for p in design.course if p.test_error is not None]
    if not tested:
        message = "there is no test error to draw"
        help = f"give test cases with labels: {either('--test FILE', 'test=DATA')}"
        raise MethodError.of("E501", message, help=help)
    labels = [design.labelled + p.included for p in tested]
    errors = [p.test_error for p in tested if p.test_error is not None]
    return learning_picture(f"Active learning by {design.task.score}", labels, errors, format)
