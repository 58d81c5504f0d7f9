"""A calibration on a page of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lgmdsl.html as html
from lgmdsl.api.calibrate.claims import found
from lgmdsl.api.calibrate.placed import is_reported
from lgmdsl.api.page import columns, counted, wrapped

if TYPE_CHECKING:
    from lgmdsl.api.calibrate.calibrate import Calibration
    from lgmdsl.assess.uniformity import Uniformity

HEADER = ("quantity", "runs", "bias", "sd", "in 50 %", "in 90 %", "p", "W609")
RIGHT = (1, 2, 3, 4, 5, 7)
WIDEST, SHOWN = 26, 40
FAILURES = 3
FIRST = 12  # quantities in a notebook
# Of draws that are zero along flat directions. With normal responses a posterior moves along with
# the truth in them, so that its errors do not depend on where that is.
FLAT = "no matter where responses are normal; elsewhere ranks of these latents may be off by it"


def page(calibration: Calibration) -> str:
    """The quantities, the worst first, then what was claimed and found, and the verdict."""
    c = calibration
    lines = [f"calibration of {c.method}, seed {c.task.settings.seed}", ""]
    if c.tests:
        rows = [HEADER, *(_row(c, n) for n in c.worst_first[:SHOWN])]
        lines += columns(rows if c.claims.names else [row[:-1] for row in rows], 0, RIGHT)
        if len(c.tests) > SHOWN:
            lines.append(f"... and {len(c.tests) - SHOWN} more")
        lines += ["", *wrapped(_legend(c)), "", *wrapped(c.claims.sentence, 0, 2)]
        reported = {n: t for n, t in c.tests.items() if is_reported(n)}
        lines += wrapped(found(reported), 0, 2) if reported else []
    for note in c.notes:
        lines += ["", *wrapped(f"{note}; {FLAT}", 0, 2)]
    if c.unfinished:
        lines += ["", f"{counted(c.unfinished, 'fit')} did not converge (counted)"]
    for outcome in c.failed[:FAILURES]:
        lines += wrapped(f"run {outcome.number} failed: {outcome.failure}", 0, 2)
    if len(c.failed) > FAILURES:
        lines.append(f"... and {len(c.failed) - FAILURES} more failed")
    if c.interrupted:
        lines.append(f"interrupted after {len(c.outcomes)} of {c.wanted} runs")
    return "\n".join([*lines, "", *wrapped(c.verdict, 0, 2)])


def _row(c: Calibration, name: str) -> tuple[str, ...]:
    test: Uniformity = c.tests[name]
    mark = " *" if name in c.faults else ""
    label = name if len(name) <= WIDEST else f"{name[: WIDEST - 1]}…"
    warned = c.claims.names.get(name.partition("[")[0], 0) if is_reported(name) else 0
    return (
        label,
        f"{test.count}",
        f"{test.bias:+.2f}",
        f"{100.0 * test.sd_off:+.0f} %",
        f"{100.0 * test.inside_50:.0f}",
        f"{100.0 * test.inside_90:.0f}",
        f"{test.p:.2g}{mark}",
        f"{warned}" if warned else "",
    )


def _legend(c: Calibration) -> str:
    fewest = min(c.tests.values(), key=lambda t: t.count)
    half, most = (100.0 * e for e in fewest.inside_errors)
    runs = fewest.count
    errors = f"{runs**-0.5:.2g}, {100.0 * (2 * runs) ** -0.5:.2g} %, {half:.2g}, {most:.2g}"
    warned = "W609: runs in which this was the worst of what was off. " if c.claims.names else ""
    return (
        "bias: of the truth from the posterior mean, in posterior sds. sd: posterior sds too large "
        "(+) or too small (-). in 50, 90 %: truths in the middle 50 and 90 % of the posterior. "
        f"Standard errors at {runs} runs: {errors}. p: the chance of an ECDF as far from uniform; "
        f"* is below {c.level:.2g}. {warned}name[.] is one random entry in each run."
    )


def card(calibration: Calibration) -> str:
    """The quantities that are least uniform; the page."""
    tests = calibration.tests
    faults = calibration.faults
    rows = [
        (name, f"{tests[name].p:.3g}", faults.get(name, ""))
        for name in calibration.worst_first[:FIRST]
    ]
    runs = f"{len(calibration.outcomes):,} of {calibration.wanted:,} runs"
    known = bool(tests)
    verdict = "calibrated" if calibration.calibrated else "not calibrated"
    note = f"{runs}, {verdict}" if known else f"{runs}, too few to judge"
    shown = [html.table(("", "p", ""), rows)] if known else []
    parts = [*shown, html.folded("page", html.page(calibration.table))]
    good = calibration.calibrated if known else None
    return html.card(f"Calibration of {calibration.method}", note, parts, good)
