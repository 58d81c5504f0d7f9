"""`lgm.register` at run time: words, refusals, redefinition, worker processes, what fits record."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.jobs import workers_for
from lgmdsl.engines.choose import ENGINES, choose
from lgmdsl.extend import (
    Array,
    Bounds,
    Elementwise,
    Engine,
    Estimate,
    Kernel,
    LinearGaussian,
    Parameter,
    Signature,
    SiteSpec,
    Structure,
    Terms,
)
from lgmdsl.inference import registry
from lgmdsl.vocabulary import lookup
from tests.plugins.acme import acme_engine, acme_lgm
from tests.plugins.conftest import SOURCE, environment
from tests.plugins.test_installed import COUNTS

SCALE = """\
lgm 1
index obs
data y[obs] : real
hyper s : positive ~ {prior}
latent m ~ normal(sd = 1)
let eta[obs] = m
observe y ~ normal(mean = eta, sd = s)
"""


def data(n: int = 60, groups: int = 6) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    who = np.arange(n) % groups
    p = 1.0 / (1.0 + np.exp(0.5 - rng.normal(size=groups)[who]))
    return {"who": who, "x": np.zeros(n), "y": rng.geometric(p) - 1}


def test_words_come_and_go(acme: None) -> None:
    assert {"geometric", "exchangeable", "lomax", "cosine"} <= set(dir(lgm))
    assert "lomax" in lookup.suited("positive") and "geometric" in lookup.observing("count")
    for part in (acme_lgm.Geometric, acme_lgm.Exchangeable, acme_lgm.Lomax, acme_lgm.Cosine):
        registry.unregister(part)
    assert not {"geometric", "exchangeable", "lomax", "cosine"} & set(dir(lgm))
    with pytest.raises(lgm.ModelError, match="unknown observation family `geometric`"):
        lgm.loads(COUNTS)


def test_the_builder_writes_the_same_model(acme: None) -> None:
    m = lgm.Model()
    g, obs = m.index("g"), m.index("obs")
    who, y = m.data("who", obs, g), m.data("y", obs, "count")
    s = m.hyper("s", "positive", lgm.lomax(shape=3))
    u = m.latent("u", g, lgm.exchangeable(sd=s))
    m.observe(y, lgm.geometric(logit=m.let("eta", obs, u[who])))
    given = data()
    fit = lgm.fit(m, {k: given[k] for k in ("who", "y")})
    assert fit.converged and lgm.loads(m.to_lgm()) == m


def test_the_structure_is_a_sum_of_two_normals(acme: None) -> None:
    """sd^2 (share 11' + (1 - share) I): a common normal and one for each group."""
    given = data()
    own = lgm.fit(lgm.loads(COUNTS), given, fixed={"s": 0.8, "r": 0.3}, method="laplace")
    text = COUNTS.replace(
        "latent u[g] ~ exchangeable(sd = s, share = r)\n",
        "latent c ~ normal(sd = s * sqrt(r))\nlatent u[g] ~ normal(sd = s * sqrt(1 - r))\n",
    ).replace("m + u[who]", "m + c + u[who]")
    same = lgm.fit(lgm.loads(text), given, fixed={"s": 0.8, "r": 0.3}, method="laplace")
    assert own.log_evidence == pytest.approx(same.log_evidence, rel=1e-8)


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["map", "integrate", "em", "vb"])
def test_a_prior_from_outside_in_every_way(acme: None, way: str) -> None:
    """Lomax is a scale mixture of exponentials; against quadrature over the hyper."""
    rng = np.random.default_rng(2)
    y = rng.normal(0.4, 1.5, 25)
    fit = lgm.fit(lgm.loads(SCALE.format(prior="lomax(shape = 3, scale = 2)")), {"y": y}, hyper=way)
    s = np.exp(np.linspace(-3, 3, 4001))
    n, total, square = len(y), y.sum(), (y**2).sum()
    variance = 1.0 / (1.0 + n / s**2)
    log = -n * np.log(s) - 0.5 * square / s**2 + 0.5 * np.log(variance)
    log += 0.5 * variance * (total / s**2) ** 2 + stats.lomax(3, scale=2).logpdf(s)
    weight = np.exp(log - log.max()) * s
    mean = float((weight * s).sum() / weight.sum())
    wanted = s[np.argmax(log)] if way in ("map", "em") else mean
    assert fit.converged
    assert float(fit.mean("s")) == pytest.approx(wanted, rel=2e-2 if way == "vb" else 3e-3)


def test_simulated_hypers_follow_the_prior(acme: None) -> None:
    text = SCALE.format(prior="lomax(shape = 3, scale = 2)").replace("hyper s :", "hyper s[obs] :")
    drawn = lgm.simulate(lgm.loads(text), sizes={"obs": 3000}, seed=1)["truth.s"]
    assert stats.kstest(drawn, stats.lomax(3, scale=2).cdf).pvalue > 0.01


def test_arguments_are_checked_by_their_types(acme: None) -> None:
    with pytest.raises(lgm.ModelError, match="E108"):
        lgm.loads(SCALE.format(prior="lomax(shape = -1)"))
    with pytest.raises(lgm.ModelError, match="E104"):
        lgm.loads(SCALE.format(prior="lomax(rate = 1)"))
    with pytest.raises(lgm.LgmError, match="`shape` of `lomax` must be positive"):
        acme_lgm.Lomax(np.array(-1.0), np.array(1.0))


def test_an_engine_from_outside_is_chosen_by_its_cost(
    acme: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, pinned = lgm.loads(COUNTS), {"s": 1.0, "r": 0.4}
    fit = lgm.fit(model, data(), method="laplace", fixed=pinned)
    learned = lgm.fit(model, data(), method="laplace", hyper="map")
    linear = fit.canonical.linear(fit.theta)
    engine, why = choose(linear)
    assert isinstance(engine, acme_engine.Plain) and why.startswith("plain engine")
    assert "covariance would cost" in why
    costly = classmethod(lambda cls, linear: Estimate(1e12, 1.0))
    registry.unregister(acme_engine.Plain)
    monkeypatch.setattr(acme_engine.Plain, "cost", costly)
    lgm.register(acme_engine.Plain)
    engine, why = choose(linear)
    assert engine is not None and engine.name == "covariance" and "would cost" in why
    registry.unregister(acme_engine.Plain)
    assert [e for e in ENGINES if e.engine is acme_engine.Plain] == []
    again = lgm.fit(model, data(), method="laplace", fixed=pinned)
    assert again.log_evidence == pytest.approx(fit.log_evidence, rel=1e-10)
    np.testing.assert_allclose(again.sd("u"), fit.sd("u"), rtol=1e-8)
    usual = lgm.fit(model, data(), method="laplace", hyper="map")
    assert float(learned.mean("s")) == pytest.approx(float(usual.mean("s")), rel=1e-4)


def test_what_lacks_a_declaration_is_refused_in_one_sentence() -> None:
    signature = Signature(
        "mine", "prior", (Parameter("scale", "positive"),), observed=("positive",)
    )

    @dataclass(frozen=True, eq=False)
    class Mine(Elementwise):
        scale: Array
        name: ClassVar[str] = "mine"

        @property
        def bounds(self) -> Bounds:
            raise NotImplementedError

        def terms(self, value: Array) -> Terms:
            raise NotImplementedError

        def quantile(self, p: Array) -> Array:
            raise NotImplementedError

    def altered(**changes: object) -> type[Mine]:
        return type("Mine", (Mine,), changes)

    refusals: list[tuple[object, str]] = [
        (Mine, "no signature"),
        (
            altered(name="mine", signature=Signature("other", "prior", observed=("real",))),
            "is of `other`",
        ),
        (altered(signature=Signature("mine", "kernel")), 'category "kernel"'),
        (altered(signature=Signature("mine", "prior", signature.parameters)), "`observed`"),
        (altered(signature=Signature("mine", "prior", observed=("real",))), "fields are"),
        (altered(name="my-prior", signature=Signature("my-prior", "prior", observed=("real",))),
         "cannot be written in a model"),
        (Elementwise, "does not define"),
        (type("Bare", (Engine,), {"name": "bare"}), "does not define"),
        (acme_lgm.Curvature, "registered as an object"),
        (3, "a part is a subclass"),
    ]  # fmt: skip
    before = registry.registered()
    for part, reason in refusals:
        with pytest.raises(TypeError, match=reason):
            lgm.register(part)
    with pytest.raises(TypeError, match="declares no `cost`"):
        lgm.register(type("Costless", (acme_engine.Plain,), {"cost": Engine.__dict__["cost"]}))
    assert registry.registered() == before and lookup.lookup("prior", "mine") is None


def test_taken_names(acme: None) -> None:
    """A name stands for one thing; a distribution's is no kernel's, whatever else is free."""
    lomax = acme_lgm.Lomax
    parts: list[type] = [
        type("Gamma", (lomax,), {"name": "gamma", "signature": renamed(lomax.signature, "gamma")}),
        type("Second", (lomax,), {}),
        type(
            "Cosine",
            (acme_lgm.Cosine,),
            {"name": "lomax", "signature": renamed(acme_lgm.Cosine.signature, "lomax")},
        ),
        type(
            "Walk",
            (acme_lgm.Exchangeable,),
            {"name": "rw1", "signature": renamed(acme_lgm.Exchangeable.signature, "rw1")},
        ),
        type("Method", (acme_lgm.FixedPoint,), {}),
        type("Dense", (acme_engine.Plain,), {"name": "covariance"}),
    ]
    before, words = registry.registered(), set(dir(lgm))
    for part in parts:
        with pytest.raises(lgm.LgmError, match="E106"):
            lgm.register(part)
    assert registry.registered() == before and set(dir(lgm)) == words


def renamed(signature: Signature, name: str) -> Signature:
    return Signature(
        name,
        signature.category,
        signature.parameters,
        observed=signature.observed,
        carries_scale=signature.carries_scale,
    )


def test_a_class_that_is_defined_again_takes_the_place(acme: None) -> None:
    """As where a notebook's cell runs twice."""

    def cell(power: float) -> type[Kernel]:
        signature = Signature(
            "again", "kernel", (Parameter("sd", "positive", over="none"),) * 1, summary=f"{power}"
        )

        @dataclass(frozen=True, eq=False)
        class Again(Kernel):
            sd: Array
            name: ClassVar[str] = "again"

            def smooth(self, x1: Array, x2: Array) -> Array:
                return np.full((len(x1), len(x2)), power)

            def diagonal(self, x: Array) -> Array:
                return np.full(len(x), power)

            def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> dict[str, Array]:
                return {"sd": np.zeros(())}

            def diagonal_slopes(self, x: Array, adjoint: Array) -> dict[str, Array]:
                return {"sd": np.zeros(())}

        Again.signature = signature
        return lgm.register(Again)

    from lgmdsl.structures.catalogue import kernel

    cell(1.0)
    last = cell(2.0)
    assert kernel("again", sd=1.0).diagonal(np.zeros((1, 1)))[0] == 2.0
    found = lookup.lookup("kernel", "again")
    assert found is not None and found.summary == "2.0"
    registry.unregister(last)
    assert lookup.lookup("kernel", "again") is None


def test_fits_say_what_they_are_made_with(acme: None, tmp_path: Path) -> None:
    fit = lgm.fit(
        lgm.loads(COUNTS),
        data(),
        method="natural-gradient",
        bound="geometric-curvature",
        fixed={"s": 1.0, "r": 0.5},
    )
    used = json.loads(fit.provenance["plugins"])
    assert [u["name"] for u in used] == [
        "geometric.logit",
        "geometric-curvature",
        "exchangeable",
        "lomax",
        "plain",
    ]
    assert fit.engine == "plain"  # the cheapest for 7 latents and 60 rows
    assert {u["module"] for u in used} == {
        "tests.plugins.acme.acme_lgm",
        "tests.plugins.acme.acme_engine",
    }
    fit.save(tmp_path / "f.nc")
    registry.unregister(acme_lgm.Lomax)
    with pytest.raises(lgm.DataError, match="the hyperprior `lomax`, which"):
        lgm.load_fit(tmp_path / "f.nc")
    lgm.register(acme_lgm.Lomax)
    assert float(lgm.load_fit(tmp_path / "f.nc").mean("m")) == float(fit.mean("m"))
    plain = lgm.loads(SCALE.format(prior="half_normal(sd = 1)"))
    registry.unregister(acme_engine.Plain)
    assert "plugins" not in lgm.fit(plain, {"y": np.ones(3)}, fixed={"s": 1.0}).provenance


@pytest.mark.thorough
def test_workers_have_parts_of_modules(acme: None) -> None:
    options: dict[str, Any] = {"fixed": {"s": 0.5, "r": 0.3}, "method": "fixed-point", "runs": 4}
    sizes = {"obs": 30, "g": 5}
    pooled = lgm.calibrate(lgm.loads(COUNTS), sizes=sizes, jobs=2, **options)
    alone = lgm.calibrate(lgm.loads(COUNTS), sizes=sizes, jobs=1, **options)
    assert pooled.outcomes == alone.outcomes and not pooled.failed


def test_workers_say_which_part_they_cannot_have(acme: None) -> None:
    class Hidden(acme_lgm.Lomax):
        name: ClassVar[str] = "hidden"
        signature: ClassVar[Signature] = renamed(acme_lgm.Lomax.signature, "hidden")

    lgm.register(Hidden)
    try:
        other = lgm.loads(SCALE.format(prior="lomax(shape = 3)"))
        with workers_for(2, other.tree) as workers:
            assert workers is not None and workers.parts is not None
        model = lgm.loads(SCALE.format(prior="hidden(shape = 3)"))
        with (
            pytest.raises(lgm.MethodError, match="the hyperprior `hidden`") as told,
            workers_for(2, model.tree),
        ):
            pass
        assert "jobs=1" in str(told.value)
    finally:
        registry.unregister(Hidden)


@pytest.mark.thorough
def test_a_script_that_registers_its_own_part_runs_by_itself(tmp_path: Path) -> None:
    """A class of `__main__` is not sent; the script says so and goes on with jobs=1."""
    script = f"""
import sys; sys.path.insert(0, {str(SOURCE)!r})
import acme_lgm, lgmdsl as lgm
class Own(acme_lgm.Lomax):
    pass
lgm.register(Own)
model = lgm.loads({SCALE.format(prior="lomax(shape = 3)")!r})
task = dict(sizes=dict(obs=9), runs=3)
try:
    lgm.calibrate(model, jobs=2, **task)
except lgm.MethodError as error:
    print(error)
print(len(lgm.calibrate(model, jobs=1, **task).outcomes), "RUNS")
"""
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
    )
    assert "worker processes cannot have the hyperprior `lomax`" in done.stdout, done.stderr
    assert "3 RUNS" in done.stdout


def test_unused_names() -> None:
    """What the module for authors offers is what the contract promises, and more."""
    from lgmdsl import extend

    promised = (
        "Site SiteSpec Property Structure Shape Prior Kernel Engine Conditioned Failed Backend "
        "BackendSpec Problem GaussianPosterior Guarantee Status rows Signature Parameter "
        "Pointwise PointwiseAnswer Expected ExpectedAnswer Tilted TiltedAnswer Widths WidthsAnswer "
        "Augmented AugmentedAnswer SuperGaussianSite"
    )
    assert set(promised.split()) <= set(extend.__all__)
    assert all(hasattr(extend, name) for name in extend.__all__)
    assert SiteSpec.__dataclass_fields__["signature"].default is None
    assert Structure.signature is None and LinearGaussian is extend.LinearGaussian


def test_a_registered_engine_is_forced_and_kept(acme: None, tmp_path: Path) -> None:
    plain = lgm.loads(SCALE.format(prior="half_normal(sd = 1)"))
    given = {"y": np.array([0.3, 1.2, 0.4])}
    fit = lgm.fit(plain, given, fixed={"s": 1.0}, options={"engine": "plain"})
    other = lgm.fit(plain, given, fixed={"s": 1.0}, options={"engine": "covariance"})
    assert (fit.engine, other.engine) == ("plain", "covariance")
    assert [u["name"] for u in json.loads(fit.provenance["plugins"])] == ["plain"]
    assert fit.log_evidence == pytest.approx(other.log_evidence, abs=1e-10)
    fit.save(tmp_path / "f.nc")
    loaded = lgm.load_fit(tmp_path / "f.nc")
    assert type(loaded.posterior.conditioned).__module__ == acme_engine.__name__
    registry.unregister(acme_engine.Plain)
    assert "plugins" not in other.provenance
    with pytest.raises(lgm.MethodError, match="unknown engine `plain`"):
        lgm.fit(plain, given, fixed={"s": 1.0}, options={"engine": "plain"})


@pytest.mark.parametrize("fixed", [{"s": 1.0}, {}], ids=["one fit", "several points"])
def test_a_fit_whose_engine_is_missing(fixed: dict[str, float], acme: None, tmp_path: Path) -> None:
    """Its stored numbers are there; no other engine is taken in silence for the rest."""
    plain = lgm.loads(SCALE.format(prior="half_normal(sd = 1)"))
    given = {"y": np.array([0.3, 1.2, 0.4])}
    fit = lgm.fit(plain, given, fixed=fixed, options={"engine": "plain"})
    fit.save(tmp_path / "f.nc")
    registry.unregister(acme_engine.Plain)
    stored = lgm.load_fit(tmp_path / "f.nc")
    assert float(stored.mean("m")) == float(fit.mean("m"))
    with pytest.raises(lgm.DataError, match="the engine `plain`, which `tests") as told:
        stored.sample(2, seed=1)
    assert f"import {acme_engine.__name__}" in str(told.value)
    lgm.register(acme_engine.Plain)
    again = lgm.load_fit(tmp_path / "f.nc").sample(2, seed=1)["m"].values
    assert np.array_equal(again, fit.sample(2, seed=1)["m"].values)


@pytest.mark.parametrize(
    ("part", "more", "reason"),
    [
        (acme_engine.Plain, {"name": "auto"}, "is reserved for the automatic choice"),
        (acme_engine.Plain, {"name": ""}, "it has no name"),
        (acme_lgm.Cosine, {"signature": "cosine"}, "its signature is 'cosine'"),
    ],
)
def test_names_and_signatures_that_are_none(
    part: type, more: dict[str, object], reason: str
) -> None:
    with pytest.raises(TypeError, match=reason):
        lgm.register(type("Wrong", (part,), more))
