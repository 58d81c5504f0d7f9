"""Additive models whose smooths are linear or null: sds that go to 0, against brute force.

The reference integrates over log(s_k / noise) and the log of the noise on a product grid, by dense
algebra of its own: scaled walks from the eigenvectors of D'D, flat lines and level projected out.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
from scipy.special import logsumexp

import lgmdsl as lgm
from lgmdsl.canonical.queries.scales import vanishing
from tests.compiled import canonical_form

RATE = -np.log(0.05)  # of pc_sd(u = 1, alpha = 0.05)
PRIOR = "pc_sd(u = 1, alpha = 0.05)"
TAILS = (0.025, 0.5, 0.975)
SHAPES = (lambda u: 0.0 * u, lambda u: 1.5 * u, lambda u: np.sin(6.0 * u))


def text(terms: int, site: str = "normal(mean = eta, sd = noise)", kind: str = "real") -> str:
    each = range(terms)
    lines = ["lgm 1", "index obs", *(f"index p{j}" for j in each), f"data y[obs] : {kind}"]
    lines += [f"data x{j}[obs] : p{j}" for j in each]
    lines += [f"hyper s{j} : positive ~ {PRIOR}" for j in each]
    lines += [f"hyper noise : positive ~ {PRIOR}"] * ("noise" in site)
    lines += ["latent a ~ flat", *(f"latent f{j}[p{j}] ~ rw2(sd = s{j})" for j in each)]
    lines += [
        "let eta[obs] = a + " + " + ".join(f"f{j}[x{j}]" for j in each),
        f"observe y ~ {site}",
    ]
    return "\n".join(lines) + "\n"


def table(seed: int, terms: int, shapes: tuple[int, ...], rows: int = 90) -> dict[str, np.ndarray]:
    """Rows at ten to twenty places of each term; every place is met."""
    rng, eta, out = np.random.default_rng(seed), np.ones(rows), dict[str, np.ndarray]()
    for j in range(terms):
        places = int(rng.integers(10, 20))
        out[f"x{j}"] = np.r_[np.arange(places), rng.integers(places, size=rows - places)]
        eta = eta + SHAPES[shapes[j]](out[f"x{j}"] / places)
    return {"eta": eta, "y": eta + rng.choice([0.2, 0.5, 1.0]) * rng.normal(size=rows), **out}


def smooth(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, m - 2) B R, RR' the scaled rw2's covariance, and (n,) B times the line."""
    size = int(places.max()) + 1
    second = np.diff(np.eye(size), n=2, axis=0)
    values, vectors = np.linalg.eigh(second.T @ second)
    root = vectors[:, 2:] / np.sqrt(values[2:])
    root /= np.sqrt(np.exp(np.log((root**2).sum(axis=1)).mean()))
    line = np.arange(size) - 0.5 * (size - 1)
    return root[places], (line / np.linalg.norm(line))[places]


class BruteForce:
    """Log evidence, and weighted values of each hyperparameter."""

    def __init__(self, data: Mapping[str, np.ndarray], terms: int) -> None:
        y, parts = data["y"], [smooth(data[f"x{j}"]) for j in range(terms)]
        flat = np.column_stack([np.ones(len(y)), *(line for _, line in parts)])
        q, _ = np.linalg.qr(flat, mode="complete")
        rest = q[:, flat.shape[1] :]
        u, z = rest.T @ np.hstack([root for root, _ in parts]), rest.T @ y
        own = np.repeat(np.arange(terms), [root.shape[1] for root, _ in parts])
        gram, h, m = u.T @ u, u.T @ z, len(z)
        axis = np.linspace(-10.0, 5.0, 301 if terms == 1 else 76)
        grid = np.array(list(itertools.product(axis, repeat=terms)))
        scale = np.exp(grid)[:, own]
        inner = scale[:, :, None] * gram * scale[:, None, :]
        inner[:, np.arange(len(own)), np.arange(len(own))] += 1.0
        away = scale * h
        squares = z @ z - np.einsum(
            "bi,bi->b", away, np.linalg.solve(inner, away[..., None])[..., 0]
        )
        half = -0.5 * np.linalg.slogdet(inner)[1] - 0.5 * np.linalg.slogdet(flat.T @ flat)[1]
        least = 0.5 * np.log(squares.min() / m)
        noise = np.linspace(least - 1.0, 0.5 * np.log(squares.max() / m) + 1.0, 201)
        log = half[:, None] - 0.5 * m * np.log(2.0 * np.pi) - m * noise
        log = log - 0.5 * squares[:, None] * np.exp(-2.0 * noise)
        self.logs = [grid[:, [j]] + noise for j in range(terms)]
        self.logs.append(np.broadcast_to(noise, log.shape))
        log = log + noise + sum(self.logs[:-1])  # d s_k = s_k d log s_k
        log = log + sum(np.log(RATE) - RATE * np.exp(s) for s in self.logs)
        step = (axis[1] - axis[0]) ** terms * (noise[1] - noise[0])
        self.log_evidence = float(logsumexp(log) + np.log(step))
        self.weights = np.exp(log - logsumexp(log)).ravel()

    def quantiles(self, k: int) -> tuple[np.ndarray, float]:
        """TAILS of a hyperparameter and its sd."""
        values, inverse = np.unique(np.round(self.logs[k].ravel(), 9), return_inverse=True)
        mass = np.bincount(inverse.ravel(), self.weights)
        x, below = np.exp(values), np.cumsum(mass) - 0.5 * mass
        return np.interp(TAILS, below, x), float(np.sqrt(mass @ x**2 - (mass @ x) ** 2))


def compared(fit: lgm.Fit, data: Mapping[str, np.ndarray], terms: int, most: float) -> None:
    brute = BruteForce(data, terms)
    assert fit.log_evidence == pytest.approx(brute.log_evidence, abs=0.05)
    for k, name in enumerate([*(f"s{j}" for j in range(terms)), "noise"]):
        wanted, sd = brute.quantiles(k)
        found = np.ravel(fit.quantile(name, list(TAILS)))
        np.testing.assert_allclose(found, wanted, atol=most * sd)


def silent(fit: lgm.Fit) -> None:
    assert fit.converged and not fit.warnings, [str(w) for w in fit.warnings]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_a_straight_line_is_an_ordinary_fit(seed: int) -> None:
    """One rw2 whose sd is 0: neither integral nor maximum has anything to warn of."""
    data = table(seed, 1, (1,))
    fit = lgm.fit(lgm.loads(text(1)), data)
    silent(fit)
    compared(fit, data, 1, 0.1)
    silent(lgm.fit(lgm.loads(text(1)), data, hyper="map"))


@pytest.mark.thorough
def test_terms_that_vanish_at_the_maximum() -> None:
    """The others' values and sds are those of the model in which they are 0."""
    data, model = table(3, 2, (2, 0)), lgm.loads(text(2))
    fit = lgm.fit(model, data, hyper="map")
    silent(fit)
    assert float(fit.mean("s1")) < 1e-3 and np.isnan(float(fit.sd("s1")))
    without = lgm.fit(model, data, hyper="map", fixed={"s1": 1e-12})
    assert fit.log_evidence == pytest.approx(without.log_evidence, abs=2e-5)
    for name in ("s0", "noise"):
        assert float(fit.mean(name)) == pytest.approx(float(without.mean(name)), rel=2e-3)
        assert float(fit.sd(name)) == pytest.approx(float(without.sd(name)), rel=2e-2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "site"), [("count", "poisson(log_rate = eta)"), ("binary", "bernoulli(logit = eta)")]
)
def test_of_other_responses(kind: str, site: str) -> None:
    rng, data = np.random.default_rng(5), table(5, 2, (1, 0))
    eta = data["eta"]
    y = rng.poisson(np.exp(eta)) if kind == "count" else rng.uniform(size=len(eta)) < 0.6
    model, data = lgm.loads(text(2, site, kind)), {**data, "y": y.astype(np.int64)}
    silent(lgm.fit(model, data))
    silent(lgm.fit(model, data, hyper="map"))


@pytest.mark.thorough
@pytest.mark.slow
def test_four_terms_of_which_one_is_null() -> None:
    """Gu and Wahba's example: `stalled` without an evidence, and W605 or a failed factorisation by
    `map`, where rounding hid the line of the null term. Two maxima are known by digits that ties
    mixed with other blocks lost (seed 2), and 97.5 % quantiles by 12 rounds of fits were 0.2 sd
    off (seed 7)."""
    for seed, ways in ((2, ("map",)), (7, ("integrate",))):
        rng, rows = np.random.default_rng(seed), 400
        x = rng.uniform(size=(4, rows)).round(2)
        eta = (
            2.0 * np.sin(np.pi * x[0])
            + np.exp(2.0 * x[1])
            + 0.2 * x[2] ** 11 * (10.0 * (1.0 - x[2])) ** 6
        )
        eta += 10.0 * (10.0 * x[2]) ** 3 * (1.0 - x[2]) ** 10
        data = {"y": eta + rng.normal(0.0, 2.0, rows), **{f"x{k}": x[k] for k in range(4)}}
        for way in ways:
            silent(lgm.fit(lgm.loads(text(4).replace("u = 1", "u = 5")), data, hyper=way))


@pytest.mark.thorough
def test_a_hundred_additive_models() -> None:
    """Half of them of one term, half of two; smooth, linear and null."""
    rng = np.random.default_rng(0)
    for seed in range(100):
        terms = 1 + seed % 2
        data = table(seed + 100, terms, tuple(rng.integers(3, size=terms).tolist()))
        model = lgm.loads(text(terms))
        fit = lgm.fit(model, data)
        silent(fit)
        compared(fit, data, terms, 0.2)
        silent(lgm.fit(model, data, hyper="map"))


def test_which_hypers_let_latents_vanish() -> None:
    """Sds and precisions of latents and positive factors of them; not what is anything else."""
    model = """lgm 1
index obs
index g
data y[obs] : real
data of[obs] : g
hyper s : positive ~ half_normal(sd = 1)
hyper tau : positive ~ gamma(shape = 1, rate = 1)
hyper gain : positive ~ half_normal(sd = 1)
hyper both : positive ~ half_normal(sd = 1)
hyper over : positive ~ half_normal(sd = 1)
hyper under : positive ~ half_normal(sd = over)
hyper ell : positive ~ half_normal(sd = 1)
latent u[g] ~ normal(sd = s)
latent v[g] ~ normal(sd = 1 / sqrt(tau))
latent w[g] ~ normal(sd = 1)
latent z[g] ~ normal(sd = both)
latent r[g] ~ normal(sd = under)
latent t[g] ~ normal(sd = over)
latent k[obs] ~ gp(kernel = se(sd = 1, length = ell), at = y)
let eta[obs] = u[of] + v[of] + gain * w[of] + z[of] + r[of] + t[of] + k
observe y ~ normal(mean = eta, sd = both)
"""
    data = {"y": np.arange(6.0), "of": np.resize([0, 1, 2], 6)}
    canonical = canonical_form(model, data)
    found = vanishing(canonical, canonical.hypers.start(), ())
    assert found == {"s": 1.0, "tau": -1.0, "gain": 1.0, "under": 1.0}
    assert "s" not in vanishing(canonical, canonical.hypers.start(), ("s",))
