"""Defaults and limits that pages state in prose are those of the code."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import lgmdsl as lgm
from lgmdsl.accuracy.limits import MEAN, QUANTILE, SD
from lgmdsl.api.fit.hyper_ways import EPOCHS, LARGEST, MOST_STEPS
from lgmdsl.api.fit.options import FIT_OPTIONS
from lgmdsl.api.predict.pieces import ROWS
from lgmdsl.api.streaming import MANY
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.inference.driver import Tolerances
from lgmdsl.learning.chosen_errors import MAX_COORDINATES_SOLVED as MOST_ERRORS
from lgmdsl.learning.integration.integrate import FEW, LATTICE, MOST
from lgmdsl.learning.integration.refine import LONGER
from lgmdsl.learning.learn import STANDARD_ERRORS

WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight")
MILLIONS = WORDS[MANY // 1_000_000]
UP_TO_LATTICE = " or ".join(WORDS[1 : LATTICE + 1])
WAYS, MATHEMATICS = "docs/choosing/hyperparameter-ways.md", "docs/mathematics/hyperparameters.md"

STATED = [
    ("README.md", f"integrated over (up to {WORDS[FEW]} scalars)"),
    (WAYS, f"a lattice for {UP_TO_LATTICE} scalars, a central composite design for more"),
    (WAYS, f"Use it for up to {WORDS[FEW]} scalars (at most {WORDS[MOST]})"),
    (WAYS, f"More than {STANDARD_ERRORS} hyperparameters have estimates without sds"),
    (WAYS, f"computes those of single values, up to {MOST_ERRORS},"),
    (MATHEMATICS, f"A lattice ({UP_TO_LATTICE} scalars), a central composite design "
                  f"({WORDS[LATTICE + 1]} to {WORDS[FEW]};"),
    (MATHEMATICS, f"adaptive Gauss–Hermite (up to {WORDS[LARGEST['gauss-hermite']]})"),
    (MATHEMATICS, f"the tolerance after {LONGER} rounds of refinement"),
    ("docs/language/hyperparameters.md", f"`integrate` up to {WORDS[FEW]} scalars, `map` beyond"),
    ("docs/language/hyperparameters.md", f"are averaged (at most {WORDS[MOST]} scalars)"),
    ("docs/coming-from/gp-libraries.md", f"the default integrates up to {WORDS[FEW]} scalars"),
    ("docs/choosing/performance.md", f"`.parquet` file of {MILLIONS} million rows or more"),
    ("docs/choosing/performance.md", f"reads, predicts and writes {ROWS:,} rows"),
    ("lgm.fit", f"else integrates up to {FEW} scalars and maximises over more"),
    ("lgm.fit", f"(default: grid for {UP_TO_LATTICE} hyperparameters, then ccd)"),
    ("lgm.fit", f"`epochs` (default {EPOCHS})"),
    ("lgm.fit", f"the search for hyperparameters takes ({MOST_STEPS})"),
    ("lgm.fit", f"where there are more than {STANDARD_ERRORS}"),
    ("lgm.fit", f"passes {MEAN:g} posterior sds of a mean, {SD:.0%} of".replace("%", " %")),
    ("lgm.fit", f"an sd or {QUANTILE:g} sds of a 5 or 95 % point"),
    ("lgm.fit", f"the log evidence (default {Tolerances().evidence:.0e}, means to "
                f"{Tolerances().mean:.0e} sd)".replace("e-0", "e-")),
]  # fmt: skip


@pytest.mark.parametrize(("place", "sentence"), STATED)
def test_a_page_states_the_limit_of_the_code(root: Path, place: str, sentence: str) -> None:
    text = lgm.fit.__doc__ if place == "lgm.fit" else (root / place).read_text(encoding="utf-8")
    assert sentence in " ".join((text or "").split()), f"{place} should say: {sentence}"


def test_options_state_the_defaults_of_the_code() -> None:
    defaults = {option.name: option.default for option in FIT_OPTIONS}
    taken = inspect.signature(IterativeEngine).parameters
    assert defaults["samples"] == f"{taken['samples'].default} to {taken['most'].default}"
    assert defaults["vectors"] == str(taken["steps"].default)
    assert float(defaults["tol"]) == Tolerances().evidence
