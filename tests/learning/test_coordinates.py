"""Coordinates without bounds: round trips, Jacobians, chain rule, labels, extremes."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.canonical.lowering.hypers import HyperSpace
from lgmdsl.errors import DataError
from lgmdsl.learning.coordinates.vector import Coordinates
from tests.learning.hierarchies import differences, full, space


def free_entries(coordinates: Coordinates, x: Array) -> Array:
    """The natural values whose Jacobian is meant, in one vector."""
    theta, parts = coordinates.unpack(x), []
    for block in coordinates.blocks:
        value = theta[block.name]
        if block.type == "covariance":
            if block.prior is not None and block.prior.dist.name.id == "lkj_cov":
                sd = np.sqrt(np.diagonal(value, axis1=-2, axis2=-1))
                off = value / (sd[..., None] * sd[..., None, :])
                value = np.where(np.eye(value.shape[-1]) > 0.0, sd[..., None], off)
            value = value[..., *np.tril_indices(value.shape[-1])]
        elif block.type == "simplex":
            value = value[..., :-1]
        parts.append(np.ravel(value))
    return np.concatenate(parts)


def drawn(found: HyperSpace, seed: int, pinned: dict[str, object] | None = None) -> Array:
    """A point near the middle of everything, every coordinate moved."""
    coordinates = Coordinates(found, pinned)
    x = coordinates.pack(found.start(pinned))
    return np.asarray(x + 0.5 * np.random.default_rng(seed).normal(size=len(x)))


@pytest.mark.parametrize("pinned", [{}, {"tau": 0.8, "S": 0.5, "m": 0.2}])
def test_round_trips(pinned: dict[str, object]) -> None:
    found = full()
    coordinates = Coordinates(found, pinned)
    x = drawn(found, 1, pinned)
    theta = coordinates.unpack(x)
    assert coordinates.pack(theta) == pytest.approx(x, rel=1e-9, abs=1e-9)
    assert set(theta) == {b.name for b in found.blocks}
    assert theta["s"] == pytest.approx(np.sqrt(theta["v"]))
    again = found.theta({k: v for k, v in theta.items() if k != "s"})
    for name, value in theta.items():
        assert again[name] == pytest.approx(value)
    if pinned:
        assert theta["tau"] == 0.8 and theta["S"] == pytest.approx(0.25 * np.eye(2))
        assert not {"tau", "S", "m"} & {n.partition("[")[0] for n in coordinates.names}


ALONE = """hyper s : positive ~ half_normal(sd = 1)
hyper m[a] : unit ~ uniform(lower = 0, upper = 1)
hyper r : correlation ~ uniform(lower = -1, upper = 1)
hyper c[a] : real ~ normal(sd = 1)
hyper p[a] : simplex ~ dirichlet(alpha = 2)
"""


@pytest.mark.parametrize("found", [full(), space(ALONE)], ids=["in-one-another", "alone"])
@pytest.mark.parametrize("pin", [False, True])
def test_many_places_at_once(found: HyperSpace, pin: bool) -> None:
    first = found.free[0]
    pinned: dict[str, object] = {first: found.start()[first]} if pin else {}
    coordinates = Coordinates(found, pinned)
    x = np.stack([drawn(found, seed, pinned) for seed in range(5)])
    for one, theta in zip(x, coordinates.unpacked(x), strict=True):
        wanted = coordinates.unpack(one)
        assert list(theta) == list(wanted)
        for name, value in wanted.items():
            assert theta[name].shape == value.shape
            assert theta[name] == pytest.approx(value, rel=1e-14)
    assert coordinates.unpacked(x[:0]) == ()


@pytest.mark.parametrize("pinned", [{}, {"v": 0.8, "t": 0.5}])
def test_jacobian_is_the_determinant(pinned: dict[str, object]) -> None:
    found = full()
    coordinates = Coordinates(found, pinned)
    x = drawn(found, 2, pinned)
    log, gradient = coordinates.log_jacobian(x)
    jacobian = differences(lambda z: free_entries(coordinates, z), x)
    assert log == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-6)
    want = differences(lambda z: coordinates.log_jacobian(z)[0], x)
    assert gradient == pytest.approx(want, rel=1e-6, abs=1e-7)


def test_the_chain_rule_through_bounds_values_and_pins() -> None:
    """A random smooth function of every hyper."""
    found = full()
    coordinates = Coordinates(found, {"r": 0.3})
    x, rng = drawn(found, 3, {"r": 0.3}), np.random.default_rng(4)
    at = coordinates.unpack(x)
    weights = {b.name: rng.normal(size=b.sizes) for b in found.blocks if b.value is None}

    def value(z: Array) -> float:
        theta = coordinates.unpack(z)
        return float(sum((w * np.sin(theta[k])).sum() for k, w in weights.items()))

    gradient = {k: w * np.cos(at[k]) for k, w in weights.items()}
    want = differences(value, x)
    assert coordinates.pull(gradient, x) == pytest.approx(want, rel=1e-6, abs=1e-8)
    assert not coordinates.pull({}, x).any()


def test_the_log_prior_in_coordinates() -> None:
    found = full()
    coordinates = Coordinates(found, {"v": 0.8})
    x = drawn(found, 5, {"v": 0.8})

    def value(z: Array) -> float:
        return found.log_prior(coordinates.unpack(z), {"v"})[0]

    gradient = found.log_prior(coordinates.unpack(x), {"v"})[1]
    want = differences(value, x)
    assert coordinates.pull(gradient, x) == pytest.approx(want, rel=2e-6, abs=1e-6)


def test_labels() -> None:
    found = space(
        'index item = {"red", "blue"}\nindex f = 2\nindex k = 3\nhyper s : positive ~ flat\n'
        "hyper L[item, f] : real ~ flat\nhyper S[f, f] : covariance ~ flat\n"
        "hyper V[item, f, f] : covariance ~ flat\nhyper p[k] : simplex ~ flat\n"
        "hyper c[item] : ordered ~ flat\n"
    )
    labels = [str(v) for v in found.labels["f"]]
    i, j = labels
    pairs = (f"{i},{i}", f"{i},{j}", f"{j},{j}")
    assert Coordinates(found).names == (
        "s",
        *(f"L[item {a}, f {b}]" for a in ("red", "blue") for b in labels),
        *(f"S[{q}]" for q in pairs),
        *(f"V[item {a}, {q}]" for a in ("red", "blue") for q in pairs),
        *(f"p[k {v}]" for v in found.labels["k"][:2]),
        "c[item red]",
        "c[item blue]",
    )


@pytest.mark.parametrize("at", [-30.0, 30.0])
def test_thirty_is_not_too_far(at: float) -> None:
    """Values stay inside their types, and Jacobians are those of the exact maps."""
    found = space(
        "index k = 3\nhyper s : positive ~ flat\nhyper m : unit ~ flat\n"
        "hyper r : correlation ~ flat\nhyper w : real ~ uniform(lower = 1, upper = 4)\n"
        "hyper p[k] : simplex ~ flat\nhyper c[k] : ordered ~ flat\n"
        "hyper S[k, k] : covariance ~ flat\nhyper d : positive ~ pc_df(u = 4, alpha = 0.5)\n"
    )
    coordinates = Coordinates(found)
    x = np.full(coordinates.size, at)
    theta = coordinates.unpack(x)
    log, gradient = coordinates.log_jacobian(x)
    assert np.isfinite(log) and np.isfinite(gradient).all()
    assert theta["s"] > 0 and 0 < theta["m"] < 1 and -1 < theta["r"] < 1 < theta["w"] < 4
    assert theta["d"] > 2 and (np.diff(theta["c"]) > 0).all() and (theta["p"] > 0).all()
    slopes = coordinates.pull({k: np.ones_like(v) for k, v in theta.items()}, x)
    assert np.isfinite(slopes).all() and (slopes[:4] > 0).all()
    # 1 - tanh(x)^2 and 3 sigma(1 - sigma) without cancellation
    assert slopes[2] == pytest.approx(1 / np.cosh(30.0) ** 2, rel=1e-12)
    assert slopes[3] == pytest.approx(3 * np.exp(-30.0) / (1 + np.exp(-30.0)) ** 2, rel=1e-12)
    one = Coordinates(space("hyper r : correlation ~ flat\n"))
    assert one.log_jacobian(np.array([at]))[0] == pytest.approx(-2 * np.log(np.cosh(30.0)))


@pytest.mark.parametrize("at", [-2000.0, 2000.0])
def test_a_line_search_may_go_too_far(at: float) -> None:
    coordinates = Coordinates(full(), {"L": 1.0, "S": 1.0, "T": 1.0})
    x = np.full(coordinates.size, at)
    for name in ("v", "tau", "m0"):  # what other bounds are made of
        x[coordinates.slices[name]] = 0.1
    theta = coordinates.unpack(x)
    assert all(np.isfinite(v).all() for v in theta.values())
    assert (np.diff(theta["c"]) > 0).all()  # also where a step is lost to rounding
    assert not np.isnan(coordinates.log_jacobian(x)[1]).any()


def test_a_value_on_the_edge_is_refused() -> None:
    found = space("hyper m : unit ~ flat\nhyper w : real ~ uniform(lower = 1, upper = 4)\n")
    for theta in ({"m": 0.0, "w": 2.0}, {"m": 0.5, "w": 5.0}):
        with pytest.raises(DataError) as caught:
            Coordinates(found).pack({k: np.asarray(v) for k, v in theta.items()})
        assert caught.value.codes == ("E303",) and "edge of its range" in str(caught.value)


def test_integrating_in_coordinates_gives_mass_one() -> None:
    """exp(log prior + log Jacobian) of two hypers, one the bound of the other."""
    found = space(
        "hyper t : unit ~ beta(a = 2, b = 3)\nhyper w : positive ~ uniform(lower = t, upper = 2)\n"
    )
    coordinates = Coordinates(found)
    grid = np.arange(-16.0, 17.0)
    total = sum(
        np.exp(found.log_prior(coordinates.unpack(x))[0] + coordinates.log_jacobian(x)[0])
        for x in (np.array([a, b]) for a in grid for b in grid)
    )
    assert float(total) == pytest.approx(1.0, abs=5e-5)  # of the trapezoidal rule


def test_every_coordinate_has_a_label() -> None:
    coordinates = Coordinates(full())
    assert len(coordinates.names) == coordinates.size == len(set(coordinates.names))
    for block in coordinates.blocks:
        assert all(
            n.partition("[")[0] == block.name
            for n in coordinates.names[coordinates.slices[block.name]]
        )
