"""Random small models: their text and data, and the same models in numpy.

    z = mean + sd(theta) x,  x ~ N(0, I);   s = offset + D z;   sites at s;   theta: learned sds

One to four latents, every family and potential that the registry knows, 1 to 30 rows, prior sds
0.5 to 10, no learned sd in half of the models, one or two in the rest. Varied ones have prior sds
0.05 to 30, and some of them offsets, row weights, zeros (inflated or before a hurdle). Of the code
under test only the sites' log densities, moments and distribution functions given s are used, which
tests of their own compare with SciPy's.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Site
from lgmdsl.sites.catalogue import families

LATENTS, CLIP = 4, 4.0  # the most latents of a model; data are drawn at predictors up to this
CLASSES, WORDS = 3, 4  # of ordered classes; of topics
SHOWN = 3  # rows whose predictors are compared
VALUES: dict[str, tuple[float, ...]] = {
    "power": (1.5, 1.0, 0.7), "df": (4.0, 2.5, 30.0), "exposure": (1.0, 0.1, 10.0),
    "shape": (1.0, 0.6, 3.0), "n": (1.0, 7.0, 47.0), "concentration": (1.0, 5.0, 30.0),
    "tweedie.power": (1.5, 1.2, 1.8), "generalized_poisson.dispersion": (1.5, 1.1, 3.0),
}  # fmt: skip


def _usual(family: str, parameter: str, other: tuple[float, ...]) -> tuple[float, ...]:
    """The values that a parameter is given."""
    return VALUES.get(f"{family}.{parameter}", VALUES.get(parameter, other))


class CannotBuildError(Exception):
    """A family whose arguments this file does not know how to write."""


@dataclass(frozen=True)
class Hyper:
    """A learned sd with its prior: half_normal(sd), exponential(rate), pc_sd(u, alpha),
    half_cauchy(scale), uniform from 0 to its size, or flat, of which the size says where points
    are drawn."""

    name: str
    prior: str
    size: float

    @property
    def text(self) -> str:
        arguments = {
            "half_normal": f"(sd = {self.size!r})",
            "exponential": f"(rate = {1.0 / self.size!r})",
            "pc_sd": f"(u = {3.0 * self.size!r}, alpha = 0.05)",
            "half_cauchy": f"(scale = {self.size!r})",
            "uniform": f"(lower = 0, upper = {self.size!r})",
            "flat": "",
        }[self.prior]
        return f"hyper {self.name} : positive ~ {self.prior}{arguments}"

    def log_density(self, s: Array) -> Array:
        """On the natural scale."""
        return np.zeros_like(s) if self.prior == "flat" else self.log_drawn(s)

    def log_drawn(self, s: Array) -> Array:
        """Of what `quantile` draws: the prior, in place of a flat one a half-Cauchy."""
        if self.prior == "half_normal":
            top = 0.5 * math.log(2.0 / math.pi) - math.log(self.size)
            return np.asarray(top - 0.5 * (s / self.size) ** 2)
        if self.prior == "uniform":
            return np.where(s <= self.size, -math.log(self.size), -np.inf)
        if self.prior in ("half_cauchy", "flat"):
            top = math.log(2.0 / math.pi / self.size)
            return np.asarray(top - np.log1p((s / self.size) ** 2))
        rate = 1.0 / self.size if self.prior == "exponential" else -math.log(0.05) / 3 / self.size
        return np.asarray(math.log(rate) - rate * s)

    def quantile(self, p: Array) -> Array:
        """Where P(s <= quantile) = p."""
        if self.prior == "half_normal":
            return np.asarray(self.size * special.ndtri(0.5 + 0.5 * p))
        if self.prior == "uniform":
            return np.asarray(self.size * p)
        if self.prior in ("half_cauchy", "flat"):
            return np.asarray(self.size * np.tan(0.5 * math.pi * p))
        rate = 1.0 / self.size if self.prior == "exponential" else -math.log(0.05) / 3 / self.size
        return np.asarray(-np.log1p(-p) / rate)


@dataclass(frozen=True, eq=False)
class Sites:
    """Sites at all predictors; `learned`: which parameter is which hyper."""

    site: Site
    learned: Mapping[str, int]
    weight: Array | None = None
    zeros: tuple[str, float] = ("", 0.0)  # zero_inflation or hurdle, and p

    def log_density(self, s: Array, theta: Array) -> Array:
        """Summed over the rows, (points,), at s (points, rows, K)."""
        return np.asarray(self.each(s, theta).sum(axis=1))

    def each(self, s: Array, theta: Array) -> Array:
        """log p of every row, (points, rows), times its weight."""
        y: Array = getattr(self.site, dataclasses.fields(self.site)[0].name)
        kind, p = self.zeros
        if not kind:
            logs = self.given(s, theta)
        else:
            discrete = self.site.spec.discrete
            inner = dataclasses.replace(self, zeros=("", 0.0))
            above = inner.observing(np.where(y > 0.0, y, 1.0)).given(s, theta)
            none = inner.observing(np.zeros(len(y))).given(s, theta) if discrete else -np.inf
            if kind == "hurdle":
                at_zero = np.full_like(above, math.log(p))
                above = above + math.log1p(-p) - np.log(-np.expm1(none))
            else:
                at_zero = np.logaddexp(math.log(p), math.log1p(-p) + none)
                above = above + math.log1p(-p)
            logs = np.where(y > 0.0, above, at_zero)
        return np.asarray(logs if self.weight is None else logs * self.weight)

    def observing(self, y: Array) -> Sites:
        """The same rows with other observations."""
        name = dataclasses.fields(self.site)[0].name
        return dataclasses.replace(self, site=dataclasses.replace(self.site, **{name: y}))

    def take(self, rows: slice) -> Sites:
        """Of some rows."""
        weight = None if self.weight is None else self.weight[rows]
        chosen = np.arange(len(self.site))[rows]
        return dataclasses.replace(self, site=self.site.take(chosen), weight=weight)

    def given(self, s: Array, theta: Array) -> Array:
        """log f(y) without weights and zeros, (points, rows)."""
        return self.ask(s, theta, lambda many, flat: many.log_density(flat))

    def ask(self, s: Array, theta: Array, what: Callable[[Site, Array], Array]) -> Array:
        """What the family without zeros says, (points, rows)."""
        points, rows, k = s.shape
        fields: dict[str, Any] = {}
        for f in dataclasses.fields(self.site):
            value = getattr(self.site, f.name)
            if f.name in self.learned:
                fields[f.name] = np.repeat(theta[:, self.learned[f.name]], rows)
            elif f.name not in self.site.spec.shared:
                fields[f.name] = np.tile(value, (points, *[1] * (value.ndim - 1)))
        many = dataclasses.replace(self.site, **fields)
        vector = k > 1 or self.site.spec.vector
        with np.errstate(all="ignore"):
            found = what(many, s.reshape(-1, k) if vector else s.reshape(-1))
        return np.asarray(found.reshape(points, rows))


@dataclass(frozen=True, eq=False)
class Case:
    """`design` (rows, K, latents); `scale`: for each latent which hyper its sd is, or -1;
    `names`: of each latent its name and place, as of each shown predictor; `shown`: these
    among all of the first rows, each of another value than a latent or one before."""

    number: int
    family: str
    text: str
    data: Mapping[str, Any]
    fixed: Mapping[str, Any]
    design: Array
    mean: Array
    sd: Array
    scale: tuple[int, ...]
    names: tuple[tuple[str, int], ...]
    predictors: tuple[tuple[str, int], ...]
    hypers: tuple[Hyper, ...]
    sites: tuple[Sites, ...]
    shown: tuple[int, ...] = ()
    offset: Array | None = None

    @property
    def rows(self) -> int:
        return len(self.design)

    def pinned(self, theta: Array) -> Case:
        """The same model at given hyperparameters, (hypers,)."""
        sd = [theta[k] if k >= 0 else s for s, k in zip(self.sd, self.scale, strict=True)]
        sites = []
        for own in self.sites:
            fields: dict[str, Any] = {
                name: np.full(self.rows, theta[k]) for name, k in own.learned.items()
            }
            site = dataclasses.replace(own.site, **fields)
            sites.append(dataclasses.replace(own, site=site, learned={}))
        alone = (-1,) * len(self.scale)
        return dataclasses.replace(
            self, sd=np.array(sd), scale=alone, hypers=(), sites=tuple(sites)
        )

    def latents(self, x: Array, theta: Array) -> Array:
        """z, (points, latents)."""
        sd = np.tile(self.sd, (len(x), 1))
        for j, k in enumerate(self.scale):
            if k >= 0:
                sd[:, j] = theta[:, k]
        return np.asarray(self.mean + sd * x)

    def predict(self, z: Array) -> Array:
        """s, (points, rows, K)."""
        s = np.einsum("rkn,pn->prk", self.design, z)
        return np.asarray(s if self.offset is None else s + self.offset)

    def log_likelihood(self, x: Array, theta: Array) -> Array:
        """log p(y | x, theta), (points,)."""
        s = self.predict(self.latents(x, theta))
        total = np.zeros(len(x))
        for sites in self.sites:
            total += sites.log_density(s, theta)
        return np.where(np.isnan(total), -np.inf, total)

    @property
    def quantities(self) -> tuple[tuple[str, str, int], ...]:
        """What is compared: its kind, name, and place in the flattened array."""
        return (
            *(("latent", *n) for n in self.names),
            *(("predictor", *n) for n in self.predictors),
            *(("hyper", h.name, 0) for h in self.hypers),
        )

    def values(self, x: Array, theta: Array) -> Array:
        """Of the quantities, (points, quantities)."""
        z = self.latents(x, theta)
        s = self.predict(z)[:, :SHOWN].reshape(len(x), -1)[:, list(self.shown)]
        return np.column_stack([z, s, theta])


def small_case(number: int, varied: bool = False) -> Case:
    """The model of a number: families in turn. That of a family's k-th turn stays the same when
    families are added. Raises CannotBuildError."""
    known = families()
    family, turn = known[number % len(known)], number // len(known)
    rng = np.random.default_rng([zlib.crc32(family.spec.name.encode()), turn])
    return Builder(rng, family, varied).case(number)


def small_case_of(family: str, turn: int) -> Case:
    """The model of a family's turn."""
    known = [f.spec.name for f in families()]
    return small_case(known.index(family) + turn * len(known))


def _seen(line: Array, earlier: Array) -> bool:
    """Whether a predictor is one latent, or an earlier predictor."""
    alone = np.count_nonzero(line) <= 1 and line.sum() in (0.0, 1.0)
    return bool(alone or any(np.array_equal(line, other) for other in earlier))


class Builder:
    def __init__(self, rng: np.random.Generator, family: type[Site], varied: bool) -> None:
        self.rng, self.family, self.varied = rng, family, varied
        self.widths = (0.05, 30.0) if varied else (0.5, 10.0)
        self.offset: Array | None = None
        size = rng.random()
        low, high = (1, 4) if size < 0.4 else (4, 11) if size < 0.7 else (11, 31)
        self.rows = int(rng.integers(low, high))
        open_rows = varied and not family.spec.potential
        self.lines = ["lgm 1", "index obs" if open_rows else f"index obs = {self.rows}"]
        self.data: dict[str, Any] = {}
        self.fixed: dict[str, Any] = {}
        self.columns: list[Array] = []  # (rows, K) each
        self.mean: list[float] = []
        self.sd: list[float] = []
        self.scale: list[int] = []
        self.names: list[tuple[str, int]] = []
        learned = 0 if rng.random() < 0.5 else int(rng.integers(1, 3))
        self.left = learned
        self.hypers: list[Hyper] = []

    def case(self, number: int) -> Case:
        spec = self.family.spec
        form = spec.form
        if form is None:
            raise CannotBuildError(f"{spec.name} has no signature")
        linked = [p for p in form.parameters if p.type == "latent"]
        arguments = [p for p in linked if not p.one_of or p.name == spec.argument]
        if spec.vector or any(p.over != "left" for p in arguments):
            names = self._classes(arguments[0].over)
        else:
            count = max(1, len(arguments))
            names = [self._line(f"eta{k}" if count > 1 else "eta", k, count) for k in range(count)]
        design = np.stack(self.columns, axis=-1)
        theta = np.array([self._true() for _ in self.hypers])
        bare = Case(
            number, spec.name, "", {}, {}, design, np.array(self.mean), np.array(self.sd),
            tuple(self.scale), tuple(self.names), (), tuple(self.hypers), (), (),
            None if self.offset is None else self.offset[:, None],
        )  # fmt: skip
        x = self.rng.normal(size=(1, design.shape[2]))
        s = np.clip(bare.predict(bare.latents(x, theta.reshape(1, -1)))[0], -CLIP, CLIP)
        assigned = [f"{p.name} = {n}" for p, n in zip(arguments, names, strict=False)]
        sites = [self._sites(s, assigned, names[0])]
        if spec.potential and self.rng.random() < 0.6:
            sites.append(self._noise(s))
        k = design.shape[1]
        shown = min(SHOWN, self.rows)
        if len(names) > 1:
            predictors = [(n, i) for i in range(shown) for n in names]
        else:
            predictors = [(names[0], i) for i in range(shown * k)]
        lines = design[:shown].reshape(shown * k, -1)
        different = [i for i in range(len(lines)) if not _seen(lines[i], lines[:i])]
        return dataclasses.replace(
            bare,
            text="\n".join(self.lines) + "\n",
            data=self.data,
            fixed=self.fixed,
            predictors=tuple(predictors[i] for i in different),
            shown=tuple(different),
            hypers=tuple(self.hypers),
            sites=tuple(sites),
        )

    def _true(self) -> float:
        """What a learned sd is where the data are drawn."""
        return float(np.exp(0.5 * self.rng.normal()))

    # ---- latents -------------------------------------------------------------------------------

    def _x(self, name: str) -> Array:
        if name not in self.data:
            self.lines.append(f"data {name}[obs] : real")
            self.data[name] = self.rng.normal(size=self.rows)
        return np.asarray(self.data[name])

    def _prior(self, learn: bool) -> tuple[str, float, int]:
        """The text of an sd, its value, the number of its hyper."""
        if learn and self.left:
            return self._hyper(f"h{len(self.hypers)}")
        sd = round(
            float(np.exp(self.rng.uniform(math.log(self.widths[0]), math.log(self.widths[1])))), 3
        )
        return repr(sd), sd, -1

    def _hyper(self, name: str) -> tuple[str, float, int]:
        self.left -= 1
        hyper = self._prior_of(name)
        self.hypers.append(hyper)
        self.lines.append(hyper.text)
        return hyper.name, 1.0, len(self.hypers) - 1

    def _prior_of(self, name: str) -> Hyper:
        prior = str(self.rng.choice(["half_normal", "exponential", "pc_sd"]))
        return Hyper(name, prior, round(float(np.exp(self.rng.uniform(-0.7, 1.0))), 2))

    def _add(self, name: str, columns: Array, mean: float, sd: float, scale: int) -> None:
        """A block; columns (rows, K, members)."""
        for j in range(columns.shape[2]):
            self.columns.append(columns[:, :, j])
            self.mean.append(mean)
            self.sd.append(sd)
            self.scale.append(scale)
            self.names.append((name, j))

    def _line(self, eta: str, which: int, count: int) -> str:
        """A predictor a + x b + u[who] of its own latents."""
        rng, tag = self.rng, str(which) if count > 1 else ""
        room = int(rng.integers(1, LATENTS + 1)) if count == 1 else LATENTS // count
        here = np.zeros((self.rows, count, 1))
        here[:, which] = 1.0
        terms, mean = [f"a{tag}"], round(float(rng.choice([0.0, rng.normal()])), 3)
        groups = room - 1 if room > 2 and rng.random() < 0.7 else 0
        text, sd, scale = self._prior(learn=room == 1)
        self.lines.append(f"latent a{tag} ~ normal(mean = {mean!r}, sd = {text})")
        self._add(f"a{tag}", here, mean, sd, scale)
        if groups:
            who = rng.integers(0, groups, self.rows)
            who[: min(groups, self.rows)] = np.arange(groups)[: self.rows]
            self.data[f"who{tag}"] = who
            self.lines += [f"index g{tag} = {groups}", f"data who{tag}[obs] : g{tag}"]
            text, sd, scale = self._prior(learn=True)
            self.lines.append(f"latent u{tag}[g{tag}] ~ normal(sd = {text})")
            self._add(f"u{tag}", here * np.eye(groups)[who][:, None, :], 0.0, sd, scale)
            terms.append(f"u{tag}[who{tag}]")
        elif room > 1:
            for j in range(room - 1):
                name = f"x{j}"
                x = self._x(name)
                text, sd, scale = self._prior(learn=True)
                self.lines.append(f"latent b{tag}{j} ~ normal(sd = {text})")
                self._add(f"b{tag}{j}", here * x[:, None, None], 0.0, sd, scale)
                terms.append(f"{name} * b{tag}{j}")
        if self.varied and count == 1 and rng.random() < 0.3:
            self.offset = np.round(2.0 * rng.normal(size=self.rows), 3)
            self.lines.append("data o[obs] : real")
            self.data["o"] = self.offset
            terms.append("o")
        self.lines.append(f"let {eta}[obs] = {' + '.join(terms)}")
        return eta

    def _classes(self, over: str) -> list[str]:
        """A predictor of each class, or of all but the last."""
        rng = self.rng
        size = int(rng.integers(2, 4))
        cut = over == "cut" or (over in ("classes", "last") and rng.random() < 0.4)
        self.lines.append(f"index class = {size + 1 if cut else size}")
        axis = "class"
        if cut:
            self.lines.append("index cut = head(class)")
            axis = "cut"
        mean = round(float(rng.choice([0.0, rng.normal()])), 3)
        text, sd, scale = self._prior(learn=True)
        self.lines.append(f"latent w[{axis}] ~ normal(mean = {mean!r}, sd = {text})")
        here = np.tile(np.eye(size), (self.rows, 1, 1))
        terms, slopes = ["w"], rng.random() < 0.5
        if slopes and size > 2:
            terms, here = ["x0 * w"], here * self._x("x0")[:, None, None]
        self._add("w", here, mean, sd, scale)
        if slopes and size == 2:
            x = self._x("x0")
            text, sd, scale = self._prior(learn=True)
            self.lines.append(f"latent v[{axis}] ~ normal(sd = {text})")
            self._add("v", here * x[:, None, None], 0.0, sd, scale)
            terms.append("x0 * v")
        self.lines.append(f"let eta[obs, {axis}] = {' + '.join(terms)}")
        return ["eta"]

    # ---- sites ---------------------------------------------------------------------------------

    def _sites(self, s: Array, assigned: list[str], eta: str) -> Sites:
        spec, form, rng = self.family.spec, self.family.spec.form, self.rng
        variant = spec.name.split(".")[2:]
        values: dict[str, Any] = {}
        learned: dict[str, int] = {}
        lines: list[str] = []
        ends = [n for n in ("event", "lower", "upper") if n in spec.parameters]
        for name, default in spec.parameters.items():
            if name in ends or name == "available":
                values[name] = np.full(self.rows, np.nan if default is None else default)
                continue
            declared = None if form is None else form.parameter(name)
            if declared is None:
                raise CannotBuildError(f"{spec.name} has an undeclared parameter {name}")
            if name in spec.indexed and declared.type == "positive":
                raise CannotBuildError(f"{spec.name} has {name} over an index of its own")
            if declared.type == "ordered":
                size = CLASSES - 1 if declared.over == "cut" else CLASSES
                entries = np.round(np.cumsum(rng.uniform(0.5, 2.0, size)), 3)
                entries -= entries.mean().round(3)
                if declared.over == "class":
                    entries /= entries[-1] - entries[0]
                    entries *= CLASSES - 1
                axis = "level" if declared.over == "class" else "threshold"
                lines.append(f"hyper {name}0[{axis}] : ordered ~ flat")
                self.fixed[f"{name}0"] = entries
                values[name] = np.tile(entries, (self.rows, 1))
                assigned.append(f"{name} = {name}0")
            elif declared.type == "simplex":
                table = rng.dirichlet(np.full(WORDS, 0.6), s.shape[1]) + 0.02
                table /= table.sum(axis=1, keepdims=True)
                lines += [
                    f"index word = {WORDS}",
                    f"hyper {name}0[class, word] : simplex ~ dirichlet(alpha = 1)",
                ]
                self.fixed[f"{name}0"], values[name] = table, table
                assigned.append(f"{name} = {name}0")
            elif declared.type == "count" or name == "exposure":
                column = rng.choice(_usual(spec.family, name, (1.0,)), self.rows)
                kind = "count" if declared.type == "count" else "positive"
                lines.append(f"data {name}0[obs] : {kind}")
                self.data[f"{name}0"] = values[name] = column
                assigned.append(f"{name} = {name}0")
            elif self.left and name in spec.scales and not spec.potential:
                text, value, hyper = self._hyper(f"h{len(self.hypers)}")
                learned[name] = hyper
                values[name] = np.full(self.rows, value)
                assigned.append(f"{name} = {text}")
            elif declared.type in ("positive", "real", "unit"):
                usual = {"positive": (1.0, 0.3, 3.0), "real": (0.0,), "unit": (0.1, 0.4)}
                value = float(rng.choice(_usual(spec.family, name, usual[declared.type])))
                values[name] = np.full(self.rows, value)
                assigned.append(f"{name} = {value!r}")
            else:
                raise CannotBuildError(f"{spec.name} has {name} of type {declared.type}")
        if spec.potential:
            self.lines += [*lines, f"potential {eta} ~ {spec.family}({', '.join(assigned)})"]
            return Sites(self._made(None, values), learned)
        y = self._drawn(s, values)
        dims, kind = "obs", spec.observed[0]
        if spec.wide and "y" in spec.wide:
            dims = "obs, word" if spec.shared else "obs, class"
        if kind == "index":
            kind = "class" if spec.vector or "stick" in spec.name else "level"
            if kind == "level":
                lines = [f"index level = {CLASSES}", "index threshold = head(level)", *lines]
        if ends:
            assigned += self._censored(y, values, ends, lines, always="censored" in variant)
        elif variant:
            assigned.append(f'model = "{variant[0]}"')
        zeros = ("", 0.0)
        if self.varied and kind in ("count", "positive") and not (ends or spec.vector):
            zeros, y, kind = self._zeros(y, kind, assigned)
        weight = None
        if self.varied and rng.random() < 0.25:
            self.data["w0"] = weight = rng.choice([0.5, 1.0, 2.0, 3.0], self.rows)
            lines.append("data w0[obs] : nonnegative")
            assigned.append("weight = w0")
        self.data["y"] = y
        lines.append(f"data y[{dims}] : {kind}")
        self.lines += [*lines, f"observe y ~ {spec.family}({', '.join(assigned)})"]
        return Sites(self._made(y, values), learned, weight, zeros)

    def _zeros(
        self, y: Array, kind: str, assigned: list[str]
    ) -> tuple[tuple[str, float], Array, str]:
        """More zeros than the family has, in two of five models."""
        way = str(self.rng.choice(["", "", "", "zero_inflation", "hurdle"]))
        if not way or (way == "zero_inflation" and kind == "positive"):
            return ("", 0.0), y, kind
        p = float(self.rng.choice([0.1, 0.3]))
        assigned.append(f"{way} = {p!r}")
        if way == "hurdle" and kind == "count":
            y = np.maximum(y, 1.0)
        y = np.where(self.rng.random(self.rows) < p, 0.0, y)
        return (way, p), y, "nonnegative" if kind == "positive" else kind

    def _made(self, y: Array | None, values: Mapping[str, Any]) -> Site:
        fields = dict(values) if y is None else {"y": y, **values}
        if "available" in fields:
            k = self.columns[0].shape[1]
            whole = k if self.lines.count("index cut = head(class)") == 0 else k + 1
            fields["available"] = np.ones((self.rows, whole))
        return self.family(**fields)

    def _drawn(self, s: Array, values: Mapping[str, Any]) -> Array:
        spec, rows = self.family.spec, self.rows
        start = np.full(rows, 0.5 if "unit" in spec.observed else 1.0)
        if "y" in spec.wide:
            start = np.zeros((rows, WORDS if spec.shared else s.shape[1]))
            start[:, 0] = self.rng.integers(1, 9, rows)
        elif "index" in spec.observed:
            start = np.zeros(rows)
        if "y" in spec.wide and "cut" in "".join(self.lines) and not spec.shared:
            start = np.column_stack([start, np.zeros(rows)])
        at = s if spec.vector or s.shape[1] > 1 else s[:, 0]
        y = np.asarray(self._made(start, values).sample(at, self.rng), dtype=np.float64)
        if "positive" in spec.observed:
            y = np.maximum(y, 1e-9)
        if "unit" in spec.observed:
            y = np.clip(y, 1e-6, 1.0 - 1e-6)
        return y

    def _censored(
        self, y: Array, values: dict[str, Any], ends: list[str], lines: list[str], always: bool
    ) -> list[str]:
        """What is censored how, written into `values`, `lines` and the data."""
        rng, n = self.rng, len(y)
        plain = "lower" not in ends
        if plain and rng.random() < 0.5 and not always:
            return []
        if plain or (rng.random() < 0.4 and "event" in ends):
            values["event"] = self.data["event0"] = rng.integers(0, 2, n).astype(np.float64)
            lines.append("data event0[obs] : binary")
            if plain or not self._twin():
                return ["event = event0"]
            values["event"] = np.ones(n)
            lines.pop()
            del self.data["event0"]
        away = 0.3 * np.abs(y) if (y > 0.0).all() else 0.3 * np.abs(y) + 0.1
        lower = np.where(rng.random(n) < 0.6, y - away, np.nan)
        upper = np.where(rng.random(n) < 0.6, y + 2.0 * away, np.nan)
        values["lower"] = self.data["lower0"] = lower
        values["upper"] = self.data["upper0"] = upper
        lines += ["data lower0[obs] : real?", "data upper0[obs] : real?"]
        return ["lower = lower0", "upper = upper0"]

    def _twin(self) -> bool:
        """Whether the family without intervals takes `event` itself."""
        plain = self.family.spec.name.removesuffix(".censored")
        return any(f.spec.name == plain and "event" in f.spec.parameters for f in families())

    def _noise(self, s: Array) -> Sites:
        """Normal observations of the predictor, next to a potential."""
        normal = next(f for f in families() if f.spec.name == "normal.mean")
        sd = float(self.rng.choice([0.3, 1.0, 3.0]))
        made: Any = normal
        self.data["y"] = np.round(s[:, 0] + sd * self.rng.normal(size=self.rows), 4)
        self.lines += ["data y[obs] : real", f"observe y ~ normal(mean = eta, sd = {sd!r})"]
        return Sites(made(self.data["y"], np.full(self.rows, sd)), {})
