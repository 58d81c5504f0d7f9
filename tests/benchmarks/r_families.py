"""Families that glmmTMB has too: the model here, the call there, and data drawn from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.sites.catalogue import SITES

COEFFICIENTS = ("b0", "b1", "b2", "z0", "z1", "c0", "c1")
# What data are drawn with.
VALUES = {
    "size": 2.0, "dispersion": 1.8, "power": 1.5, "concentration": 4.0, "shape": 2.0, "sd": 0.7,
    "scale": 0.7, "df": 5.0,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One likelihood on both sides. The coefficient of the dispersion there is `halves` times
    log(d + shift)."""

    observation: str
    site: str  # draws data
    family: str
    link: str = "log"
    zero: str = "~0"
    dispersion: str = "~1"
    halves: float = 1.0
    shift: float = 0.0
    y: str = "count"
    rows: int = 20_000

    def uses(self, name: str) -> bool:
        text = self.observation
        for mark in "(),*+":
            text = text.replace(mark, " ")
        return name in text.split()

    @property
    def coefficients(self) -> list[str]:
        needs = {"b": True, "z": self.uses("pi"), "c": self.uses("zeta")}
        return [b for b in COEFFICIENTS if needs[b[0]]]

    def text(self, random: bool) -> str:
        """A model whose coefficients are hypers with flat priors: maximum likelihood by `map`."""
        kinds = {"e": "positive", "n": "count"}
        lines = ["lgm 1", "index obs", "index g", "data who[obs] : g"]
        lines += ["data x1[obs] : real", "data x2[obs] : real"]
        lines += [f"data {k}[obs] : {kind}" for k, kind in kinds.items() if self.uses(k)]
        lines.append(f"data y[obs] : {self.y}")
        lines += [f"hyper {b} : real ~ flat" for b in self.coefficients]
        lines += [f"hyper {k} : positive ~ flat" for k in ("d", "k") if self.uses(k)]
        lines += ["hyper p : unit ~ uniform(lower = 0, upper = 1)"] if self.uses("p") else []
        extra = ""
        if random:
            lines += ["hyper s : positive ~ flat", "latent u[g] ~ normal(sd = s)"]
            extra = " + u[who]"
        lines.append(f"let eta[obs] = b0 + b1 * x1 + b2 * x2{extra}")
        lines += ["let pi[obs] = z0 + z1 * x1"] if self.uses("pi") else []
        lines += ["let zeta[obs] = c0 + c1 * x1"] if self.uses("zeta") else []
        return "\n".join([*lines, f"observe y ~ {self.observation}"]) + "\n"

    def data(self, columns: dict[str, Array], random: bool) -> dict[str, Array]:
        model = self.text(random)
        known = {**columns, "who": columns["g"].astype(int)}
        return {k: v for k, v in known.items() if f"data {k}[obs]" in model}

    def drawn(self, rows: int, groups: int, seed: int = 1) -> dict[str, Array]:
        rng = np.random.default_rng(seed)
        g = np.arange(rows) % groups
        x1, x2 = rng.normal(size=(2, rows))
        e, n = rng.uniform(0.5, 3.0, rows), rng.integers(5, 20, rows).astype(float)
        e = e if self.uses("e") else np.ones(rows)
        s = 0.5 + 0.3 * x1 - 0.2 * x2 + 0.5 * rng.normal(size=groups)[g]
        cls = SITES[self.site]
        values = {k: np.full(rows, v) for k, v in VALUES.items()} | {"exposure": e, "n": n}
        if "com_poisson" in self.site:
            values["dispersion"] = np.full(rows, 0.6)
        if self.uses("zeta"):
            values["size"] = np.exp(0.5 + 0.4 * x1)
        site = cls(y=np.zeros(rows), **{k: values[k] for k in cls.spec.parameters})  # type: ignore[call-arg]
        y = site.sample(s, rng)
        if "hurdle" in self.observation:
            while (y == 0.0).any():
                y = np.where(y == 0.0, site.sample(s, rng), y)
        if self.uses("pi"):
            y = np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(1.0 - 0.5 * x1)), 0.0, y)
        return {"y": y, "x1": x1, "x2": x2, "e": e, "n": n, "g": g.astype(float)}


def _counts(name: str, rest: str = "", argument: str = "log_mean") -> str:
    return f"{name}({argument} = eta, {rest}exposure = e)"


def _betabinomial(link: str) -> Case:
    text = f"betabinomial(n = n, {link} = eta, concentration = d)"
    return Case(text, f"betabinomial.{link}", "betabinomial", link)


CASES: dict[str, Case] = {
    "poisson": Case(_counts("poisson", argument="log_rate"), "poisson.log_rate", "poisson"),
    "nbinom1": Case(
        _counts("negbinomial1", "dispersion = d, "), "negbinomial1.log_mean", "nbinom1"
    ),
    "nbinom2": Case(_counts("negbinomial", "size = d, "), "negbinomial.log_mean", "nbinom2"),
    "genpois": Case(
        _counts("generalized_poisson", "dispersion = 1 + d, "), "generalized_poisson.log_mean",
        "genpois", shift=1.0,
    ),
    "compois": Case(
        _counts("com_poisson", "dispersion = d, "), "com_poisson.log_mean", "compois", rows=300
    ),
    "tweedie": Case(
        "tweedie(log_mean = eta, dispersion = d, power = 1 + p)", "tweedie.log_mean", "tweedie",
        y="nonnegative",
    ),
    "betabinomial logit": _betabinomial("logit"),
    "betabinomial probit": _betabinomial("probit"),
    "betabinomial cloglog": _betabinomial("cloglog"),
    "binomial logit": Case("binomial(n = n, logit = eta)", "binomial.logit", "binomial", "logit"),
    "binomial cloglog": Case(
        "binomial(n = n, cloglog = eta)", "binomial.cloglog", "binomial", "cloglog"
    ),
    "beta": Case(
        "beta(logit_mean = eta, concentration = d)", "beta.logit_mean", "beta_family", "logit",
        y="unit",
    ),
    "gamma": Case("gamma(log_mean = eta, shape = d)", "gamma.log_mean", "Gamma", y="positive"),
    "normal": Case(
        "normal(mean = eta, sd = d)", "normal.mean", "gaussian", "identity", halves=2.0, y="real"
    ),
    "lognormal": Case(
        "lognormal(mean = eta, sd = d)", "lognormal.mean", "lognormal", "identity", halves=2.0,
        y="positive",
    ),
    "student_t": Case(
        "student_t(mean = eta, scale = d, df = k)", "student_t.mean", "t_family", "identity",
        y="real",
    ),
    "zero-inflated poisson": Case(
        "poisson(log_rate = eta, zero_inflation_logit = pi)", "poisson.log_rate", "poisson",
        zero="~x1",
    ),
    "zero-inflated nbinom2": Case(
        "negbinomial(log_mean = eta, size = d, zero_inflation_logit = pi)", "negbinomial.log_mean",
        "nbinom2", zero="~x1",
    ),
    "hurdle poisson": Case(
        "poisson(log_rate = eta, hurdle_logit = pi)", "poisson.log_rate", "truncated_poisson",
        zero="~x1",
    ),
    "hurdle nbinom2": Case(
        "negbinomial(log_mean = eta, size = d, hurdle_logit = pi)", "negbinomial.log_mean",
        "truncated_nbinom2", zero="~x1",
    ),
    "nbinom2 dispersion": Case(
        "negbinomial(log_mean = eta, log_size = zeta)", "negbinomial.log_mean", "nbinom2",
        dispersion="~x1",
    ),
}  # fmt: skip
