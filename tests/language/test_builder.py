"""The Python builder: the sample of the manual, operators, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.errors import ModelError
from lgmdsl.language.builder import Model
from lgmdsl.language.expressions import Expression
from lgmdsl.language.load import loads
from lgmdsl.language.parse.parse import parse
from lgmdsl.language.tree import ast

SAMPLE = """\
lgm 1

index obs
index subject
index feat

data y[obs]       : count
data X[obs, feat] : real
data who[obs]     : subject
data time[obs]    : positive  "exposure, days"

hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)

latent b0         ~ normal(sd = 10)
latent b[feat]    ~ normal(sd = 2.5)
latent u[subject] ~ normal(sd = s)

let eta[obs] = b0 + X @ b + u[who]

observe y ~ poisson(log_rate = eta, exposure = time)
"""


def sample() -> Model:
    m = lgm.Model()
    obs, subject, feat = m.index("obs"), m.index("subject"), m.index("feat")
    y, X = m.data("y", [obs], "count"), m.data("X", [obs, feat], "real")
    who = m.data("who", [obs], subject)
    time = m.data("time", [obs], "positive", doc="exposure, days")
    s = m.hyper("s", "positive", lgm.pc_sd(u=1, alpha=0.01))
    b0 = m.latent("b0", [], lgm.normal(sd=10))
    b = m.latent("b", [feat], lgm.normal(sd=2.5))
    u = m.latent("u", [subject], lgm.normal(sd=s))
    eta = m.let("eta", [obs], b0 + X @ b + u[who])
    m.observe(y, lgm.poisson(log_rate=eta, exposure=time))
    return m


def test_the_sample_of_the_manual() -> None:
    m = sample()
    assert m.to_lgm() == SAMPLE
    assert lgm.loads(m.to_lgm()) == m
    assert set(m.checked.symbols) >= {"obs", "y", "s", "u", "eta"}


def test_checked_is_kept_until_the_model_grows() -> None:
    m = sample()
    first = m.checked
    assert m.checked is first
    m.report("rate", ["obs"], lgm.exp(Expression(ast.Name("eta"))))
    assert m.checked is not first
    assert "rate" in m.checked.symbols


def test_a_read_model_can_grow_and_keeps_its_comments() -> None:
    m = loads("# a note\n" + SAMPLE)
    m.report("rate", ["obs"], lgm.exp(Expression(ast.Name("eta"))), doc="per day")
    assert m.to_lgm().startswith("# a note\nlgm 1\n")
    assert 'report  rate[obs] = exp(eta)  "per day"' in m.to_lgm()


a, b, c = (Expression(ast.Name(n)) for n in "abc")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (a + b * c, "a + b * c"),
        ((a + b) * c, "(a + b) * c"),
        (a - (b - c), "a - (b - c)"),
        (-(a**2), "-a^2"),
        ((-a) ** 2, "(-a)^2"),
        (a @ b @ c, "a @ b @ c"),
        (2 * a / 3, "2 * a / 3"),
        (1 - a, "1 - a"),
        (2.5**a, "2.5^a"),
        (a * -1, "a * -1"),
        (np.float64(0.5) * a, "0.5 * a"),
        (np.int64(2) + a, "2 + a"),
        (1 / a, "1 / a"),
        (lgm.const(2) / 3 + a, "2/3 + a"),
        (a[b, "label", 3], 'a[b, "label", 3]'),
        (lgm.sum(a * b, c), "sum(a * b, c)"),
        (lgm.diff(a, b, order=2, boundary="zero"), 'diff(a, b, order = 2, boundary = "zero")'),
        (a * 1e-12, "a * 1e-12"),
        (a * 1e300, "a * 1e+300"),
    ],
)
def test_operators(built: Expression, text: str) -> None:
    assert repr(built) == text
    statement = parse(f"lgm 1 let x = {text}").statements[0]
    assert isinstance(statement, ast.Let)
    assert statement.value == built.node


def test_products_of_structures() -> None:
    product = lgm.iid * lgm.dense(cov=a)
    assert repr(product) == "iid * dense(cov = a)"
    assert repr(lgm.flat()) == repr(lgm.flat) == "flat"


REFUSED: dict[str, tuple[str, Callable[[Model], Any]]] = {
    "reserved": ("E105", lambda m: m.latent("data", [], lgm.normal(sd=1))),
    "no name": ("E109", lambda m: m.index("2x")),
    "unnamed": ("E102", lambda m: lgm.normal(1)),  # type: ignore[call-arg]
    "no distribution": ("E101", lambda m: m.latent("u", [], 3)),  # type: ignore[arg-type]
    "a product prior": ("E109", lambda m: m.hyper("s", "positive", lgm.iid * lgm.iid)),
    "no prior": ("E104", lambda m: m.hyper("s", "positive")),
    "an array": ("E109", lambda m: a + np.ones(3)),
    "an array first": ("E109", lambda m: np.ones(3) * a),
    "a nan": ("E109", lambda m: a * float("nan")),
    "a truth value": ("E109", lambda m: a and b),
    "a text in algebra": ("E109", lambda m: a + "b"),
    "a distribution in algebra": ("E109", lambda m: a + lgm.normal(sd=1)),
    "index arithmetic": ("E109", lambda m: a[b + 1]),
    "an indexed sum": ("E109", lambda m: (a + b)[c]),
    "a negative label": ("E109", lambda m: a[-1]),
    "a quoted text": ("E109", lambda m: m.index("i", doc='a "quote"')),
    "an empty range": ("E109", lambda m: m.index("i", range(3, 3))),
    "no labels": ("E109", lambda m: m.index("i", [])),
    "a size of zero": ("E109", lambda m: m.index("i", 0)),
    "an expression observed": ("E109", lambda m: m.observe(a + b, lgm.normal(mean=a, sd=1))),
    "no index": ("E109", lambda m: m.latent("u", [3], lgm.normal(sd=1))),
    "head of nothing": ("E108", lambda m: lgm.head("i")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    code, wrong = REFUSED[case]
    with pytest.raises(ModelError) as caught:
        wrong(Model())
    assert caught.value.codes == (code,)
    assert caught.value.diagnostics[0].help


def test_mistakes_are_reported_at_the_line_of_python() -> None:
    m = Model()
    obs = m.index("obs")
    m.latent("u", [obs], lgm.normal(sd=1))
    with pytest.raises(ModelError) as caught:
        m.let("eta", [], Expression(ast.Name("u")) * 2)
    assert caught.value.codes == ("E201",)
    line = caught.tb.tb_lineno
    assert f"test_builder.py:{line}:" in str(caught.value)
    assert f"{line} | let eta = u * 2" in str(caught.value)
    # The statement is not added, and the model goes on.
    assert "eta" not in m.to_lgm()
    m.let("eta", [obs], Expression(ast.Name("u")) * 2)
    assert set(m.checked.symbols) == {"obs", "u", "eta"}


WRONG: dict[str, tuple[str, Callable[[Model, Expression], Any]]] = {
    "type": ("E103", lambda m, y: m.hyper("s", "positiv", lgm.half_normal(sd=1))),
    "structure": ("E103", lambda m, y: m.latent("u", [], lgm.half_normal(sd=1))),
    "twice": ("E106", lambda m, y: m.latent("y", [], lgm.normal(sd=1))),
    "family": ("E108", lambda m, y: m.observe(y, lgm.poisson(log_rate=3))),
    "name": ("E103", lambda m, y: m.let("eta", [], Expression(ast.Name("nothing")))),
    "index": ("E103", lambda m, y: m.data("x", ["rows"], "real")),
}


@pytest.mark.parametrize("case", WRONG)
def test_each_mistake_is_raised_where_it_is_made(case: str) -> None:
    code, wrong = WRONG[case]
    m = Model()
    y = m.data("y", [m.index("obs")], "real")
    before = m.to_lgm()
    with pytest.raises(ModelError) as caught:
        wrong(m, y)
    assert caught.value.codes == (code,) and "test_builder.py:" in str(caught.value)
    assert m.to_lgm() == before


def test_indices_may_be_left_out() -> None:
    m, n = Model(), Model()
    model: Any
    for model, none in ((m, ()), (n, ([],))):
        a = model.latent("a", *none, lgm.normal(sd=1))
        model.data("c", *none, "real")
        model.let("d", *none, 2 * a)
        model.report("e", *none, a)
    assert m == n


def test_long_sums_are_limited_with_advice() -> None:
    total = a
    for _ in range(240):
        total = total + b
    with pytest.raises(ModelError, match="nested too deeply"):
        for _ in range(20):
            total = total + b


def test_repeated_doubling_is_limited() -> None:
    total = a
    with pytest.raises(ModelError, match="parts"):
        for _ in range(100):
            total = total + total


def test_an_expression_is_not_iterable() -> None:
    with pytest.raises(TypeError):
        list(a)  # type: ignore[call-overload]


def test_unknown_names_of_the_module() -> None:
    with pytest.raises(AttributeError):
        _ = lgm.no_such_distribution
    assert "poisson" in dir(lgm)
