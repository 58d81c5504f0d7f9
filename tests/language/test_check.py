"""The checker on whole models: samples of the manual, examples, symbols, cascades, warnings."""

from __future__ import annotations

from pathlib import Path

import pytest

from lgmdsl.errors import Diagnostic, ModelError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.language.check.check import check
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.parse.parse import parse
from lgmdsl.language.tree import ast

GOOD = (Path(__file__).parent / "good.lgm").read_text(encoding="utf-8")


def codes(text: str) -> tuple[str, ...]:
    try:
        check(parse(text))
    except ModelError as error:
        return error.codes
    return ()


def warnings(model: CheckedModel) -> tuple[Diagnostic, ...]:
    return warnings_of(model_graph(model))


def warned(model: CheckedModel) -> list[str]:
    return [w.code for w in warnings(model)]


# ---- the samples of the specification ------------------------------------------------------------

SAMPLES = {
    "E103": """error[E103]: unknown structure `rw3`
11 | latent f[day] ~ rw3(sd = s)
   |                 ^^^
   = help: did you mean `rw2`? Structures over one ordered axis: rw1 rw2 seasonal ar1 ar ou toeplitz""",  # noqa: E501
    "E104": """error[E104]: `poisson` has no argument `rate`
   = note: poisson(log_rate: latent, exposure: positive = 1)
   = help: `eta` is on the log scale here: poisson(log_rate = eta)""",
    "E201": """error[E201]: index `subject` does not belong to `eta[obs]`
16 | let eta[obs] = b0 + X @ b + u
   |                             ^ has index [subject]
   = help: `who` maps obs to subject: write u[who]""",
    "E203": """error[E203]: `eta` is not linear in the latents
13 | let eta[person, item] = c + L @ z
   |                             ^^^^^ both `L` (line 10) and `z` (line 11) are latent
   = help: declare one of them as `hyper`, e.g. hyper L[item, factor] : real ~ normal(sd = 1)""",
}
GLMM = """lgm 1
index obs
index subject
index feat
data y[obs]       : count
data X[obs, feat] : real
data who[obs]     : subject
data time[obs]    : positive

hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)

latent b0         ~ normal(sd = 10)
latent b[feat]    ~ normal(sd = 2.5)
latent u[subject] ~ normal(sd = s)

let eta[obs] = b0 + X @ b + u[who]

observe y ~ poisson(log_rate = eta, exposure = time)
"""
WRONG = {
    "E104": GLMM.replace("log_rate", "rate"),
    "E201": GLMM.replace("u[who]", "u"),
}


@pytest.mark.parametrize("code", SAMPLES)
def test_samples_of_the_language(code: str, root: Path) -> None:
    golden = root / "tests" / "language" / "golden"
    kept = {"E103": "tokyo.lgm", "E203": "fa.lgm"}.get(code)
    text = (golden / kept).read_text(encoding="utf-8") if kept else WRONG[code]
    with pytest.raises(ModelError) as caught:
        check(parse(text, "m.lgm"))
    # The margin is set by errors.py; the text of each line is what the sample says.
    said = [line.strip() for line in str(caught.value).splitlines()]
    for line in SAMPLES[code].splitlines():
        assert line.strip() in said
    place = {"E103": "11:17", "E201": "16:29", "E203": "13:29"}.get(code, "18:21")
    assert f"--> m.lgm:{place}" in said


# ---- whole models ----------------------------------------------------------------------------


def test_examples_check_without_a_word(shared: Path) -> None:
    files = sorted((shared / "examples").glob("*.lgm"))
    assert len(files) == 15
    for file in files:
        model = check(parse(file.read_text(encoding="utf-8"), file.name))
        assert warnings(model) == (), file.name


def test_symbols_say_what_later_stages_need() -> None:
    symbols = check(parse(GOOD)).symbols
    assert symbols["who"].target == "subject" and symbols["who"].dims == ("obs",)
    assert symbols["c"].target == "class"
    assert symbols["st"].dims == ("region", "year") and symbols["st"].degree == "affine"
    assert symbols["eta"].degree == "affine" and symbols["scale"].degree == "hyper"
    assert symbols["p"].degree == "nonlinear" and symbols["p"].kind == "report"
    assert symbols["S"].type == "covariance" and symbols["v"].degree == "hyper"
    assert symbols["X"].degree == "constant"
    assert list(symbols)[:3] == ["obs", "subject", "region"]


def test_a_wrong_statement_is_the_only_one_that_complains() -> None:
    text = """lgm 1
index obs
data y[obs] : real
data who[obs] : nobody
hyper s : positive ~ pc_sd(u = 1)
latent u[nobody] ~ normal(sd = s)
let eta[obs] = u[who] + s
let zeta[obs] = eta + nobody
observe y ~ normal(mean = zeta, sd = s)
"""
    assert codes(text) == ("E103", "E104")


def test_every_error_of_a_file_is_counted() -> None:
    text = "lgm 1\nindex obs\n" + "".join(f"let e{k}[obs] = x{k}\n" for k in range(40))
    with pytest.raises(ModelError) as caught:
        check(parse(text))
    assert len(caught.value.diagnostics) == 20 and caught.value.left_out == 20


@pytest.mark.parametrize(
    ("text", "code", "name"),
    [
        (
            "index obs\nindex k\ndata y[obs] : real\nlatent f[obs] ~ iid\n"
            "observe y ~ normal(mean = f, sd = 1)",
            "W101",
            "k",
        ),
        (
            "index obs\ndata y[obs] : real\ndata x[obs] : real\nlatent f[obs] ~ iid\n"
            "observe y ~ normal(mean = f, sd = 1)",
            "W101",
            "x",
        ),
        (
            "index obs\ndata y[obs] : real\nlatent f[obs] ~ iid\nlatent g ~ normal(sd = 1)\n"
            "report q = g\nobserve y ~ normal(mean = f, sd = 1)",
            "W102",
            "g",
        ),
        ("index obs\nlatent f[obs] ~ iid\nreport q[obs] = f", "W103", ""),
        (
            "index obs\ndata y[obs] : real\nlatent f[obs] ~ iid\npotential f ~ laplace(scale = 1)\n"
            "observe y ~ normal(mean = 1, sd = 1)",
            "W104",
            "",
        ),
        (
            "index obs\ndata y[obs] : real\ndata x[obs] : real?\nlatent f[obs] ~ iid\n"
            "observe y ~ normal(mean = f + x, sd = 1)",
            "W105",
            "x",
        ),
    ],
)
def test_warnings(text: str, code: str, name: str) -> None:
    model = check(parse(f"lgm 1\n{text}\n"))
    assert warned(model) == [code]
    assert name in warnings(model)[0].message and warnings(model)[0].severity == "warning"


def test_a_model_without_latents_is_refused() -> None:
    assert codes("lgm 1\nindex obs\n") == ("E109",)
    with pytest.raises(ModelError):
        check(ast.Ast(()))
