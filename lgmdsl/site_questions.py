"""`lgm.sites.expected` and `lgm.sites.tilted`: Gaussian expectations of any site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import applicable, bound
from lgmdsl.contract.classes import Split
from lgmdsl.contract.questions import Expected, ExpectedAnswer, Tilted, TiltedAnswer
from lgmdsl.contract.site import Site
from lgmdsl.errors import DataError, MethodError, ModelError
from lgmdsl.sites.catalogue import family as find
from lgmdsl.sites.observed import (
    as_floats,
    ask_vectors,
    common_shape,
    flat,
    flat_parameters,
    given_parameters,
    make_sites,
    own_shape,
)


def expected(
    name: str,
    *asked: object,
    rule: str = "quadrature",
    second: bool = False,
    **parameters: object,
) -> ExpectedAnswer:
    """f = E[log t(s)], s ~ N(mean, variance), with df/dmean (`d_mean`), df/dvariance.

    `y`, `mean`, `variance` and parameters broadcast; the answer's arrays have the common shape.
    y, mean and variance are given by position, or by name where no parameter of the family has it
    (normal.log_var has a `mean`); y is None for potentials. With rule "quadrature" the value is
    exact to 1e-9 (closed forms are used where there are any); other rules are bounds, by name.
    `second` adds d2f/dmdv and d2f/dv2.

    Of a vector site, mean is (..., K), variance (..., K, K), and so are d_mean and d_variance
    (there are no second derivatives); y of a categorical site counts classes from 0. The last
    class, its predictor 0, may be left out where `available` or counts have one entry more. Of
    categorical.stick a rule answers for the logistic site of each cut that y has reached.

    Raises ModelError E103 (site), E104 (parameter); DataError E301, E303 (shape, value);
    MethodError E103 (rule), E504 (the rule does not apply to the site).

    >>> answer = expected("bernoulli.logit", 1, 0.0, 1.0)
    >>> round(float(answer.value), 9)
    -0.806059183
    """
    y, mean, variance = _three(asked, parameters)
    sites, m, v, shape = _ask(name, y, mean, variance, parameters)
    if isinstance(sites, Split):
        answer = _split(sites, m, v, rule)
    else:
        answer = cast(Expected, _answerer(sites, Expected, rule)).expected(m, v, second)
    parts = (
        answer.value,
        answer.d_mean,
        answer.d_variance,
        answer.d_mean_variance,
        answer.d_variance2,
    )
    value, d_mean, d_variance, mixed, twice = (
        None if p is None else _shaped(p, (*shape, *p.shape[1:])) for p in parts
    )
    assert value is not None and d_mean is not None and d_variance is not None
    return ExpectedAnswer(value, d_mean, d_variance, mixed, twice)


def tilted(
    name: str,
    *asked: object,
    power: float = 1.0,
    rule: str = "quadrature",
    **parameters: object,
) -> TiltedAnswer:
    """log E_{N(mean, variance)}[t(s)^power], and mean and variance of the tilted density.

    Arguments and errors as in `expected`; 0 < power <= 1. categorical.stick, by quasi-random
    points, to about 1e-4. The family exp_power has a parameter of the same name: there
    `power` is the density's, and the tilted power is 1.

    >>> answer = tilted("bernoulli.probit", 1, 0.0, 1.0)
    >>> round(float(np.exp(answer.log_mass)), 12)
    0.5
    """
    if "power" in find(name).spec.parameters:
        parameters, power = {**parameters, "power": power}, 1.0
    if not isinstance(power, (int, float)) or not 0.0 < power <= 1.0:
        raise DataError.of("E303", f"`power` must be in (0, 1], not {power}")
    y, mean, variance = _three(asked, parameters)
    sites, m, v, shape = _ask(name, y, mean, variance, parameters)
    answer = cast(Tilted, _answerer(sites, Tilted, rule)).tilted(m, v, float(power))
    parts = (answer.log_mass, answer.mean, answer.variance)
    return TiltedAnswer(*(_shaped(p, (*shape, *p.shape[1:])) for p in parts))


ASKED = ("y", "mean", "variance")


def _three(asked: tuple[object, ...], parameters: dict[str, object]) -> list[object]:
    """y, mean and variance: those given by position, the rest taken by name."""
    if len(asked) > len(ASKED):
        raise TypeError(f"at most y, mean and variance are positional, not {len(asked)} values")
    remaining = ASKED[len(asked) :]
    absent = [n for n in remaining if n not in parameters and n != "y"]
    if absent:
        raise TypeError(f"missing: {', '.join(absent)}")
    return [*asked, *(parameters.pop(n, None) for n in remaining)]


def _shaped(values: Array, shape: tuple[int, ...]) -> Array:
    return np.array(values, dtype=np.float64).reshape(shape)


def _ask(
    name: str, y: object, mean: object, variance: object, parameters: Mapping[str, object]
) -> tuple[Site, Array, Array, tuple[int, ...]]:
    """The sites, flat means and variances, and the common shape."""
    cls = find(name)
    spec = cls.spec
    if spec.potential and y is not None:
        raise ModelError.of(
            "E104", f"`{name}` is a potential and observes nothing", help="y = None"
        )
    if not spec.potential and y is None:
        raise ModelError.of("E104", f"`{name}` needs y")
    if spec.vector:
        return ask_vectors(cls, y, mean, variance, parameters)
    arrays = {"mean": as_floats("mean", mean), "variance": as_floats("variance", variance)}
    if y is not None:
        arrays["y"] = as_floats("y", y)
    extra = given_parameters(spec, parameters)
    shapes = {n: a.shape for n, a in arrays.items()}
    shapes |= {f"{n} (parameter)": own_shape(spec, n, a) for n, a in extra.items()}
    shape = common_shape(shapes)
    for key in ("mean", "variance"):
        wrong = ~np.isfinite(arrays[key]) | ((arrays[key] < 0.0) if key == "variance" else False)
        if np.any(wrong):
            value = (
                float(arrays[key][wrong].ravel()[0]) if arrays[key].shape else float(arrays[key])
            )
            need = "finite and not negative" if key == "variance" else "finite"
            raise DataError.of("E303", f"`{key}` must be {need}, not {value:g}")
    observed = flat(arrays["y"], shape) if y is not None else None
    sites = make_sites(cls, observed, flat_parameters(spec, extra, shape))
    return sites, flat(arrays["mean"], shape), flat(arrays["variance"], shape), shape


def _split(sites: Site, mean: Array, variance: Array, rule: str) -> ExpectedAnswer:
    """A sum over the scalar sites that the data become; only a predictor's own variance counts."""
    assert isinstance(sites, Split)
    fields = {name: getattr(sites, name) for name in ("y", *sites.spec.parameters)}
    reached, values, parameters = sites.split(fields, mean.shape[-1])
    rows, cuts = np.nonzero(reached)
    extra = {name: value[reached] for name, value in parameters.items()}
    each = make_sites(find(sites.into), values[reached], extra)
    asked = cast(Expected, _answerer(each, Expected, rule))
    answer = asked.expected(mean[reached], variance[rows, cuts, cuts])
    d_mean, d_variance = np.zeros_like(mean), np.zeros_like(variance)
    d_mean[reached], d_variance[rows, cuts, cuts] = answer.d_mean, answer.d_variance
    value = np.zeros(len(mean))
    np.add.at(value, rows, answer.value)
    return ExpectedAnswer(value, d_mean, d_variance)


def _answerer(sites: Site, question: type, rule: str) -> object:
    """The site itself where it answers in closed form, else the rule's lift of it."""
    cls = type(sites)
    if rule == "quadrature" and isinstance(sites, question):
        return sites
    lift = bound(rule, question, cls)
    reason = lift.applies_to(cls)
    if reason:
        able = list(applicable(cls, question))
        if isinstance(sites, question) and "quadrature" not in able:
            able.insert(0, "quadrature")
        raise MethodError.of(
            "E504",
            f"rule `{rule}` does not apply to {cls.spec.name}: {reason}",
            help=f"rules that do: {', '.join(able)}",
        )
    return lift.lift(sites)
