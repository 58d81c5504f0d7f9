"""How a design is shown: a page, JSON, a picture of the test error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lgmdsl.api.page import columns, counted, wrapped
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.remedies import either

if TYPE_CHECKING:
    from lgmdsl.acquisition.sequence import Query
    from lgmdsl.api.design.design import Design

# Queries that are listed on the page; JSON and record hold all.
SHOWN = 40


def table(found: Design) -> str:
    """A page of 80 columns."""
    asked = found.task.oracle is not None
    kind = "queries" if asked else "next queries"
    start = f"{counted(found.labelled, 'labelled case')}, {counted(len(found.labels), 'candidate')}"
    lines = [f"{kind} by {found.task.score}: {start}", ""]
    heads = ["query", found.index, "score", f"P({found.response} = 1)"]
    rows = [[*heads, found.response] if asked else heads]
    rows += [_row(found, q) for q in found.queries[:SHOWN]]
    lines += columns(rows, 0, (0, 1, 2, 3, 4))
    if len(found.queries) > SHOWN:
        lines.append(f"... and {len(found.queries) - SHOWN} more (--json has all)")
    if asked:
        tested = found.task.test is not None
        rows = [["labels", "log evidence", *(["test error"] if tested else [])]]
        for point in found.course:
            rows.append([f"{found.labelled + point.included}", f"{point.log_evidence:.4f}"])
            if point.test_error is not None:
                rows[-1].append(f"{100 * point.test_error:.2f} %")
        if len(rows) > SHOWN:
            rows = [rows[0], *rows[1 :: len(rows) // SHOWN + 1], rows[-1]]
        lines += ["", *columns(rows, 0, (0, 1, 2))]
    elif found.queries:
        lines += [
            "",
            *wrapped(
                "Nobody was asked: each query counts with its expected weight on those that follow, "
                "and leaves the means. Label some, add them to the data, and ask again."
            ),
        ]
    if found.interrupted:
        lines += ["", f"interrupted after {len(found.queries)} of {found.wanted} queries"]
    return "\n".join(lines)


def _row(found: Design, query: Query) -> list[str]:
    score = "-" if query.score is None else f"{query.score:.6f}"
    cells = [f"{query.number}", f"{found.labels[query.row]}", score, f"{query.probability:.4f}"]
    return cells if query.label is None else [*cells, f"{query.label:.0f}"]


def as_json(found: Design) -> dict[str, object]:
    """The queries and the course; a query's `case` is its label in the index."""
    return {
        "score": found.task.score, "seed": found.task.seed, "block": found.task.block,
        "steps": found.wanted, "labelled": found.labelled, "candidates": len(found.labels),
        "index": found.index, "response": found.response, "interrupted": found.interrupted,
        "queries": [
            {"query": q.number, "row": q.row, "case": found.labels[q.row].item(),
             "score": q.score, "probability": q.probability,
             "label": None if q.label is None else int(q.label)}
            for q in found.queries
        ],
        "course": [
            {"labels": found.labelled + p.included, "log_evidence": p.log_evidence,
             "test_error": p.test_error}
            for p in found.course
        ],
    }  # fmt: skip


def picture(found: Design, format: str) -> bytes:
    """Test error against labels. Raises MethodError E501 where there is none."""
    from lgmdsl.api.pictures.compare_picture import check_matplotlib
    from lgmdsl.plot.learning import learning_picture

    check_matplotlib()
    tested = [p for p in found.course if p.test_error is not None]
    if not tested:
        told = "there is no test error to draw"
        help = f"give test cases with labels: {either('--test FILE', 'test=DATA')}"
        raise MethodError(Diagnostic("E501", told, help=help))
    labels = [found.labelled + p.included for p in tested]
    errors = [p.test_error for p in tested if p.test_error is not None]
    return learning_picture(f"Active learning by {found.task.score}", labels, errors, format)
