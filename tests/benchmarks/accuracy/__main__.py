"""Default fits of random small models against quadrature; a line for each quantity, and a summary.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.accuracy FIRST END OUT.csv [EARLIER.csv]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.accuracy large FIRST END OUT.csv [EARLIER.csv]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.accuracy outputs FIRST END OUT.csv
    OMP_NUM_THREADS=1 python -m tests.benchmarks.accuracy claims OUT.csv [MODEL ...]
    python -m tests.benchmarks.accuracy OUT.csv

The truths in an earlier file save the quadrature, where model and data are still the same. `large`:
10 to 200 latents, against an exact sampler. `outputs`: varied small models, and all that their fits
answer: responses, rows alone, effects, leaving one out. `warned`: each warning against what it
promises, several methods. `claims`: `fit.accuracy` against the truth, all methods and sizes 50 to
5,000; of a file that is there, its table again. A file alone: its summary again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import claims, judge
from .cases import CannotBuildError, small_case
from .large import large_rows
from .outputs import output_lines
from .truth import LEVELS, Truth, UnsettledError, exact, remembered
from .warned import hard_rows, table

Rows = list[dict[str, Any]]
Maker = Callable[[int, list[dict[str, str]]], Rows]


def varied_rows(number: int, _: list[dict[str, str]]) -> Rows:
    """The lines of one varied small model, with its outputs."""
    return small_rows(number, [], varied=True)


def small_rows(number: int, earlier: list[dict[str, str]], varied: bool = False) -> Rows:
    """The lines of one small model."""
    try:
        case = small_case(number, varied)
    except CannotBuildError as error:
        return [{"number": number, "kind": "left out", "name": str(error)}]
    print_of = judge.fingerprint(case.text, case.data, case.fixed)
    about = {
        "number": number, "family": case.family, "latents": case.design.shape[2],
        "hypers": len(case.hypers), "rows": case.rows, "fingerprint": print_of,
    }  # fmt: skip
    known = [r for r in earlier if r["fingerprint"] == print_of]
    try:
        if known and known[0]["kind"] == "left out":
            raise UnsettledError(known[0]["name"])
        truth: Truth = remembered(known) if known and known[0]["mean"] else exact(case)
    except (UnsettledError, np.linalg.LinAlgError) as error:
        return [about | {"kind": "left out", "name": str(error)}]
    fit, columns = judge.fitted(case.text, case.data, case.fixed)
    about |= columns
    if fit is None:
        return [about | {"kind": "refused", "name": columns["basis"]}]
    lines = judge.compared(fit, case.quantities, truth.mean, truth.sd, truth.quantiles, LEVELS)
    for line, skewness in zip(lines, truth.skewness, strict=True):
        line["skewness"] = skewness
    lines.append(judge.evidence_line(fit, truth.log_evidence))
    if varied:
        lines += output_lines(fit, case, truth)
    return [about | line | {"error": truth.error} for line in lines]


def batches(first: int, end: int, earlier: Path | None, make: Maker) -> Iterator[Rows]:
    """The lines of each model, shown as they come."""
    known = [] if earlier is None else judge.read(earlier)
    for number in range(first, end):
        rows = make(number, known)
        if not rows:
            continue
        head = rows[0]
        off = sum(judge.outside(r) for r in rows if r["kind"] in judge.NAMES)
        others = [r for r in rows if r["kind"] not in (*judge.NAMES, "evidence") and "z" in r]
        wrong = [f"{r['kind']} {r['name']} [{r.get('said', '')}]" for r in others
                 if judge.outside(r)]  # fmt: skip
        print(
            number, head.get("family"), head["kind"] if len(rows) == 1 else f"{off} off",
            head.get("codes", ""), head.get("seconds", ""), *wrong, flush=True, file=sys.stderr,
        )  # fmt: skip
        yield rows


def claims_main(out: Path, models: list[str]) -> None:
    """The table of claims, of a file that is there or of new fits."""
    if models or not out.exists():
        judge.write(out, claims.every(models), claims.HEADINGS)
    print(claims.table(judge.read(out)))


def main(arguments: list[str]) -> None:
    """See the module."""
    if arguments[0] == "claims":
        claims_main(Path(arguments[1]), arguments[2:])
        return
    make: Maker = small_rows
    others: dict[str, Maker] = {
        "large": large_rows, "outputs": varied_rows, "warned": hard_rows,
    }  # fmt: skip
    if arguments[0] in others:
        make, arguments = others[arguments[0]], arguments[1:]
    if len(arguments) == 1:
        out = Path(arguments[0])
    else:
        out = Path(arguments[2])
        earlier = Path(arguments[3]) if len(arguments) > 3 else None
        judge.write(out, batches(int(arguments[0]), int(arguments[1]), earlier, make))
    print((table if make is hard_rows else judge.summary)(judge.read(out)))


if __name__ == "__main__":
    main(sys.argv[1:])
