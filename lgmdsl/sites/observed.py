"""N sites of a family from plain values: broadcast, checked, each refusal with its code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import NoReturn

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.censoring import censoring_fault
from lgmdsl.contract.site import Site, SiteSpec
from lgmdsl.errors import DataError, ModelError, listed
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Signature

_WITHIN: Mapping[str, tuple[str, Callable[[Array], BoolArray]]] = {
    "binary": ("0 or 1", lambda y: (y == 0.0) | (y == 1.0)),
    "count": ("a count (0, 1, 2, ...)", lambda y: (y >= 0.0) & (y == np.floor(y))),
    "integer": ("an integer", lambda y: y == np.floor(y)),
    "positive": ("positive", lambda y: y > 0.0),
    "nonnegative": ("0 or above", lambda y: y >= 0.0),
    "unit": ("between 0 and 1", lambda y: (y > 0.0) & (y < 1.0)),
    "real": ("finite", lambda y: np.isfinite(y)),
    "index": ("the position of a class (0, 1, 2, ...)", lambda y: (y >= 0.0) & (y == np.floor(y))),
}


def as_floats(name: str, value: object) -> Array:
    """`value` as float64. Raises DataError E303 where it is not numeric."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError.of("E303", f"`{name}` is not an array of real numbers") from None


def common_shape(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all broadcast to. Raises DataError E301 where there is none."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        shown = tuple(f"{n} {a}" for n, a in shapes.items() if a)
        raise DataError.of("E301", f"shapes do not broadcast: {listed(shown)}") from None


def flat(value: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast to `shape` and flattened, C-ordered and writable."""
    return np.array(np.broadcast_to(value, shape).ravel(), dtype=np.float64)


def flat_parameters(
    spec: SiteSpec, parameters: Mapping[str, Array], shape: tuple[int, ...]
) -> dict[str, Array]:
    """Parameters for each site: (N,), or (N, L) for those with an index of their own."""
    return {
        name: flat(value, (*shape, value.shape[-1])).reshape(-1, value.shape[-1])
        if name in spec.indexed
        else flat(value, shape)
        for name, value in parameters.items()
    }


def own_shape(spec: SiteSpec, name: str, value: Array) -> tuple[int, ...]:
    """The shape of a parameter without the index of its own. Raises DataError E301 where it lacks
    that index."""
    if name not in spec.indexed:
        return tuple(value.shape)
    if not value.ndim or not value.shape[-1]:
        raise DataError.of("E301", f"`{name}` must be an array with one entry or more")
    return tuple(value.shape[:-1])


def given_parameters(spec: SiteSpec, parameters: Mapping[str, object]) -> dict[str, Array]:
    """All parameters of a family with defaults filled in. Raises ModelError E104."""
    unknown = [n for n in parameters if n not in spec.parameters]
    missing = [n for n, d in spec.parameters.items() if d is None and n not in parameters]
    takes = ", ".join(n if d is None else f"{n} = {d:g}" for n, d in spec.parameters.items())
    note = f"{spec.name} takes {takes or 'no parameters'}"
    if unknown:
        raise ModelError.of("E104", f"`{spec.name}` has no parameter `{unknown[0]}`", note=note)
    if missing:
        raise ModelError.of("E104", f"`{spec.name}` needs {listed(missing)}", note=note)
    return {n: as_floats(n, parameters.get(n, d)) for n, d in spec.parameters.items()}


def make_sites(cls: type[Site], y: Array | None, parameters: Mapping[str, Array]) -> Site:
    """The sites of flat, equally long arrays. Raises DataError E303 (value outside its type)."""
    spec = cls.spec
    values = dict(parameters)
    if y is not None:
        _require("y", spec.observed[0], y)
        values = {"y": y, **values}
    signature = _signature(spec)
    for name, value in parameters.items():
        if name in ("lower", "upper"):
            continue  # NaN and infinite where they are open
        if name in spec.indexed:
            _require_ordered(name, value)
            continue
        known = signature.parameter(name) if signature else None
        _require(name, known.type if known and known.type in _WITHIN else "real", value)
    if y is not None and "n" in values and not spec.vector and np.any(y > values["n"]):
        entry = int(np.flatnonzero(y > values["n"])[0])
        raise DataError.of(
            "E303", f"`y` is {y[entry]:g} of `n` = {values['n'][entry]:g} at entry {entry}"
        )
    if y is not None and "cuts" in values and np.any(y > values["cuts"].shape[-1]):
        entry = int(np.flatnonzero(y > values["cuts"].shape[-1])[0])
        _refuse("y", f"a class up to {values['cuts'].shape[-1]}", y, entry, 1)
    if "scores" in values and values["scores"].shape[-1] != values["cuts"].shape[-1] + 1:
        message = f"`scores` has one entry more than `cuts`: {values['cuts'].shape[-1] + 1}"
        raise DataError.of("E301", message)
    fault = censoring_fault(y, parameters) if "event" in values else None
    if fault is not None:
        wording, entry = fault[0].format(y="`y`"), int(fault[1][0])
        raise DataError.of("E303", f"{wording}, first at entry {entry}")
    sites = cls(**{f.name: values[f.name] for f in dataclasses.fields(cls)})
    return sites


def check_possible(site: Site, predictors: int) -> None:
    """Raise DataError E303 for an observation of a vector site that cannot occur: a class that is
    not on offer or does not exist, counts that do not add up."""
    wrong = np.flatnonzero(~np.isfinite(site.log_density(np.zeros((len(site), predictors)))))
    if len(wrong):
        message = f"`y` cannot occur under {site.spec.name}, first at entry {wrong[0]}"
        raise DataError.of("E303", message)


def _signature(spec: SiteSpec) -> Signature | None:
    """The declaration of a family; that of its name, of a third party's variant."""
    return spec.form or lookup("potential" if spec.potential else "family", spec.family)


def _require(name: str, kind: str, value: Array) -> None:
    words, inside = _WITHIN[kind]
    flat_value = value.ravel()
    wrong = np.flatnonzero(~(inside(flat_value) & np.isfinite(flat_value)))
    if len(wrong):
        _refuse(name, words, flat_value, int(wrong[0]), len(wrong))


def _require_ordered(name: str, value: Array) -> None:
    bad = np.flatnonzero(~(np.diff(value, axis=-1) > 0.0).all(axis=-1))
    if len(bad) or not np.isfinite(value).all():
        message = f"`{name}` must be finite and increase"
        raise DataError.of("E303", message + (f": {value[bad[0]]}" if len(bad) else ""))


def _refuse(name: str, words: str, value: Array, entry: int, count: int) -> NoReturn:
    more = f" (and {count - 1} more)" if count > 1 else ""
    raise DataError.of(
        "E303", f"`{name}` must be {words}, but entry {entry} is {value[entry]:g}{more}"
    )


# ---- values ------------------------------------------------------------------------------------
# Arguments of `lgm.sites.expected` for vector sites: checked and with flattened rows.


# Entries of a covariance may miss symmetry, and its eigenvalues zero, by so much of the largest.
ROUNDING = 1e-9


def ask_vectors(
    cls: type[Site], y: object, mean: object, variance: object, parameters: Mapping[str, object]
) -> tuple[Site, Array, Array, tuple[int, ...]]:
    """The sites, means (N, K), covariances (N, K, K), and the common shape of the rows.

    Leading axes broadcast. There are as many classes as means, or one more (the last one's
    predictor is then 0) where y or a parameter has one entry for each class.
    Raises ModelError E104 (parameter), DataError E301 and E303 (shape, value).
    """
    m, v = as_floats("mean", mean), as_floats("variance", variance)
    if not m.ndim or not m.shape[-1]:
        raise _shape(f"`mean` needs a last axis of predictors, and has shape {m.shape}")
    k = m.shape[-1]
    if cls.spec.shared:
        return _ask_mixtures(cls, y, m, v, parameters)
    if v.shape[-2:] != (k, k):
        raise _shape(f"`variance` has shape {v.shape}, and `mean` {k} predictors: end it in {k, k}")
    wide = {**given_parameters(cls.spec, parameters), "y": as_floats("y", y)}
    ends = {wide[n].shape[-1] for n in cls.spec.wide if wide[n].ndim}
    classes = max(ends, default=k + 1 if cls.spec.headed else k)
    if cls.spec.headed and (classes != k + 1 or ends - {classes}):
        raise _shape(f"{k} predictors are for {k + 1} classes, one for each but the last")
    if classes not in (k, k + 1) or ends - {classes}:
        raise _shape(f"{k} predictors are for {k} classes, or {k + 1} with the last one 0")
    each = {n: (classes,) if n in cls.spec.wide else () for n in wide}
    shape = common_shape(
        {n: x.shape[:-1] if each[n] else x.shape for n, x in wide.items()}
        | {"mean": m.shape[:-1], "variance": v.shape[:-2]}
    )
    values = {
        n: np.broadcast_to(x, (*shape, *each[n])).reshape(-1, *each[n]).copy()
        for n, x in wide.items()
    }
    _check_moments(m, v)
    sites = make_sites(cls, values.pop("y"), values)
    check_possible(sites, k)
    means = np.broadcast_to(m, (*shape, k)).reshape(-1, k).copy()
    return sites, means, np.broadcast_to(v, (*shape, k, k)).reshape(-1, k, k).copy(), shape


def _ask_mixtures(
    cls: type[Site], y: object, m: Array, v: Array, parameters: Mapping[str, object]
) -> tuple[Site, Array, Array, tuple[int, ...]]:
    """The answer of `ask_vectors` for counts of words, (..., W), under topics that all rows share,
    (K, W)."""
    arrays, words = given_parameters(cls.spec, parameters), as_floats("y", y)
    k, width = m.shape[-1], words.shape[-1] if words.ndim else 0
    if v.shape[-2:] != (k, k):
        raise _shape(f"`variance` has shape {v.shape}, and `mean` {k} predictors: end it in {k, k}")
    for name, value in arrays.items():
        if value.shape != (k, width):
            message = (
                f"`{name}` has shape {value.shape}: {k} topics over {width} words are {k, width}"
            )
            raise _shape(message)
        if not (value >= 0.0).all() or np.abs(value.sum(axis=1) - 1.0).max() > ROUNDING:
            message = f"each row of `{name}` must be a distribution: not negative, its sum 1"
            raise DataError.of("E303", message)
    shape = common_shape({"y": words.shape[:-1], "mean": m.shape[:-1], "variance": v.shape[:-2]})
    _check_moments(m, v)
    counts = np.broadcast_to(words, (*shape, width)).reshape(-1, width).copy()
    sites = make_sites(cls, counts, arrays)
    check_possible(sites, k)
    means = np.broadcast_to(m, (*shape, k)).reshape(-1, k).copy()
    return sites, means, np.broadcast_to(v, (*shape, k, k)).reshape(-1, k, k).copy(), shape


def _check_moments(mean: Array, variance: Array) -> None:
    """Raise DataError E303 for means that are not finite, and variances that are no covariance."""
    if not np.isfinite(mean).all():
        raise DataError.of("E303", "`mean` must be finite")
    problem = ""
    if not np.isfinite(variance).all():
        problem = "it is not finite"
    else:
        size = np.abs(variance).max(initial=0.0)
        if np.abs(variance - np.swapaxes(variance, -1, -2)).max(initial=0.0) > ROUNDING * size:
            problem = "it is not symmetric"
        elif np.linalg.eigvalsh(variance).min(initial=0.0) < -ROUNDING * size:
            problem = "it has a negative eigenvalue"
    if problem:
        raise DataError.of("E303", f"`variance` must be a covariance: {problem}")


def _shape(message: str) -> DataError:
    return DataError.of("E301", message)
