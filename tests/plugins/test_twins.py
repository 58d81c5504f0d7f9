"""A third party's copy of a special part behaves as the part: code asks what parts declare.

Each case is fitted twice, the second time with every word after `@` replaced by its twin's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.api.explain.explain import explain
from lgmdsl.api.positions import line
from lgmdsl.contract.structure import Structure
from lgmdsl.inference import registry
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.closed_steps import closed_steps
from lgmdsl.priors.catalogue import PRIORS
from lgmdsl.sites.catalogue import SITES
from lgmdsl.structures.independent import Dense, Flat, Iid, Normal
from lgmdsl.structures.ordered.chain import Ar1
from lgmdsl.structures.ordered.walks import FirstOrderWalk
from lgmdsl.structures.spatial.besag import Besag
from lgmdsl.structures.stationary import SquaredExponential
from lgmdsl.vocabulary.lookup import CATEGORIES, names
from tests.plugins.twins import part_twin, same, site_twin, structure_twin, twin_name

HEAD = """lgm 1
index g = 6
index obs
data who[obs] : g
data x[obs] : real
"""
SPREAD = "latent a ~ @flat\nlatent u[g] ~ @normal(sd = 0.7)\nlet eta[obs] = a + u[who] * x\n"
SCALED = SPREAD.replace("sd = 0.7", "sd = s")


def observed(kind: str, response: str, hypers: str = "", latents: str = SPREAD) -> str:
    return f"{HEAD}data y[obs] : {kind}\n{hypers}{latents}observe y ~ {response}\n"


def hyper(name: str, prior: str, kind: str = "positive") -> str:
    return f"hyper {name} : {kind} ~ @{prior}\n"


SD = hyper("s", "half_normal(sd = 1)") + hyper("t", "gamma(shape = 2, rate = 1)")
COUNTS = "lgm 1\nindex doc\nindex word\nindex topic = 2\ndata n[doc, word] : count\n"
CLASSES = (
    "lgm 1\nindex obs\nindex k = 3\n{head}data x[obs] : real\ndata c[obs] : k\n"
    "latent b[k] ~ @normal(sd = 1)\nlet eta[obs, {over}] = b[{over}] * x\n"
    "observe c ~ @categorical({link} = eta)\n"
)
GRAPH = (
    "lgm 1\nindex r = 8\ndata adj[r, r] : graph\ndata y[r] : count\n{hypers}"
    "latent v[r] ~ {prior}\nobserve y ~ @poisson(log_rate = v)\n"
)
VECTORS = (
    "lgm 1\nindex p\nindex i = 2\ndata y[p, i] : real\nhyper S[i, i] : covariance ~ @{prior}\n"
    "latent z[p, i] ~ @iid * @dense(cov = S)\nobserve y ~ @normal(mean = z, sd = 0.5)\n"
)
LINE = (
    "lgm 1\nindex t\ndata x[t] : real\ndata y[t] : real\nhyper s : positive ~ @pc_sd(u = 1, "
    "alpha = 0.05)\nlatent f[t] ~ {prior}\nobserve y ~ @normal(mean = f, sd = 0.4)\n"
)


@dataclass(frozen=True)
class Case:
    """A model, how it is fitted, and what is asked of the fit."""

    text: str
    settings: dict[str, Any] = field(default_factory=dict)
    asked: tuple[str, ...] = ()


def case(text: str, *asked: str, **settings: Any) -> Case:
    return Case(text, settings, asked)


CASES = {
    "noise by em": case(observed("real", "@normal(mean = eta, sd = t)", SD, SCALED), "closed",
                        hyper="em"),
    "scales by vb": case(observed("real", "@normal(mean = eta, sd = t)", SD, SCALED),
                         method="px-vb", hyper="vb"),
    "conjugate factors": case(
        observed("real", "@normal(mean = eta, sd = sqrt(t))",
                 hyper("t", "inv_gamma(shape = 2, scale = 1)") + hyper("s", "flat"), SCALED),
        method="px-vb", hyper="vb"),
    "a precision's factor": case(
        observed("real", "@normal(mean = eta, sd = 1 / sqrt(t))",
                 hyper("t", "gamma(shape = 2, rate = 1)") + hyper("s", "flat"), SCALED),
        method="px-vb", hyper="vb"),
    "a mixture's scale": case(
        observed("real", "@normal(mean = eta, sd = 1)", hyper("s", "half_cauchy(scale = 1)"))
        + "potential u ~ @student_t(scale = s, df = 4)\n", method="px-vb", hyper="vb"),
    "lognormal": case(observed("positive", "@lognormal(mean = eta, sd = t)", SD, SCALED),
                      hyper="map"),
    "laplace": case(observed("real", "@laplace(mean = eta, scale = 0.7)"), method="ep"),
    "student_t": case(observed("real", "@student_t(mean = eta, scale = 0.7, df = 4)"),
                      method="laplace"),
    "binomial": case(observed("count", "@binomial(n = 9, logit = eta)")),
    "bernoulli": case(observed("binary", "@bernoulli(logit = eta)"), "predict",
                      method="double-loop"),
    "ordinal": case(
        f"{HEAD}index k = 3\nindex cut = head(k)\ndata y[obs] : k\n"
        "hyper c[cut] : ordered ~ @normal(sd = 2)\n" + SPREAD.replace("@flat", "@normal(sd = 0.1)")
        + "observe y ~ @ordinal(probit = eta, cuts = c)\n", hyper="map"),
    "softmax": case(CLASSES.format(head="", over="k", link="softmax"), "predict", "loo"),
    "class probit": case(CLASSES.format(head="", over="k", link="probit"), "predict", "loo"),
    "stick": case(
        CLASSES.format(head="index cut = head(k)\n", over="cut", link="stick")
        .replace("b[k]", "b[cut]"), "predict", "loo"),
    "topics": case(
        COUNTS + "hyper beta[topic, word] : simplex ~ @dirichlet(alpha = 1.5)\n"
        "latent z[doc, topic] ~ @normal(sd = 1.5)\n"
        "observe n ~ @admixture(softmax = z, emission = beta)\n", "closed", "predict",
        hyper="em", max_steps=40),
    "islands": case(GRAPH.format(hypers="", prior="@besag(graph = adj, sd = 0.6)")),
    "pc_mix": case(
        GRAPH.format(hypers="hyper m : unit ~ @pc_mix(graph = adj, u = 0.5, alpha = 0.5)\n",
                     prior="bym2(graph = adj, sd = 0.6, mix = m)"), hyper="integrate"),
    **{f"vectors under {prior.partition('(')[0]}": case(VECTORS.format(prior=prior), "closed",
                                                       hyper="em")
       for prior in ("flat", "lkj_cov(eta = 2, u = 1, alpha = 0.1)", "graphical_lasso(rate = 2)")},
    "vectors under inv_wishart": case(
        VECTORS.format(prior="inv_wishart(df = 4, scale = Psi)")
        .replace("hyper S", "data Psi[i, i] : real\nhyper S"), "closed", hyper="em"),
    "walk": case(LINE.format(prior="@rw1(sd = s)"), "chain", hyper="map"),
    "chain": case(LINE.format(prior="@ar1(sd = s, rho = 0.5)"), "chain", hyper="map"),
    "process": case(
        LINE.format(prior="gp(at = x, kernel = @se(sd = s, length = 1))"), hyper="map"),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def twins() -> Iterator[None]:
    structures: tuple[type[Structure], ...] = (Normal, Iid, Flat, Dense, FirstOrderWalk, Ar1, Besag)
    written: tuple[type[Any], ...] = (*PRIORS.shipped(), SquaredExponential)
    parts = [
        *(site_twin(s) for s in SITES.shipped()),
        *(part_twin(p) for p in written),
        *(structure_twin(s) for s in structures),
    ]
    for part in parts:
        lgm.register(part)
    yield
    for part in parts:
        registry.unregister(part)


def data(text: str) -> dict[str, Any]:
    """Values for what a case's model declares."""
    rng = np.random.default_rng(11)
    who, x, u = np.arange(36) % 6, rng.normal(size=36), rng.normal(size=6)
    s = 0.4 + 0.8 * u[who] * x
    if ": graph" in text:
        pairs = sp.coo_array((np.ones(5), ([0, 1, 2, 4, 5], [1, 2, 3, 5, 6])), shape=(8, 8))
        return {"adj": (pairs + pairs.T).tocsr(), "y": rng.poisson(1.5, 8)}
    if "covariance" in text:
        root = np.array([[1.0, 0.0], [0.6, 0.8]])
        given = {"y": rng.normal(size=(30, 2)) @ root.T + 0.5 * rng.normal(size=(30, 2))}
        return given | ({"Psi": np.eye(2)} if "Psi" in text else {})
    if "topic" in text:
        topics = rng.dirichlet(np.full(5, 0.4), size=2)
        mixed = rng.dirichlet(np.ones(2), size=20) @ topics
        drawn = np.array([rng.multinomial(25, p) for p in mixed])
        return {"n": drawn}
    if "data c[obs]" in text:
        return {"x": x, "c": rng.integers(0, 3, 36)}
    if "latent f[t]" in text:
        at = np.linspace(0.0, 4.0, 24)
        return {"t": np.arange(24), "x": at, "y": np.sin(at) + 0.4 * rng.normal(size=24)}
    noise = rng.normal(size=36)
    responses = {
        "real": s + 0.6 * noise, "positive": np.exp(s + 0.6 * noise),
        "count": rng.binomial(9, 1.0 / (1.0 + np.exp(-s))), "binary": (s + noise > 0.0) * 1,
        "k": np.digitize(s + noise, (-0.5, 0.7)),
    }  # fmt: skip
    kind = re.search(r"data y\[obs\] : (\w+)", text)
    assert kind is not None
    return {"who": who, "x": x, "y": responses[kind[1]]}


NAMES = rf"\b({'|'.join(twin_name(n) for c in CATEGORIES for n in names(c))})\b"


def plain(text: object) -> str:
    """With the names of twins replaced by those of the shipped parts."""
    return re.sub(NAMES, lambda found: found[0][0].lower() + found[0][1:], str(text))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_a_twin_behaves_as_the_shipped_part(name: str) -> None:
    chosen, given = CASES[name], data(CASES[name].text)
    shipped = lgm.loads(chosen.text.replace("@", ""))
    twin = lgm.loads(re.sub(r"@(\w+)", lambda found: twin_name(found[1]), chosen.text))
    one, other = (lgm.fit(m, given, seed=3, **chosen.settings) for m in (shipped, twin))
    assert one.status is other.status and one.steps == other.steps
    assert (one.method, one.engine, one.hyper) == (other.method, other.engine, other.hyper)
    assert same(one.log_evidence, other.log_evidence)
    for key, value in one.theta.items():
        assert same(value, other.theta[key]), key
    assert one.learning is None or other.learning is not None
    told = [[plain(w.render()) for w in f.warnings] for f in (one, other)]
    assert told[0] == told[1]
    rewrites = [[plain(r.description) for r in f.canonical.rewrites] for f in (one, other)]
    assert rewrites[0] == rewrites[1]
    for latent in one.canonical.latents:
        block = latent.name.partition(".")[0]
        assert same(one.mean(block), other.mean(block)) and same(one.sd(block), other.sd(block))
    pages = [plain(explain(m, given)) for m in (shipped, twin)]
    assert pages[0] == pages[1]
    for question in chosen.asked:
        ASKED[question](one, other, given)


def the_closed_steps(one: lgm.Fit, other: lgm.Fit, given: dict[str, Any]) -> None:
    """The same hyperparameters have an M-step in closed form, and some has."""
    found = []
    for fit in (one, other):
        space = fit.canonical.hypers
        coordinates = Coordinates(space, closed=True)
        theta = space.start(coordinates.pinned)
        found.append([s.name for s in closed_steps(fit.canonical, coordinates, theta)])
    assert found[0] == found[1] != []


def predictions(one: lgm.Fit, other: lgm.Fit, given: dict[str, Any]) -> None:
    wanted = "n" if "n" in given else "c" if "c" in given else "y"
    new = (
        {"n": given["n"][:7]} if wanted == "n" else {k: v for k, v in given.items() if k != wanted}
    )
    first, second = one.predict(new).response(wanted), other.predict(new).response(wanted)
    assert set(first) == set(second)
    for key in first:
        assert same(first[key], second[key]), key


def left_out(one: lgm.Fit, other: lgm.Fit, given: dict[str, Any]) -> None:
    assert same(one.loo().elpd, other.loo().elpd)


def along_a_line(one: lgm.Fit, other: lgm.Fit, given: dict[str, Any]) -> None:
    first, second = line(one.canonical, "t"), line(other.canonical, "t")
    assert first is not None and second is not None and same(first.x, second.x)


ASKED = {
    "closed": the_closed_steps, "predict": predictions, "loo": left_out, "chain": along_a_line,
}  # fmt: skip
