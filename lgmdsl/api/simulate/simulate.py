"""Draws from a model: covariates, latents from their prior, and responses given both."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lgmdsl.api.settings import check_fixed, check_numbers
from lgmdsl.api.simulate.synthetic_covariates import complete
from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.grounding.ground import GroundedModel, IndexSet
from lgmdsl.canonical.lowering.derived import Leaf
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise
from lgmdsl.dataset import Dataset, Keys, read
from lgmdsl.errors import DataError, Diagnostic, ModelError, NumericalError
from lgmdsl.graph.build import model_graph
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.language.builder import Model
from lgmdsl.language.load import AnyModel, as_model
from lgmdsl.language.tree import ast
from lgmdsl.memory import during
from lgmdsl.posterior.prior_draws import (
    SimulationWarning,
    left_out_warning,
    prior_to_draw,
    refuse_potentials,
)
from lgmdsl.sites import catalogue as sites

TRUTH = "truth."
WORDS = 100.0  # mean length of a row of words, where no data give it

# Counts beyond this are not whole in float64 any more; real responses are never that large.
MOST = 2.0**53


@dataclass(frozen=True)
class Simulated:
    """A drawn data set, the blocks of latents that it was drawn from, and what there is to know of
    how."""

    data: dict[str, Any]
    latents: dict[str, Array]
    warnings: tuple[Diagnostic, ...] = ()


def simulate(
    model: AnyModel,
    data: object = None,
    sizes: Mapping[str, int] | None = None,
    fixed: Mapping[str, object] | None = None,
    seed: int = 0,
    *,
    mapping: Keys | None = None,
) -> dict[str, Any]:
    """A complete data set of the model, drawn from it.

    Covariates in `data` are used; others are drawn by type (real: standard normal; positive:
    gamma of mean 1; unit: uniform; count: 1 + Poisson(9); binary: fair; maps: uniform and onto;
    graph: a ring); an admixture has as many words in each row as in `data`, else Poisson(100).
    Then hypers without a value from their priors, z from its own, exactly and within the
    constraints, and y given z. The result holds the labels of index sets, all data, and
    each latent and drawn hyper as `truth.NAME`: it can be given to `fit` as it is. The same seed
    gives the same digits. Latents whose priors are flat in some directions (the line of an `rw2`,
    the patterns of `seasonal`) are drawn without these, with a SimulationWarning (W402).

    Raises DataError (E305: no size for an index set), MethodError (E503: a hyper without a
    value whose prior cannot be drawn from; E501: a part this version cannot draw) and ModelError
    E402 for a flat prior.
    """
    model = as_model(model, "simulate")
    drawn = simulated(model, data, sizes, fixed, seed, mapping=mapping)
    for diagnostic in drawn.warnings:
        warnings.warn(diagnostic.render(), SimulationWarning, stacklevel=2)
    return drawn.data


@during("simulating")
def simulated(
    model: Model,
    data: object = None,
    sizes: Mapping[str, int] | None = None,
    fixed: Mapping[str, object] | None = None,
    seed: int = 0,
    *,
    mapping: Keys | None = None,
) -> Simulated:
    """`simulate`, its warnings next to the data."""
    load_entry_points()
    check_numbers(seed)
    rng = np.random.default_rng(seed)
    dataset = data if isinstance(data, Dataset) else _read(data, mapping)
    graph = model_graph(model.checked)
    checked = graph.model
    completed = complete(graph, dataset, dict(sizes or {}), rng)
    grounded = _without(completed.grounded)
    canonical = canonicalise(grounded, sites.find_site)
    fixed = check_fixed(fixed)
    theta = canonical.hypers.sample(rng, fixed)
    refuse_potentials(canonical)
    _refuse_censored(canonical, theta)
    linear = canonical.linear(theta)
    prior = prior_to_draw(canonical, linear)
    z = prior.gaussian.sample(rng, 1)[0]
    responses = {
        b.name: _respond(b, canonical, theta, z, rng, _lengths(b, dataset))
        for b in canonical.blocks
    }
    out: dict[str, Any] = {}
    for name, index in grounded.indices.items():
        statement = checked.symbols[name].statement
        if isinstance(statement, ast.Index) and statement.definition is None:
            out[name] = index.labels
    for symbol in checked.of_kind("data"):
        if symbol.name in responses:
            drawn, classes = responses[symbol.name], grounded.indices.get(symbol.target or "")
            if classes is not None:
                out[symbol.name] = classes.labels[drawn.astype(np.int64)]
            else:
                out[symbol.name] = _typed(drawn, symbol.type)
        elif symbol.name in completed.grounded.values:
            value = completed.grounded.values[symbol.name]
            target = grounded.indices.get(symbol.target or "")
            out[symbol.name] = _external(value, symbol.type, target, symbol.dims, grounded)
    for hyper in canonical.hypers.unpinned(fixed or ()):
        out[TRUTH + hyper.name] = theta[hyper.name]
    latents = {
        b.name: z[canonical.layout.latent(b.name)].reshape(b.sizes) for b in canonical.latents
    }
    out |= {TRUTH + n: v for n, v in latents.items() if canonical.shown(n) == n}
    for name in canonical.latent_names:
        if name not in canonical.layout.starts:
            out[TRUTH + name] = _mapped(canonical, name, theta, z)
    warning = left_out_warning(canonical, prior.left_out)
    return Simulated(out, latents, () if warning is None else (warning,))


def _mapped(canonical: CanonicalModel, name: str, theta: Theta, z: Array) -> Array:
    """A latent that is a map of blocks, at z."""
    dims, tree = canonical.named[name]
    assert isinstance(tree, Leaf), "a map of blocks is affine"
    predictor = canonical.predictor(tree.form, dims, theta)
    return predictor.values(z, _where(canonical)).reshape(canonical.layout.shape(dims))


def _where(canonical: CanonicalModel) -> dict[str, slice]:
    """Where each latent block is among all latents."""
    return {b.name: canonical.layout.latent(b.name) for b in canonical.latents}


def _read(data: object, mapping: Keys | None) -> Dataset:
    return Dataset("no data", {}) if data is None else read(data, mapping)


def _without(grounded: GroundedModel) -> GroundedModel:
    """The grounded model with its responses left out, unless something else reads them."""
    dropped = grounded.graph.responses
    return replace(
        grounded,
        values={n: v for n, v in grounded.values.items() if n not in dropped},
        missing={n: m for n, m in grounded.missing.items() if n not in dropped},
    )


def _lengths(block: SiteBlock, dataset: Dataset) -> Array | None:
    """How many words each row has in the given data."""
    entry = dataset.ask(block.name) if block.own_trials else None
    if entry is None:
        return None
    counts = np.asarray(entry.loaded.values, dtype=np.float64)
    return np.asarray(np.nan_to_num(counts.reshape(-1, counts.shape[-1])).sum(axis=1))


def _respond(
    block: SiteBlock,
    canonical: CanonicalModel,
    theta: Theta,
    z: Array,
    rng: np.random.Generator,
    lengths: Array | None,
) -> Array:
    """y for every entry of an observed block; `lengths`: of rows of words."""
    predictor = canonical.as_written(block, theta)
    s = predictor.values(z, _where(canonical))
    s = s.reshape(-1, predictor.event) if predictor.event else s
    if block.residual is not None:
        return np.asarray(s + block.residual.drawn((theta,), rng)[0]).reshape(block.data_shape)
    counts = None
    if block.own_trials:  # only the sum of each row matters
        counts = np.zeros((len(s), block.sizes[block.classes]))
        counts[:, 0] = rng.poisson(WORDS, len(s)) if lengths is None else lengths
    try:
        with np.errstate(invalid="ignore"):  # no class on offer: refused below
            y = block.bind_family(theta, counts).sample(s, rng)
    except ValueError:  # numpy's generators refuse rates beyond 1e18
        y = np.full(len(s), np.nan)
    if not (np.abs(y) <= MOST).all():
        raise NumericalError.of(
            "E602",
            f"`{block.name}` cannot be drawn: its predictor reaches {np.abs(s).max():.3g}",
            block.span,
            help="give the latents priors on the scale of the link, e.g. sd = 1",
        )
    if block.family.spec.vector and "available" in block.parameters:
        with np.errstate(invalid="ignore"):
            possible = np.isfinite(block.bind_family(theta, y).log_density(s))
        if not possible.all():
            raise DataError(_nothing_offered(block, int(np.sum(~possible))))
    return y.reshape(*block.data_shape, *y.shape[1:])


def _nothing_offered(block: SiteBlock, rows: int) -> Diagnostic:
    return Diagnostic(
        "E303",
        f"`{block.name}` cannot be drawn in {rows} rows: none of its classes is available there",
        block.span,
        help="give what `available` stands for in the data, each row with one class or more",
    )


def _typed(values: Array, type_: str) -> Any:
    return values.astype(np.int64) if type_ in ("count", "binary", "integer") else values


def _external(
    value: Any, type_: str, target: IndexSet | None, dims: tuple[str, ...], grounded: GroundedModel
) -> Any:
    """A grounded value as a data file would hold it: labels for maps, label pairs for graphs."""
    if target is not None:
        labels = target.labels[np.maximum(value, 0)]
        missing = "" if labels.dtype.kind == "U" else -1
        return np.where(value < 0, missing, labels)
    if type_ == "graph":
        labels = grounded.indices[dims[0]].labels
        pairs = value.tocoo()
        upper = pairs.row < pairs.col
        return np.stack([labels[pairs.row[upper]], labels[pairs.col[upper]]], axis=1)
    if isinstance(value, np.ndarray) and not np.isnan(value).any():
        return _typed(value, type_)
    return value


def _refuse_censored(canonical: CanonicalModel, theta: Theta) -> None:
    """Whether a row is censored depends on its response, and no model says how."""
    for block in canonical.blocks:
        if not block.family.spec.potential and block.bind_family(theta).censored.any():
            raise ModelError.of(
                "E501",
                f"`{block.name}` is censored in some rows, which cannot be simulated",
                block.span,
                "says that rows are censored, but not by which mechanism",
                help="leave out `event`, `lower` and `upper`, and censor the draws yourself",
            )
