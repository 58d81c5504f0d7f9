"""Searches start from sizes that the data have, on both sides, and end in the highest mode."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg, optimize

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.scales import sizes
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.integration.hyper_posterior import matched
from lgmdsl.learning.learn import learn
from lgmdsl.learning.learned import Learned
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.learning_record import LearningOptions
from tests.compiled import canonical_form

VAGUE = "inv_gamma(shape = 1, scale = 5e-5)"
CROSSED = """lgm 1
index obs
index g
index h
data y[obs] : real
data a[obs] : g
data b[obs] : h
hyper v1 : positive ~ PRIOR
hyper v2 : positive ~ PRIOR
hyper v3 : positive ~ PRIOR
latent m ~ flat
latent u[g] ~ normal(sd = sqrt(v1))
latent w[h] ~ normal(sd = sqrt(v2))
let eta[obs] = m + u[a] + w[b]
observe y ~ normal(mean = eta, sd = sqrt(v3))
"""


def crossed(seed: int, scale: float = 1.0) -> dict[str, AnyArray]:
    """Two factors with sds of 1 and 0.5 next to noise of 1."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 14, 2)
    a, b = (m.ravel() for m in np.meshgrid(*map(np.arange, sizes), indexing="ij"))
    y = rng.normal(size=sizes[0])[a] + 0.5 * rng.normal(size=sizes[1])[b] + rng.normal(size=len(a))
    return {"y": scale * y, "a": a, "b": b}


def density(data: dict[str, AnyArray], v: Array, jacobian: bool) -> float:
    """Log density of three variances under Gamma(1, 5e-5) on precisions, less a constant."""
    return evidence(data, v) + float(np.sum(-(1.0 if jacobian else 2.0) * np.log(v) - 5e-5 / v))


def evidence(data: dict[str, AnyArray], v: Array) -> float:
    """By dense algebra, the mean being flat, less a constant."""
    a, b, y = data["a"], data["b"], data["y"]
    n = len(y)
    cov = v[0] * (a[:, None] == a) + v[1] * (b[:, None] == b) + v[2] * np.eye(n)
    root = linalg.cholesky(cov, lower=True)
    solved = linalg.solve_triangular(root, np.column_stack([np.ones(n), y]), lower=True)
    gram = float(solved[:, 0] @ solved[:, 0])
    square = float(solved[:, 1] @ solved[:, 1] - (solved[:, 0] @ solved[:, 1]) ** 2 / gram)
    return float(-np.log(np.diag(root)).sum() - 0.5 * np.log(gram) - 0.5 * square)


def top(data: dict[str, AnyArray], jacobian: bool) -> float:
    """The highest density, by searches from a grid of starts."""

    def lost(logs: Array) -> float:
        return -density(data, np.exp(logs), jacobian)

    starts = [(p, q, 0.0) for p in (-9.9, -5.0, -1.0, 1.0) for q in (-9.9, -5.0, -1.0, 1.0)]
    ends = [optimize.minimize(lost, s, options={"gtol": 1e-3}).fun for s in starts]
    return -float(min(ends))


def compiled(text: str, data: dict[str, AnyArray]) -> CanonicalModel:
    return canonical_form(text, data)


def learned(
    text: str, data: dict[str, AnyArray], integration: str | None = None, method: str = "auto"
) -> Learned:
    canonical = compiled(text, data)
    return learn(plan(canonical, method), FitSettings(), LearningOptions(integration))


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("way", ["map", "em", "integrate"])
def test_vague_gammas_on_precisions_do_not_hide_what_the_data_say(seed: int, way: str) -> None:
    """From the middle of the prior every one of these stayed where both factors are near 0."""
    data = crossed(seed)
    fit = lgm.fit(lgm.loads(CROSSED.replace("PRIOR", VAGUE)), data, hyper=way)
    v = np.array([float(fit.theta[n]) for n in ("v1", "v2", "v3")])
    jacobian = way == "integrate"
    assert density(data, v, jacobian) > top(data, jacobian) - 0.2


def test_sizes_are_what_hypers_do() -> None:
    """sqrt(v), 1 / sqrt(tau), products, kernels and factors in a predictor, with their powers."""
    text = """lgm 1
index obs
index g
data y[obs] : real
data x[obs] : real
data a[obs] : g
hyper v : positive ~ inv_gamma(shape = 1, scale = 1)
hyper tau : positive ~ gamma(shape = 1, rate = 1)
hyper s : positive ~ half_normal(sd = 1)
hyper k : positive ~ half_normal(sd = 1)
hyper len : positive ~ half_normal(sd = 1)
hyper t : positive ~ half_normal(sd = 1)
latent u[g] ~ normal(sd = sqrt(v))
latent w[g] ~ normal(sd = 1 / sqrt(tau))
latent z[g] ~ normal(sd = 1)
latent f[obs] ~ gp(at = x, kernel = se(sd = k, length = len))
let eta[obs] = 3 * u[a] + w[a] + s * z[a] + f
observe y ~ normal(mean = eta, sd = 2 * t)
"""
    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=6), "x": np.arange(6.0), "a": np.array([0, 1, 2, 0, 1, 2])}
    canonical = compiled(text, data)
    theta = {n: np.asarray(2.0) for n in ("v", "tau", "s", "k", "len", "t")}
    found = {size.latent: (dict(size.powers), size.log) for size in sizes(canonical, theta, ())}
    wanted = {
        "": ({"t": 1.0}, np.log(4.0)),
        "u": ({"v": 0.5}, np.log(3.0 * np.sqrt(2.0))),
        "w": ({"tau": -0.5}, -0.5 * np.log(2.0)),
        "z": ({"s": 1.0}, np.log(2.0)),
        "f": ({"k": 1.0}, np.log(2.0)),
    }
    assert found.keys() == wanted.keys()
    for name, (powers, log) in wanted.items():
        assert found[name][0] == pytest.approx(powers), name
        assert found[name][1] == pytest.approx(log), name


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e4, 1e12])
def test_starts_have_the_scale_of_the_data(scale: float) -> None:
    """Under a flat prior the maximum moves with the data, wherever its middle is called."""
    text = CROSSED.replace("PRIOR", "flat")
    one, other = (lgm.fit(lgm.loads(text), crossed(0, c), hyper="map") for c in (1.0, scale))
    for name in ("v1", "v2", "v3"):
        ratio = float(other.theta[name]) / float(one.theta[name]) / scale**2
        assert ratio == pytest.approx(1.0, abs=1e-3)


@pytest.mark.thorough
def test_two_modes_are_both_reported() -> None:
    """One factor that may be there or not: both are modes, within 7 nats of each other."""
    text = CROSSED.replace("PRIOR", VAGUE)
    seen = 0
    for seed in range(2):
        found = learned(text, crossed(10 + seed), "auto")
        assert found.modes[0] is found.mode
        for other in found.others:
            seen += 1
            assert 0.0 <= found.mode.density - other.density <= 7.0
            assert np.abs(other.density_gradient).max() < 0.05
            middle = 0.5 * (np.log(_variances(found.mode)) + np.log(_variances(other)))
            data = crossed(10 + seed)
            ends = [density(data, _variances(e), True) for e in (found.mode, other)]
            assert density(data, np.exp(middle), True) < min(ends)
    assert seen > 0


def _variances(at: Evaluation) -> Array:
    return np.array([float(at.theta[n]) for n in ("v1", "v2", "v3")])


@pytest.mark.thorough
def test_a_start_in_the_middle_of_an_absurd_prior() -> None:
    """A Weibull shape of 693 has likelihoods of exp(-1e149)."""
    text = """lgm 1
index i
data t[i] : positive
data x[i] : real
hyper k : positive ~ exponential(rate = 0.001)
latent b0 ~ normal(sd = 10)
latent b1 ~ normal(sd = 10)
let eta[i] = b0 + b1 * x
observe t ~ weibull(log_scale = eta, shape = k)
"""
    rng = np.random.default_rng(1)
    x = rng.normal(size=60)
    data = {"t": np.exp(1 + 0.5 * x) * rng.weibull(1.7, size=60), "x": x}
    found = learned(text, data)
    same = learned(text.replace("exponential(rate = 0.001)", "lognormal(mean = 0, sd = 30)"), data)
    assert found.status.name == "converged" and found.calls < 40
    assert float(found.mode.theta["k"]) == pytest.approx(float(same.mode.theta["k"]), rel=0.02)


@pytest.mark.few(3)
@pytest.mark.parametrize("way", ["map", "em"])
@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_offsets_far_from_the_data(way: str, offset: float) -> None:
    """At 1e5 the search ended as converged with offsets of 0, 1.4 million nats too low."""
    text = """lgm 1
index i
index j
data y[i, j] : real
hyper c[j] : real ~ flat
hyper l[j] : real ~ normal(sd = 1)
hyper t : positive ~ half_normal(sd = 1)
latent u[i] ~ normal(sd = 1)
let eta[i, j] = c[j] + l[j] * u[i]
observe y ~ normal(mean = eta, sd = t)
"""
    rng = np.random.default_rng(1)
    y = np.outer(rng.normal(size=200), [1, 0.8, 0.7, 0.5]) + 0.4 * rng.normal(size=(200, 4))
    near, far = (lgm.fit(lgm.loads(text), {"y": y + c}, hyper=way) for c in (0.0, offset))
    assert far.log_evidence == pytest.approx(near.log_evidence, abs=0.1)
    assert float(far.theta["t"]) == pytest.approx(float(near.theta["t"]), rel=0.01)


BOUNDLESS = """lgm 1
index area
index year
data y[area, year] : count
data edges[area, area] : graph
hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)
hyper rho : correlation ~ pc_cor1(u = 0.7, alpha = 0.7)
latent b0 ~ normal(sd = 10)
latent f[area, year] ~ besag(graph = edges) * ar1(sd = s, rho = rho)
let eta[area, year] = b0 + f
observe y ~ poisson(log_rate = eta)
"""


def _on_a_grid(f: Array) -> lgm.Fit:
    """By `map`; f: (16, T) the log rates of a grid of 4 x 4 areas, but for their mean."""
    right = [(i, i + 1) for i in range(16) if i % 4 < 3]
    edges = np.array(right + [(i, i + 4) for i in range(12)])
    y = np.random.default_rng(0).poisson(5.0 * np.exp(f))
    return lgm.fit(lgm.loads(BOUNDLESS), {"y": y, "edges": edges}, hyper="map")


def _is_boundless(fit: lgm.Fit, name: str) -> None:
    assert fit.status.name == "stalled" and fit.learning is not None and fit.learning.fits < 30
    (warning,) = [w for w in fit.warnings if w.code == "W601"]
    assert f"`{name}` ran away: its prior's density has no bound" in warning.details[0]
    assert "integrate over it" in warning.help and f"`{name}`" in warning.help


def test_a_correlation_that_runs_to_where_its_prior_has_no_bound_is_named() -> None:
    """Without structure in the data a correlation under pc_cor1 goes to 1: the search ends as soon
    as the data do not matter, and no differences of gradients are made where fits are slow."""
    fit = _on_a_grid(np.zeros((16, 8)))
    _is_boundless(fit, "rho")
    assert 1e-7 < 1.0 - float(fit.theta["rho"]) < 1e-2


def test_an_sd_that_runs_to_where_its_prior_has_no_bound_is_named() -> None:
    """Under a gamma of shape 0.5, to 0, where no group differs."""
    text = """lgm 1
index obs
index g
data y[obs] : count
data a[obs] : g
hyper s : positive ~ gamma(shape = 0.5, rate = 0.5)
latent m ~ flat
latent u[g] ~ normal(sd = s)
let eta[obs] = m + u[a]
observe y ~ poisson(log_rate = eta)
"""
    data = {"y": np.tile([4, 5, 6, 5], 10), "a": np.repeat(np.arange(10), 4)}
    fit = lgm.fit(lgm.loads(text), data, hyper="map")
    _is_boundless(fit, "s")
    assert float(fit.theta["s"]) < 1e-3


def test_data_that_keep_a_correlation_from_the_end_of_its_prior() -> None:
    """A maximum inside is found, however the prior rises next to 1."""
    rng = np.random.default_rng(0)
    f = 0.7 * rng.normal(size=(16, 12))
    for t in range(1, 12):
        f[:, t] = 0.6 * f[:, t - 1] + 0.8 * f[:, t]
    fit = _on_a_grid(f - f.mean(axis=0))
    assert fit.status.name == "converged"
    assert 0.2 < float(fit.theta["rho"]) < 0.95 and 0.2 < float(fit.theta["s"]) < 2.0


def test_an_sd_whose_prior_is_highest_at_0_and_data_that_say_otherwise() -> None:
    """The maximum is inside, whatever scale the prior has, and that of dense algebra."""
    text = """lgm 1
index obs
index g
data y[obs] : real
data a[obs] : g
hyper s : positive ~ half_cauchy(scale = 0.01)
hyper t : positive ~ half_cauchy(scale = 0.01)
latent m ~ flat
latent u[g] ~ normal(sd = s)
let eta[obs] = m + u[a]
observe y ~ normal(mean = eta, sd = t)
"""
    rng = np.random.default_rng(0)
    a = np.repeat(np.arange(10), 6)
    y = rng.normal(size=10)[a] + rng.normal(size=60)

    def lost(logs: Array) -> float:
        s, t = np.exp(logs)
        data = {"a": a, "b": np.arange(60), "y": y}
        prior = -np.log1p((np.array([s, t]) / 0.01) ** 2).sum()
        return -float(prior + evidence(data, np.array([s**2, 0.0, t**2])))

    starts = [(p, 0.0) for p in (-4.0, -2.0, 0.0)]
    best = min((optimize.minimize(lost, s, method="Nelder-Mead") for s in starts), key=_lost)
    for way in ("map", "em"):
        fit = lgm.fit(lgm.loads(text), {"y": y, "a": a}, hyper=way)
        assert [float(fit.theta[n]) for n in "st"] == pytest.approx(np.exp(best.x), rel=1e-2)
        assert fit.converged


def _lost(end: optimize.OptimizeResult) -> float:
    return float(end.fun)


def test_an_objective_measures_from_between_its_starts() -> None:
    data = crossed(0)
    canonical = compiled(CROSSED.replace("PRIOR", VAGUE), data)
    objective = Objective(plan(canonical), Coordinates(canonical.hypers), {}, Tolerances())
    begin = objective.origin.copy()
    assert not objective.beyond(begin + 10.0, 18.0) and objective.beyond(begin + 19.0, 18.0)
    objective.span(begin + 5.0)
    assert not objective.beyond(begin + 19.0, 18.0) and objective.beyond(begin - 19.0, 18.0)


@pytest.mark.thorough
def test_another_maximum_close_below_is_told_by_map() -> None:
    """A factor that may be there or not: the maximum that is not reported is named."""
    text = CROSSED.replace("PRIOR", VAGUE)
    told = 0
    for seed in (13, 14):
        data = crossed(seed)
        found = learned(text, data)
        close = [o for o in found.others if found.mode.value - o.value < 3.0]
        fit = lgm.fit(lgm.loads(text), data, hyper="map")
        codes = [w.code for w in fit.warnings]
        assert ("W607" in codes) == bool(close)
        for other in close:
            told += 1
            v = _variances(other)
            here = density(data, v, False)
            assert all(density(data, v * m, False) < here + 1e-3 for m in 0.9 + 0.2 * np.eye(3))
    assert told > 0


def test_points_that_a_rule_gives_no_weight() -> None:
    """A density that underflows at a design's point ended in an error of the least squares."""
    z = np.array([[-2.0], [-1.0], [0.0], [1.0], [30.0]])
    nodes = np.array([[-0.5], [0.0], [0.4]])
    mass, rule = np.array([0.3, 0.3, 0.4]), np.array([0.1, 0.4, 0.4, 0.1, 0.0])
    weights = matched(nodes, mass, z, rule, (nodes, z))
    assert weights[-1] == 0.0 and weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0)
