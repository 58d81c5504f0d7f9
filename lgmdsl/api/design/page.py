"""How a design and a choice of measurements are shown: a page, JSON, a picture of the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lgmdsl.api.page import columns, counted, wrapped
from lgmdsl.contract.status import Status
from lgmdsl.errors import MethodError
from lgmdsl.plot.canvas import check_matplotlib
from lgmdsl.plot.comparison import learning_picture
from lgmdsl.remedies import either

if TYPE_CHECKING:
    from lgmdsl.acquisition.sequence import Query
    from lgmdsl.api.design.design import Design
    from lgmdsl.api.design.measurements import LineChoice, MeasurementDesign, MeasurementPoint

# Queries or lines that are listed on the page; JSON and record hold all.
SHOWN = 40


def table(design: Design) -> str:
    """A page of 80 columns: the queries, and the course or what to do next."""
    asked = design.task.oracle is not None
    kind = "queries" if asked else "next queries"
    start = (
        f"{counted(design.labelled, 'labelled case')}, {counted(len(design.labels), 'candidate')}"
    )
    heads = ["query", design.index, "score", f"P({design.response} = 1)"]
    queries = [[*heads, design.response] if asked else heads]
    queries += [_row(design, q) for q in design.queries]
    course = []
    if asked:
        tested = design.task.test is not None
        course = [["labels", "log evidence", *(["test error"] if tested else [])]]
        for point in design.course:
            course.append([f"{design.labelled + point.included}", f"{point.log_evidence:.4f}"])
            if point.test_error is not None:
                course[-1].append(f"{100 * point.test_error:.2f} %")
    advice = (
        "No oracle was given: each query counts with its expected weight for those that follow, "
        "and leaves the means. Label some, add them to the data, and run again."
    )
    lines = [f"{kind} by {design.task.score}: {start}", "", *_page(queries, course, advice)]
    if design.interrupted:
        lines += ["", f"interrupted after {len(design.queries)} of {design.wanted} queries"]
    return "\n".join(lines)


def _page(choices: list[list[str]], course: list[list[str]], advice: str) -> list[str]:
    """Lines of the choices under their heads, and of the course, or of the advice without one."""
    lines = columns(choices[: SHOWN + 1], 0, tuple(range(len(choices[0]))))
    if len(choices) > SHOWN + 1:
        lines.append(f"... and {len(choices) - 1 - SHOWN} more (--json has all)")
    if len(course) > SHOWN:
        course = [course[0], *course[1 :: len(course) // SHOWN + 1], course[-1]]
    if course:
        lines += ["", *columns(course, 0, (0, 1, 2))]
    elif len(choices) > 1:
        lines += ["", *wrapped(advice)]
    return lines


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
    tested = [p for p in design.course if p.test_error is not None]
    errors = [p.test_error for p in tested if p.test_error is not None]
    _check_errors(errors, "test cases with labels")
    labels = [design.labelled + p.included for p in tested]
    return learning_picture(f"Active learning by {design.task.score}", labels, errors, format)


def _check_errors(errors: list[float], wanted: str) -> None:
    check_matplotlib()
    if not errors:
        help = f"give {wanted}: {either('--test FILE', 'test=DATA')}"
        raise MethodError.of("E501", "there is no test error to draw", help=help)


# ---- measurements ------------------------------------------------------------------------------


def measurements_table(design: MeasurementDesign) -> str:
    """A page of 80 columns: the lines, and the course or what to do next."""
    kind = "lines" if design.asked else "next lines"
    start = (
        f"{counted(design.course[0].measured, 'value')} of `{design.response}` measured, "
        f"{counted(len(design.lines), 'line')} of `{design.by}` left"
    )
    choices = [["choice", design.by, "values", "information"], *map(_choice, design.choices)]
    course = []
    if design.asked:
        tested = design.course[0].test_error is not None
        course = [["measured", "log evidence", *(["RMS test error"] if tested else []), "status"]]
        course += [_point(point) for point in design.course]
        if all(point.status is Status.converged for point in design.course):
            course = [row[:-1] for row in course]
    advice = (
        "No oracle was given: each line narrows the posterior for those that follow, at the "
        "weights that the potentials have now. Measure some, add their values to the data, and "
        "run again."
    )
    lines = [f"{kind} by {design.score}: {start}", "", *_page(choices, course, advice)]
    if design.interrupted:
        lines += ["", f"interrupted after {len(design.choices)} of {design.wanted} lines"]
    return "\n".join(lines)


def _choice(choice: LineChoice) -> list[str]:
    score = "-" if choice.score is None else f"{choice.score:.6g}"
    return [f"{choice.number}", f"{choice.line}", f"{choice.values}", score]


def _point(point: MeasurementPoint) -> list[str]:
    error = [] if point.test_error is None else [f"{point.test_error:.4g}"]
    return [f"{point.measured}", f"{point.log_evidence:.4f}", *error, point.status.name]


def measurements_json(design: MeasurementDesign) -> dict[str, object]:
    """The lines and the course."""
    return {
        "by": design.by, "score": design.score, "method": design.method,
        "response": design.response, "candidates": len(design.lines), "steps": design.wanted,
        "interrupted": design.interrupted,
        "choices": [
            {"choice": c.number, "line": c.line, "values": c.values, "score": c.score,
             "computed": c.computed}
            for c in design.choices
        ],
        "course": [
            {"lines": p.included, "measured": p.measured, "log_evidence": p.log_evidence,
             "test_error": p.test_error, "status": p.status.name}
            for p in design.course
        ],
    }  # fmt: skip


def measurements_picture(design: MeasurementDesign, format: str) -> bytes:
    """Test error against measured values. Raises MethodError E501 where there is none."""
    errors = [p.test_error for p in design.course if p.test_error is not None]
    _check_errors(errors, "values to compare with")
    measured = [p.measured for p in design.course]
    title = f"Lines of {design.by} by {design.score}"
    axes = (f"measured values of {design.response}", "RMS test error")
    return learning_picture(title, measured, errors, format, axes, 1.0)
