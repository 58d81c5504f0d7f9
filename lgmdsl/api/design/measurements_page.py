"""How a choice of measurements is shown: a page, JSON, a picture of the test error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lgmdsl.api.page import columns, counted, wrapped
from lgmdsl.contract.status import Status
from lgmdsl.errors import MethodError
from lgmdsl.remedies import either

if TYPE_CHECKING:
    from lgmdsl.api.design.measurements import LineChoice, MeasurementDesign, MeasurementPoint

# Lines that are listed on the page; JSON has all.
SHOWN = 40


def table(design: MeasurementDesign) -> str:
    """A page of 80 columns."""
    kind = "lines" if design.asked else "next lines"
    start = (
        f"{counted(design.course[0].measured, 'value')} of `{design.response}` measured, "
        f"{counted(len(design.lines), 'line')} of `{design.by}` left"
    )
    lines = [f"{kind} by {design.score}: {start}", ""]
    rows = [["choice", design.by, "values", "information"]]
    rows += [_row(choice) for choice in design.choices[:SHOWN]]
    lines += columns(rows, 0, (0, 1, 2, 3))
    if len(design.choices) > SHOWN:
        lines.append(f"... and {len(design.choices) - SHOWN} more (--json has all)")
    if design.asked:
        tested = design.course[0].test_error is not None
        rows = [["measured", "log evidence", *(["RMS test error"] if tested else []), "status"]]
        rows += [_point(point) for point in design.course]
        if all(point.status is Status.converged for point in design.course):
            rows = [row[:-1] for row in rows]
        if len(rows) > SHOWN:
            rows = [rows[0], *rows[1 :: len(rows) // SHOWN + 1], rows[-1]]
        lines += ["", *columns(rows, 0, (0, 1, 2))]
    elif design.choices:
        lines += [
            "",
            *wrapped(
                "No oracle was given: each line narrows the posterior for those that follow, at "
                "the weights that the potentials have now. Measure some, add their values to the "
                "data, and run again."
            ),
        ]
    if design.interrupted:
        lines += ["", f"interrupted after {len(design.choices)} of {design.wanted} lines"]
    return "\n".join(lines)


def _row(choice: LineChoice) -> list[str]:
    score = "-" if choice.score is None else f"{choice.score:.6g}"
    return [f"{choice.number}", f"{choice.line}", f"{choice.values}", score]


def _point(point: MeasurementPoint) -> list[str]:
    error = [] if point.test_error is None else [f"{point.test_error:.4g}"]
    return [f"{point.measured}", f"{point.log_evidence:.4f}", *error, point.status.name]


def as_json(design: MeasurementDesign) -> dict[str, object]:
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


def picture(design: MeasurementDesign, format: str) -> bytes:
    """Test error against measured values. Raises MethodError E501 where there is none."""
    from lgmdsl.plot.canvas import check_matplotlib
    from lgmdsl.plot.comparison import learning_picture

    check_matplotlib()
    measured = [p.measured for p in design.course]
    errors = [p.test_error for p in design.course if p.test_error is not None]
    if not errors:
        message = "there is no test error to draw"
        help = f"give values to compare with: {either('--test FILE', 'test=DATA')}"
        raise MethodError.of("E501", message, help=help)
    title = f"Lines of {design.by} by {design.score}"
    axes = (f"measured values of {design.response}", "RMS test error")
    return learning_picture(title, measured, errors, format, axes, 1.0)
