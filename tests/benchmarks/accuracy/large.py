"""Models of 10 to 200 latents, their default fits against long exact sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.sites.catalogue import families

from . import judge
from .cases import Hyper
from .sampler import Density, drawn

KINDS = (
    "binary GP", "count GP", "rw2", "random intercepts", "map", "probit regression", "student-t",
    "ordinal",
)  # fmt: skip
LEVELS = (0.05, 0.95)
SECONDS, WANTED, ENOUGH = 20.0, 4000.0, 1000.0
CUTS = (-1.0, 0.0, 1.2)


@dataclass(frozen=True, eq=False)
class LargeCase:
    """`blocks`: of each latent its name, its columns of the reported values (members, latents of
    the block) and the columns in `density`."""

    family: str
    text: str
    data: Mapping[str, Any]
    fixed: Mapping[str, Any]
    density: Density
    blocks: tuple[tuple[str, Array, slice], ...]

    @property
    def quantities(self) -> tuple[tuple[str, str, int], ...]:
        latents = [("latent", n, i) for n, root, _ in self.blocks for i in range(len(root))]
        shown = range(min(len(self.density.columns), 20))
        return (
            *latents,
            *(("predictor", "eta", i) for i in shown),
            *(("hyper", h.name, 0) for h in self.density.hypers),
        )

    def values(self, u: Array) -> Array:
        """Of the quantities, (chains, quantities)."""
        d = self.density
        x = d.factors(u) * u[:, : d.size]
        latents = [x[:, part] @ root.T for _, root, part in self.blocks]
        return np.column_stack([*latents, d.predict(u)[:, :20], np.exp(u[:, d.size :])])


def se_root(x: Array, length: float) -> Array:
    """K = R R' of a squared exponential."""
    k = np.exp(-0.5 * ((x[:, None] - x) / length) ** 2)
    values, vectors = np.linalg.eigh(k)
    kept = values > 1e-10 * values.max()
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def intrinsic_root(q: Array, null: int) -> tuple[Array, Array]:
    """R with Q^+ = RR' scaled to marginal sds of geometric mean 1, and the null space without the
    level, orthonormal."""
    values, vectors = np.linalg.eigh(q)
    root = vectors[:, null:] / np.sqrt(values[null:])
    root /= math.exp(0.5 * np.log((root**2).sum(axis=1)).mean())
    space = vectors[:, :null] - vectors[:, :null].mean(axis=0)
    u, s, _ = np.linalg.svd(space, full_matrices=False)
    return root, u[:, s > 1e-6]


class _Builder:
    def __init__(self, rng: np.random.Generator, rows: int) -> None:
        self.rng, self.rows = rng, rows
        self.lines = ["lgm 1", f"index obs = {rows}"]
        self.data: dict[str, Any] = {}
        self.fixed: dict[str, Any] = {}
        self.hypers: list[Hyper] = []
        self.columns: list[Array] = []
        self.scale: list[int] = []
        self.flat: list[bool] = []
        self.blocks: list[tuple[str, Array, slice]] = []
        self.terms: list[str] = []
        self.true: list[Array] = []

    def sd(self, name: str, value: float, learn: bool) -> tuple[str, float, int]:
        """The text of an sd, the factor of its columns, the number of its hyper."""
        if not learn:
            return repr(value), value, -1
        prior = str(self.rng.choice(["half_normal", "exponential", "pc_sd"]))
        self.hypers.append(Hyper(name, prior, 1.5))
        self.lines.append(self.hypers[-1].text)
        return name, 1.0, len(self.hypers) - 1

    def block(
        self, name: str, root: Array, design: Array, scale: int, true: float, flat: int = 0
    ) -> None:
        """Latents root @ x at predictors design @ root @ x, the last `flat` without a prior."""
        first, n = sum(c.shape[1] for c in self.columns), root.shape[1]
        self.columns.append(design @ root)
        self.scale += [scale] * (n - flat) + [-1] * flat
        self.flat += [False] * (n - flat) + [True] * flat
        self.blocks.append((name, root, slice(first, first + n)))
        x = self.rng.normal(size=n) * np.where(np.arange(n) < n - flat, true, 0.3)
        self.true.append(self.columns[-1] @ x)

    def level(self, sd: float) -> None:
        self.lines.append(f"latent a ~ normal(sd = {sd!r})")
        self.block("a", np.array([[sd]]), np.ones((self.rows, 1)), -1, 0.3)
        self.terms.append("a")

    def finished(self, kind: str, site: str, extra: Mapping[str, Any]) -> LargeCase:
        """With sites of a family; `extra`: parameters as data (arrays) or numbers."""
        family = next(f for f in families() if f.spec.name == site)
        spec = family.spec
        self.lines.append(f"let eta[obs] = {' + '.join(self.terms)}")
        assigned, values = [f"{spec.argument} = eta"], {}
        for name, value in extra.items():
            if name == "cuts":
                values[name] = np.tile(value, (self.rows, 1))
                self.lines += [
                    f"index level = {len(value) + 1}", "index threshold = head(level)",
                    "hyper cuts0[threshold] : ordered ~ flat",
                ]  # fmt: skip
                self.fixed["cuts0"] = np.array(value)
                assigned.append("cuts = cuts0")
            elif isinstance(value, float):
                values[name] = np.full(self.rows, value)
                assigned.append(f"{name} = {value!r}")
            else:
                values[name] = self.data[f"{name}0"] = value
                self.lines.append(f"data {name}0[obs] : {'count' if name == 'n' else 'positive'}")
                assigned.append(f"{name} = {name}0")
        for name, default in spec.parameters.items():
            values.setdefault(name, np.full(self.rows, 0.0 if default is None else default))
        made: Any = family
        ordered = {n: values[n] for n in spec.parameters}
        s = np.clip(np.sum(self.true, axis=0), -6.0, 5.0)
        y = made(np.zeros(self.rows), **ordered).sample(s, self.rng)
        kind_of = "level" if "cuts" in extra else spec.observed[0]
        self.data["y"] = np.asarray(y, dtype=np.float64)
        self.lines += [
            f"data y[obs] : {kind_of}", f"observe y ~ {spec.family}({', '.join(assigned)})",
        ]  # fmt: skip
        density = Density(
            made(self.data["y"], **ordered), np.zeros(self.rows), np.hstack(self.columns),
            np.array(self.scale), np.array(self.flat), tuple(self.hypers),
        )  # fmt: skip
        text = "\n".join(self.lines) + "\n"
        return LargeCase(kind, text, self.data, self.fixed, density, tuple(self.blocks))


def large_case(number: int) -> LargeCase:
    """The model of a number."""
    rng = np.random.default_rng(70_000 + number)
    kind = KINDS[number % len(KINDS)]
    learn = bool(rng.random() < 0.6)
    rows = int(np.exp(rng.uniform(math.log(12), math.log(150))))
    sd = round(float(np.exp(rng.uniform(math.log(0.7), math.log(4.0)))), 2)
    if kind in ("random intercepts", "ordinal"):
        return _grouped(rng, kind, sd, learn)
    if kind == "map":
        return _map(rng, learn)
    b = _Builder(rng, rows)
    if kind == "probit regression":
        weights = int(rng.integers(10, 21))
        rows = int(rng.integers(weights, 3 * weights))
        b = _Builder(rng, rows)
        x = rng.normal(size=(rows, weights))
        b.data["X"] = x
        b.lines += [f"index feat = {weights}", "data X[obs, feat] : real"]
        text, factor, scale = b.sd("h", sd, learn)
        b.lines.append(f"latent w[feat] ~ normal(sd = {text})")
        b.block("w", factor * np.eye(weights), x, scale, min(sd, 1.0) / factor)
        b.terms.append("X @ w")
        return b.finished(kind, "bernoulli.probit", {})
    if kind == "rw2":
        b.level(5.0)
        text, factor, scale = b.sd("h", min(sd, 2.0), learn)
        b.lines.append(f"latent f[obs] ~ rw2(sd = {text})")
        d = np.diff(np.eye(rows), 2, axis=0)
        root, line = intrinsic_root(d.T @ d, 2)
        b.block("f", np.hstack([factor * root, line]), np.eye(rows), scale, 1.0, line.shape[1])
        b.terms.append("f")
        n = rng.integers(1, 8, rows).astype(np.float64)
        which = number // len(KINDS) % 2
        return b.finished(kind, *(("binomial.logit", {"n": n}), ("poisson.log_rate", {}))[which])
    b.level(3.0)
    x = np.sort(rng.uniform(0.0, 10.0, rows))
    text, factor, scale = b.sd("h", sd if kind != "count GP" else min(sd, 2.0), learn)
    length = round(float(rng.uniform(0.7, 2.5)), 2)
    b.data["x"] = x[:, None]
    b.lines += [
        "index one = 1", "data x[obs, one] : real",
        f"latent f[obs] ~ gp(at = x, kernel = se(sd = {text}, length = {length!r}))",
    ]  # fmt: skip
    b.block("f", factor * se_root(x, length), np.eye(rows), scale, min(sd, 2.0) / factor)
    b.terms.append("f")
    which = number // len(KINDS) % 2
    choices: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
        "binary GP": (("bernoulli.logit", {}), ("bernoulli.probit", {})),
        "count GP": (("poisson.log_rate", {}), ("negbinomial.log_mean", {"size": 2.0})),
        "student-t": (("student_t.mean", {"scale": 0.5, "df": 4.0}),
                      ("student_t.mean", {"scale": 0.3, "df": 3.0})),
    }  # fmt: skip
    return b.finished(kind, *choices[kind][which])


def _grouped(rng: np.random.Generator, kind: str, sd: float, learn: bool) -> LargeCase:
    groups = int(np.exp(rng.uniform(math.log(9), math.log(100))))
    each = min(int(rng.integers(1, 8)), 240 // groups)
    who = np.repeat(np.arange(groups), each)
    b = _Builder(rng, len(who))
    b.level(5.0)
    x = rng.normal(size=len(who))
    b.data |= {"x": x, "who": who}
    b.lines += [f"index g = {groups}", "data who[obs] : g", "data x[obs] : real"]
    b.lines.append("latent b ~ normal(sd = 3.0)")
    b.block("b", np.array([[3.0]]), x[:, None], -1, 0.3)
    text, factor, scale = b.sd("h", sd, learn)
    b.lines.append(f"latent u[g] ~ normal(sd = {text})")
    b.block("u", factor * np.eye(groups), np.eye(groups)[who], scale, sd / factor)
    b.terms += ["x * b", "u[who]"]
    if kind == "ordinal":
        link = ("ordinal.logit", "ordinal.probit")[int(rng.integers(2))]
        return b.finished(kind, link, {"cuts": CUTS})
    return b.finished(kind, "bernoulli.logit", {})


def _map(rng: np.random.Generator, learn: bool) -> LargeCase:
    """A lattice with areas left out at random, connected; exposures from small to large."""
    side = int(rng.integers(4, 10))
    at = [(i, j) for i in range(side) for j in range(side)]
    adjacent = np.array([[abs(a - c) + abs(b - d) == 1 for c, d in at] for a, b in at], dtype=float)
    b = _Builder(rng, len(at))
    b.lines[1] = f"index obs = {len(at)}"
    b.level(3.0)
    b.data["edges"] = adjacent
    b.lines.append("data edges[obs, obs] : graph")
    text, factor, scale = b.sd("h", 0.8, learn)
    b.lines.append(f"latent f[obs] ~ besag(graph = edges, sd = {text})")
    root, _ = intrinsic_root(np.diag(adjacent.sum(axis=1)) - adjacent, 1)
    b.block("f", factor * root, np.eye(len(at)), scale, 0.8 / factor)
    text, factor, scale = b.sd("k", 0.4, learn)
    b.lines.append(f"latent v[obs] ~ normal(sd = {text})")
    b.block("v", factor * np.eye(len(at)), np.eye(len(at)), scale, 0.4 / factor)
    b.terms += ["f", "v"]
    exposure = np.exp(rng.normal(rng.uniform(-1.0, 2.0), 0.7, len(at)))
    return b.finished("map", "poisson.log_rate", {"exposure": exposure})


def large_rows(number: int, earlier: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The lines of one model."""
    case = large_case(number)
    about: dict[str, Any] = {
        "number": number, "family": case.family, "latents": case.density.size,
        "hypers": len(case.density.hypers), "rows": len(case.density.columns),
        "fingerprint": judge.fingerprint(case.text, case.data, case.fixed),
    }  # fmt: skip
    known = [r for r in earlier if r["fingerprint"] == about["fingerprint"]]
    if known and known[0]["mean"]:
        mean, sd, low, high = (
            np.array([float(r[c]) for r in known]) for c in ("mean", "sd", "low", "high")
        )
        quantiles, error = np.array([low, high]), float(known[0]["error"])
        skewness = np.array([float(r["skewness"]) for r in known])
    else:
        draws = drawn(case.density, case.values, SECONDS, WANTED)
        name = f"R-hat {draws.rhat:.3f}, {draws.ess:.0f} effective draws"
        if draws.rhat > 1.01 or draws.ess < ENOUGH:
            return [about | {"kind": "left out", "name": name}]
        every = draws.values.reshape(-1, draws.values.shape[2])
        mean, sd = every.mean(axis=0), every.std(axis=0)
        skewness = ((every - mean) ** 3).mean(axis=0) / np.maximum(sd, 1e-300) ** 3
        quantiles, error = np.quantile(every, LEVELS, axis=0), 1.0 / math.sqrt(draws.ess)
    fit, columns = judge.fitted(case.text, case.data, case.fixed)
    about |= columns
    if fit is None:
        return [about | {"kind": "refused", "name": columns["basis"]}]
    lines = judge.compared(fit, case.quantities, mean, sd, quantiles, LEVELS)
    for line, third in zip(lines, skewness, strict=True):
        line["skewness"] = third
    return [about | line | {"error": error} for line in lines]
