"""Affine forms and coefficients: values against plain numpy, gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.named import Axis, Pick, Through
from lgmdsl.canonical.lowering.flatten import Over, operator, pull_operator
from lgmdsl.operators.explicit import Dense, Identity, Sparse

SIZES = {"obs": 7, "feat": 3, "sub": 4, "item": 5}


def latent(name: str, *dims: str) -> Affine:
    return af.latent(name, dims, SIZES)


def flat(form: Affine, dims: tuple[str, ...], shape: tuple[int, ...], **theta: Array) -> Array:
    return operator(form.terms, Over(dims, shape, {**SIZES, **form.sizes}), theta).dense()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_design_matrix_stays_whole(sparse: bool, rng: np.random.Generator) -> None:
    X = rng.normal(size=(7, 3))
    X[rng.random((7, 3)) < 0.4] = 0.0
    value = co.Constant(("obs", "feat"), sp.csr_array(X) if sparse else X)
    form = af.total(af.scale(latent("b", "feat"), value), "feat")
    made = operator(form.terms, Over(("obs",), (3,), {**SIZES, **form.sizes}), {})
    assert isinstance(made, Sparse if sparse else Dense)
    np.testing.assert_array_equal(made.dense(), X)


def test_a_latent_by_itself_is_the_identity() -> None:
    form = latent("f", "obs")
    assert isinstance(operator(form.terms, Over(("obs",), (7,), SIZES), {}), Identity)


def test_gather_pick_and_sum(rng: np.random.Generator) -> None:
    who, X, z = rng.integers(0, 4, 7), rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    d = latent("d", "sub", "feat")
    rows = af.gather(d, ("sub", "feat"), (Through(who, ("obs",)), Axis("feat")))
    picked = af.gather(d, ("sub", "feat"), (Through(who, ("obs",)), Pick(1)))
    dot = af.total(af.scale(rows, co.Constant(("obs", "feat"), X)), "feat")
    both = af.add((dot, af.scale(picked, co.number(-2.0))))
    want = (X * z[who]).sum(axis=1) - 2.0 * z[who, 1]
    np.testing.assert_allclose(flat(both, ("obs",), (4, 3)) @ z.ravel(), want)


def test_summing_a_term_without_the_index_counts_its_size(rng: np.random.Generator) -> None:
    form = af.total(af.add((latent("b", "feat"), latent("a"))), "feat")
    a = [t for t in form.terms if t.latent == "a"]
    made = operator(a, Over((), (), {**SIZES, **form.sizes}), {})
    np.testing.assert_array_equal(made.dense(), [[3.0]])


def test_gathering_a_gathered_value_composes_the_maps(rng: np.random.Generator) -> None:
    who, pair = rng.integers(0, 4, 7), rng.integers(0, 7, 9)
    sizes = {**SIZES, "pair": 9}
    inner = af.gather(latent("u", "sub"), ("sub",), (Through(who, ("obs",)),))
    outer = af.gather(
        Affine(inner.terms, inner.offset, sizes), ("obs",), (Through(pair, ("pair",)),)
    )
    made = operator(outer.terms, Over(("pair",), (4,), sizes), {})
    np.testing.assert_array_equal(made.dense(), np.eye(4)[who[pair]])


def test_an_inner_index_is_not_captured_by_an_outer_one(rng: np.random.Generator) -> None:
    """(X @ b) * w[feat]: the summed feat and the outer feat are different indices."""
    X, w = rng.normal(size=(7, 3)), rng.normal(size=3)
    dot = af.total(af.scale(latent("b", "feat"), co.Constant(("obs", "feat"), X)), "feat")
    outer = af.scale(dot, co.Constant(("feat",), w))
    z = rng.normal(size=3)
    got = (flat(outer, ("obs", "feat"), (3,)) @ z).reshape(7, 3)
    np.testing.assert_allclose(got, np.outer(X @ z, w))


def differences(f, x: Array, step: float = 1e-6) -> Array:  # type: ignore[no-untyped-def]
    out = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        out[at] = (f(up) - f(down)) / (2 * step)
    return out


@pytest.mark.parametrize("sparse", [False, True])
def test_operator_adjoints_reach_loadings(sparse: bool, rng: np.random.Generator) -> None:
    X = rng.normal(size=(7, 3)) * (rng.random((7, 3)) < 0.6)
    who = rng.integers(0, 4, 7)
    h = co.HyperValue(("feat",), "h")
    value = co.Constant(("obs", "feat"), sp.csr_array(X) if sparse else X)
    rows = af.gather(
        latent("d", "sub", "feat"), ("sub", "feat"), (Through(who, ("obs",)), Axis("feat"))
    )
    form = af.total(af.scale(rows, co.multiply(h, value)), "feat")
    at, adjoint = rng.normal(size=3), rng.normal(size=(7, 12))
    out: dict[str, Array] = {}
    sizes = {**SIZES, **form.sizes}
    pull_operator(form.terms, Over(("obs",), (4, 3), sizes), {"h": at}, adjoint, out)
    want = differences(lambda v: (adjoint * flat(form, ("obs",), (4, 3), h=v)).sum(), at)
    np.testing.assert_allclose(out["h"], want, atol=1e-7)


def test_factor_loadings_stay_one_array(rng: np.random.Generator) -> None:
    L = co.HyperValue(("item", "feat"), "L")
    form = af.total(af.scale(latent("z", "sub", "feat"), L), "feat")
    assert form.terms[0].factors[-1].depends == {"L"}
    at, z = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    got = flat(form, ("sub", "item"), (4, 3), L=at) @ z.ravel()
    np.testing.assert_allclose(got.reshape(4, 5), z @ at.T)


def test_coefficient_gradients(rng: np.random.Generator) -> None:
    a, b = co.HyperValue(("obs",), "a"), co.HyperValue((), "b")
    x = co.Constant(("obs", "feat"), rng.normal(size=(7, 3)))
    where = Through(rng.integers(0, 7, 5), ("item",))
    node = co.add(
        co.Contraction(("feat",), (a, x)),
        co.Elementwise((), "exp", b),
        co.Contraction((), (co.gather(co.Power(("obs",), a, b), (where,), {**SIZES}),)),
        co.Elementwise((), "log", co.multiply(b, b)),
    )
    theta = {"a": rng.random(7) + 0.5, "b": np.asarray(1.3)}
    adjoint = rng.normal(size=3)
    out: co.Gradient = {}
    node.pull(adjoint, theta, out)

    def value(name: str, v: Array) -> float:
        return float(adjoint @ node.evaluate({**theta, name: v}).dense())

    for name in theta:
        want = differences(lambda v, name=name: value(name, v), theta[name])
        np.testing.assert_allclose(out[name], want, rtol=1e-6, atol=1e-8)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_forms_evaluate_like_numpy(seed: int) -> None:
    """Random sums of scaled, gathered and contracted latents, against dense evaluation."""
    rng = np.random.default_rng(seed)
    z = {"b": rng.normal(size=3), "u": rng.normal(size=4), "d": rng.normal(size=(4, 3))}
    X, v = rng.normal(size=(7, 3)), rng.normal(size=7)
    who = rng.integers(0, 4, 7)
    through = Through(who, ("obs",))
    parts = [
        (af.total(af.scale(latent("b", "feat"), co.Constant(("obs", "feat"), X)), "feat"),
         X @ z["b"]),
        (af.gather(latent("u", "sub"), ("sub",), (through,)), z["u"][who]),
        (af.gather(latent("d", "sub", "feat"), ("sub", "feat"), (through, Pick(2))),
         z["d"][who, 2]),
        (Affine((), co.Constant(("obs",), v), SIZES), v),
    ]  # fmt: skip
    chosen = [parts[i] for i in rng.integers(0, len(parts), 4)]
    scales = rng.normal(size=4)
    form = af.add(
        tuple(af.scale(f, co.number(s)) for (f, _), s in zip(chosen, scales, strict=False))
    )
    want = sum(s * value for (_, value), s in zip(chosen, scales, strict=False))
    got = np.broadcast_to(form.offset.evaluate({}).dense(), (7,)).copy()
    for name in form.latents:
        terms = [t for t in form.terms if t.latent == name]
        sizes = {**SIZES, **form.sizes}
        got += operator(terms, Over(("obs",), z[name].shape, sizes), {}).matvec(z[name].ravel())
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_summing_counts_offsets_that_lack_the_index() -> None:
    form = af.add((latent("b", "feat"), Affine((), co.number(2.0), SIZES)))
    assert float(af.total(form, "feat").offset.evaluate({}).dense()) == 6.0
    along = af.add((form, Affine((), co.Constant(("feat",), np.arange(3.0)), SIZES)))
    assert float(af.total(along, "feat").offset.evaluate({}).dense()) == 3.0 + 6.0
    assert float(af.total(latent("b", "feat"), "feat").offset.evaluate({}).dense()) == 0.0
