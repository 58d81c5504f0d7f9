"""Chains of lets, hypers and reports take work in proportion to their length, however often each
part is used, and no stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import add, latent, scale
from lgmdsl.canonical.expressions.node import Coefficient, Gradient, Theta
from tests.operations import calls

HEAD = "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : real\nlatent a ~ normal(sd = 1)\n"
X = np.linspace(-1.0, 1.0, 8)
DATA = {"x": X, "y": 0.7 * X + 0.1}


def pullback(node: Coefficient, adjoint: Array, theta: Theta) -> Gradient:
    """dF/dtheta for every hyperparameter the node depends on."""
    out: Gradient = {}
    node.pull(adjoint, theta, out)
    return out


def chain(first: str, step: str, last: str, n: int) -> str:
    rows = [step.format(k=k, p=k - 1) for k in range(1, n + 1)]
    return HEAD + "\n".join([first, *rows, last.format(n=n)]) + "\n"


# What a chain of n does to the predictor a * x (and to the sd 1) is known.
CHAINS: dict[str, tuple[str, str, str, Callable[[int], str]]] = {
    "doubled": (
        "let e0 = a", "let e{k} = (e{p} + e{p}) / 2",
        "observe y ~ normal(mean = e{n} * x, sd = 1)",
        lambda n: "observe y ~ normal(mean = a * x, sd = 1)",
    ),
    "doubled over an index": (
        "let e0[obs] = a * x", "let e{k}[obs] = (e{p} + e{p}) / 2",
        "observe y ~ normal(mean = e{n}, sd = 1)",
        lambda n: "observe y ~ normal(mean = a * x, sd = 1)",
    ),
    "two ways": (
        "let e0 = a", "let e{k} = 0.25 * e{p} + e{p} * 0.75",
        "observe y ~ normal(mean = e{n} * x, sd = 1)",
        lambda n: "observe y ~ normal(mean = a * x, sd = 1)",
    ),
    "grown": (
        "let e0 = a", "let e{k} = e{p} + 0.001",
        "observe y ~ normal(mean = e{n} * x, sd = 1)",
        lambda n: f"observe y ~ normal(mean = a * x + {0.001 * n} * x, sd = 1)",
    ),
    "free of latents": (
        "let c0[obs] = x", "let c{k}[obs] = (c{p} + c{p}) / 2",
        "observe y ~ normal(mean = a * c{n}, sd = 1)",
        lambda n: "observe y ~ normal(mean = a * x, sd = 1)",
    ),
    "hypers": (
        "hyper h0 : positive = 1", "hyper h{k} : positive = (h{p} + h{p}) / 2",
        "observe y ~ normal(mean = a * x, sd = h{n})",
        lambda n: "observe y ~ normal(mean = a * x, sd = 1)",
    ),
    "of a hyper": (
        "hyper h : real ~ normal(mean = 1, sd = 0.5)\nlet e0 = a * h",
        "let e{k} = (e{p} + e{p}) / 2", "observe y ~ normal(mean = e{n} * x, sd = 1)",
        lambda n: "hyper h : real ~ normal(mean = 1, sd = 0.5)\n"
                  "observe y ~ normal(mean = a * h * x, sd = 1)",
    ),
}  # fmt: skip


def fitted(text: str) -> lgm.Fit:
    return lgm.fit(lgm.loads(text), DATA, hyper="map")


@pytest.mark.thorough
@pytest.mark.parametrize("name", CHAINS)
def test_a_thousand_lines(name: str) -> None:
    """The fit is that of the model written out, and twice the lines take twice the calls."""
    first, step, last, plain = CHAINS[name]
    n = 300 if name == "of a hyper" else 1000
    if "obs" in step:
        n = 700  # lines of a text of 20,000 words
    fitted(HEAD + plain(1))  # what is imported and built once
    cost = [calls(partial(fitted, chain(first, step, last, m))) for m in (n // 2, n)]
    assert cost[1] < 2.6 * cost[0]
    shared, alone = fitted(chain(first, step, last, n)), fitted(HEAD + plain(n))
    assert shared.log_evidence == pytest.approx(alone.log_evidence, rel=1e-9)
    assert float(shared.mean("a")) == pytest.approx(float(alone.mean("a")), rel=1e-6)
    assert float(shared.sd("a")) == pytest.approx(float(alone.sd("a")), rel=1e-6)


def test_many_ways_through_data() -> None:
    """Each line multiplies by one of two columns: 2^n products, none of them written out."""
    text = chain(
        "let e0[obs] = a",
        "let e{k}[obs] = e{p} * x + e{p} * x * x",
        "observe y ~ normal(mean = e{n}, sd = 1)",
        40,
    )
    fit = fitted(text)
    column = (X + X**2) ** 40
    precision = 1.0 + column @ column
    assert float(fit.sd("a")) == pytest.approx(precision**-0.5, rel=1e-9)
    assert float(fit.mean("a")) == pytest.approx(column @ DATA["y"] / precision, rel=1e-9)


def test_reports_use_each_earlier_report_once() -> None:
    n = 60
    text = chain(
        "let e[obs] = a * x\nobserve y ~ normal(mean = e, sd = 1)\nreport r0 = exp(a) ^ 2",
        "report r{k} = (r{p} + r{p}) / 2",
        "",
        n,
    )
    fit = fitted(text)
    assert float(fit.mean(f"r{n}")) == pytest.approx(float(fit.mean("r0")), rel=1e-12)
    few, many = (calls(partial(fit.sample, 4, seed=1, names=[f"r{k}"])) for k in (n // 2, n))
    assert many < 2.6 * few


def test_every_command_takes_a_chain(tmp_path: object) -> None:
    """Explaining, drawing, saving and predicting, where each line doubles."""
    first, step, last, _ = CHAINS["doubled over an index"]
    model = lgm.loads(chain(first, step, last, 40))
    fit = lgm.fit(model, DATA)
    fit.save(f"{tmp_path}/c.nc")
    again = lgm.load_fit(f"{tmp_path}/c.nc")
    assert float(again.mean("e40")[0]) == pytest.approx(float(fit.mean("e0")[0]), rel=1e-12)
    found = again.predict({"x": [2.0]})
    np.testing.assert_allclose(found.mean("e40"), 2.0 * fit.mean("a"), rtol=1e-12)
    assert len(str(lgm.explain(model, DATA))) < 20_000
    assert lgm.loads(model.to_lgm()) == model


@pytest.mark.parametrize(
    "function",
    [
        lambda c: co.add(c, c),
        lambda c: co.multiply(c, c, co.number(0.5)),
        lambda c: co.Elementwise(c.dims, "sqrt", co.multiply(c, c)),
        lambda c: co.Power(c.dims, c, co.multiply(co.number(0.5), c)),
    ],
    ids=["sum", "product", "root", "power"],
)
def test_gradients_through_shared_parts(function: Callable[[Coefficient], Coefficient]) -> None:
    h = co.HyperValue(("obs",), "h")
    node: Coefficient = co.add(h, co.Constant(("obs",), np.array([0.2, 0.4, 0.6])))
    for _ in range(4):
        node = function(node)
    theta = {"h": np.array([0.7, 0.8, 0.9])}
    slope = pullback(node, np.ones(3), theta)["h"]

    def value(h: Array) -> Array:
        at: Theta = {"h": h}
        return np.asarray(node.evaluate(at).dense())

    known = (value(theta["h"] + 1e-6) - value(theta["h"] - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope, known, rtol=1e-6)


def test_the_walks_need_no_stack() -> None:
    node: Coefficient = co.HyperValue((), "h")
    for _ in range(5000):
        node = co.Elementwise((), "sqrt", co.add(node, co.number(1.0)))
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        assert float(node.evaluate({"h": np.array(0.3)}).dense()) > 1.0
        assert pullback(node, np.array(1.0), {"h": np.array(0.3)})["h"] >= 0.0
        assert node.depends == {"h"} and not node.sparse
    finally:
        sys.setrecursionlimit(usual)


def test_long_sums_of_one_latent_are_one_term() -> None:
    form = latent("u", ("obs",), {"obs": 3})
    parts = [scale(form, co.Constant(("obs",), np.full(3, float(k)))) for k in range(40)]
    whole = add(tuple(parts))
    assert len(whole.terms) == 1
    values = co.multiply(*whole.terms[0].factors).evaluate({}).dense()
    np.testing.assert_allclose(values, np.full(3, sum(range(40))))
    assert len(add((form, form)).terms) == 1 and len(add(tuple(parts[:3])).terms) == 3
