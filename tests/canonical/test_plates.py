"""Plates and parts of the posterior against its precision matrix, and against sums of evidences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.plates import Plate, plates
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.choose import choose
from tests.compiled import canonical_form

RNG = np.random.default_rng(3)
ROWS = 8
DATA = {
    "y0": RNG.normal(size=(ROWS, 2)), "y1": RNG.normal(size=ROWS), "c": RNG.integers(0, 3, ROWS),
    "x": RNG.uniform(1, 2, ROWS),
    "m": np.array([0, 1, 2, 0, 1, 2, 0, 1]), "n": np.array([0, 0, 1, 1, 2, 2, 2, 2]),
}  # fmt: skip
HEAD = """lgm 1
index i
index j = 3
index k = 2
index class = 3
data y0[i, k] : real
data y1[i] : real
data c[i] : class
data x[i] : real
data m[i] : j
data n[i] : j
"""
# A latent, and how a predictor over i may see it.
LATENTS = [
    ("{u} ~ normal(sd = 1)", ["{u}", "x * {u}"]),
    ("{u}[j] ~ normal(sd = 2)", ["{u}[m]", "{u}[n]", "x * {u}[m]", "{u}[1]", "sum({u}, j)"]),
    ("{u}[j] ~ rw1(sd = 2)", ["{u}[m]", "{u}[n]"]),
    ("{u}[i] ~ normal(sd = 2)", ["{u}", "{u}", "x * {u}", "cumsum({u}, i)"]),
    ("{u}[j, k] ~ normal(sd = 1)", ["{u}[m, 0]", "sum({u}[m, k], k)", "{u}[n, 1]"]),
    ("{u}[j, k] ~ iid * ar1(sd = 1, rho = 0.5)", ["{u}[m, 0]", "sum({u}[m, k], k)"]),
]
SITES = [
    "observe y1 ~ normal(mean = {eta}, sd = 0.5)",
    "observe y0 ~ normal(mean = {wide}, sd = 0.5)",
    "potential {eta} ~ laplace(scale = 1)",
    "observe c ~ categorical(softmax = {classes})",
    "constrain sum({latent}, j) = 0",
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    lines, terms, over_j = [HEAD, "data W[class] : real\n"], [], []
    for number in range(draw(st.integers(1, 4))):
        form, seen = draw(st.sampled_from(LATENTS))
        name = f"u{number}"
        lines.append("latent " + form.format(u=name))
        terms += [s.format(u=name) for s in seen]
        over_j += [name] if "[j]" in form else []
    for number, form in enumerate(draw(st.lists(st.sampled_from(SITES), min_size=1, unique=True))):
        eta = " + ".join(draw(st.lists(st.sampled_from(terms), min_size=1, max_size=3)))
        if "{latent}" in form and not over_j:
            continue
        latent = draw(st.sampled_from(over_j)) if "{latent}" in form else ""
        lines.append(f"let e{number}[i] = {eta}")
        lines.append(f"let f{number}[i, k] = e{number}")
        lines.append(f"let g{number}[i, class] = e{number} * W")
        lines.append(
            form.format(eta=f"e{number}", wide=f"f{number}", classes=f"g{number}", latent=latent)
        )
    return "\n".join(lines) + "\n"


def compiled(text: str) -> tuple[CanonicalModel, LinearGaussian]:
    data = {**DATA, "W": np.array([0.5, 1.0, 2.0])}
    canonical = canonical_form(text, data)
    return canonical, canonical.linear(canonical.hypers.start())


def precision(linear: LinearGaussian) -> Array:
    """The precision of z given weights of one, sites of several predictors weighing them all."""
    out = np.zeros((linear.size, linear.size))
    for block in linear.blocks:
        made: Array = np.ones((1, 1))
        for factor in block.factors:
            q = factor.precision()
            made = np.asarray(np.kron(made, q if isinstance(q, np.ndarray) else q.toarray()))
        out[linear.slices[block.name], linear.slices[block.name]] = made
    for predictor in linear.predictors:
        b = np.zeros((predictor.rows, linear.size))
        for name, operator in predictor.columns.items():
            b[:, linear.slices[name]] = operator.dense()
        sites = np.arange(predictor.rows) // max(predictor.event, 1)
        same = (sites[:, None] == sites).astype(float)
        out += b.T @ (same + np.eye(len(sites))) @ b
    if linear.constraints is not None:
        c = np.zeros((len(linear.constraints.values), linear.size))
        for name, operator in linear.constraints.columns.items():
            c[:, linear.slices[name]] = operator.dense()
        out += 1e3 * c.T @ c
    return out


def members(canonical: CanonicalModel, plate: Plate) -> tuple[Array, Array]:
    """Where the latents of a plate stand among all, and of which member each of them is."""
    places, of = [], []
    for name in plate.inside:
        latent = canonical.latent(name)
        start = canonical.layout.starts[name]
        places.append(start + np.arange(latent.size))
        grid = np.indices(latent.sizes)[latent.dims.index(plate.index)]
        of.append(grid.reshape(-1))
    return np.concatenate(places), np.concatenate(of)


@pytest.mark.thorough
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts())
def test_members_of_a_plate_are_independent_given_the_shared_latents(text: str) -> None:
    canonical, linear = compiled(text)
    whole = precision(linear)
    for plate in plates(canonical, linear):
        places, of = members(canonical, plate)
        inside = whole[np.ix_(places, places)]
        assert not inside[of[:, None] != of].any(), plate
        others = np.ones(linear.size, dtype=bool)
        others[places] = False
        meets = whole[np.ix_(places, others)].any(axis=0)
        met = {b.name for b in linear.blocks if meets[_inside(linear, b.name, others)].any()}
        assert met <= set(plate.shared), plate


def _inside(linear: LinearGaussian, name: str, others: Array) -> Array:
    """Which of the others are entries of a block."""
    own = np.zeros(linear.size, dtype=bool)
    own[linear.slices[name]] = True
    return np.asarray(own[others])


@pytest.mark.parametrize(
    ("latents", "eta", "wanted"),
    [
        (["a ~ normal(sd = 1)", "u[j] ~ normal(sd = 1)"], "a + u[m]", [Plate("j", ("u",), ("a",))]),
        (["u[j] ~ normal(sd = 1)", "v[j] ~ iid"], "x * u[m] + v[m]", [Plate("j", ("u", "v"), ())]),
        (
            ["u[j, k] ~ normal(sd = 1)", "v[j] ~ iid"],
            "v[m] + u[n, 0]",
            [Plate("j", ("u",), ("v",))],
        ),
        (["u[j] ~ normal(sd = 1)", "f[i] ~ rw1(sd = 1)"], "u[m] + f", [Plate("j", ("u",), ("f",))]),
        (["u[j] ~ normal(sd = 1)"], "u[m] + u[n]", []),
        (["u[j] ~ normal(sd = 1)"], "u[m] + u[0]", []),
        (["u[j] ~ rw1(sd = 1)"], "u[m]", []),
        (["u[j] ~ normal(sd = 1)"], "sum(u, j)", []),
        (["u[i] ~ normal(sd = 1)"], "cumsum(u, i)", []),
    ],
)
def test_plates_of_usual_models(latents: list[str], eta: str, wanted: list[Plate]) -> None:
    lines = [HEAD, "data W[class] : real", *(f"latent {one}" for one in latents)]
    text = "\n".join([*lines, f"let e[i] = {eta}", "observe y1 ~ normal(mean = e, sd = 1)\n"])
    assert list(plates(*compiled(text))) == wanted


def test_classes_of_one_site_are_no_plate() -> None:
    lines = [HEAD, "data W[class] : real", "latent u[i, class] ~ normal(sd = 1)"]
    text = "\n".join([*lines, "observe c ~ categorical(softmax = u)\n"])
    assert plates(*compiled(text)) == (Plate("i", ("u",), ()),)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts())
def test_parts_that_do_not_interact_have_normalisers_that_add(text: str) -> None:
    canonical, linear = compiled(text)
    total, whole = 0.0, normaliser(linear)
    seen = set[str]()
    for latents in canonical.grounded.graph.components:
        part = linear.part(latents)
        assert [b.name for b in part.blocks] == list(latents)
        assert not seen & {*latents}
        seen |= {*latents}
        total += normaliser(part)
    assert seen == {b.name for b in linear.blocks}
    assert total == pytest.approx(whole, rel=1e-9, abs=1e-7)


def normaliser(linear: LinearGaussian) -> float:
    """log_normaliser at weights of one and shifts that differ; 0 without rows."""
    if not linear.rows:
        return 0.0
    weight, shift = [], []
    for predictor in linear.predictors:
        event = max(predictor.event, 1)
        sites = predictor.rows // event
        number = np.linspace(-1, 1, predictor.rows)
        if predictor.event:
            weight.append(np.broadcast_to(np.eye(event), (sites, event, event)).copy())
            shift.append(number.reshape(sites, event))
        else:
            weight.append(np.ones(sites))
            shift.append(number)
    engine, _ = choose(linear)
    assert engine is not None
    conditioned = engine.condition(tuple(weight), tuple(shift))
    assert not isinstance(conditioned, Failed), conditioned.reason
    return conditioned.log_normaliser
