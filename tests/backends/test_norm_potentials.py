"""Potentials of norms in whole fits: against a proximal solver, quadrature, and one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.blocks import alike

TASKS = """lgm 1
index obs
index feat
index task
data X[obs, feat] : real
data y[obs, task] : real
latent w[feat, task] ~ flat
potential w ~ POTENTIAL
observe y ~ normal(mean = X @ w, sd = 0.5)
"""
BLOCKS = """lgm 1
index obs
index feat
index block
data of[feat] : block
data root[block] : positive
data X[obs, feat] : real
data y[obs] : real
hyper b : positive ~ half_normal(sd = 2)
latent w[feat] ~ flat
let rate[block] = b / root
potential w ~ POTENTIAL
observe y ~ normal(mean = X @ w, sd = 0.5)
"""
PAIR = """lgm 1
index obs
index part = {"re", "im"}
data F[obs, part] : real
data y[obs] : real
latent w[part] ~ normal(sd = 2)
potential w ~ POTENTIAL
observe y ~ normal(mean = F @ w, sd = 0.7)
"""


def fitted(text: str, potential: str, data: dict[str, Any], method: str, **more: Any) -> Any:
    return lgm.fit(lgm.loads(text.replace("POTENTIAL", potential)), data, method=method, **more)


def tasks() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(60, 6)), np.zeros((6, 3))
    w[:2] = 2.0 * rng.normal(size=(2, 3))
    return {"X": x, "y": x @ w + 0.5 * rng.normal(size=(60, 3))}


LABELS = np.array(["a", "b", "c", "d", "e"])
OF = np.array(["c", "a", "b", "a", "a", "d", "a"])  # sizes 4, 1, 1, 1, and none
ROOT = np.sqrt([4.0, 1.0, 1.0, 1.0, 1.0])


def blocks() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 7))
    y = x @ np.array([1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0]) + 0.5 * rng.normal(size=40)
    return {"X": x, "y": y, "of": OF, "block": LABELS, "root": ROOT}


def group_lasso(x: Array, y: Array, shrink: Callable[[Array, float], Array]) -> Array:
    """Accelerated proximal gradient for ||y - Xw||^2 / (2 0.25) + penalty."""
    bend = float(np.linalg.norm(x, 2)) ** 2 / 0.25
    w = z = np.zeros((x.shape[1], *y.shape[1:]))
    t = 1.0
    for _ in range(4000):
        following = shrink(z - x.T @ (x @ z - y) / 0.25 / bend, 1.0 / bend)
        t, before = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t)), t
        z, w = following + (before - 1.0) / t * (following - w), following
    return w


@pytest.mark.parametrize(("scale", "zeros"), [(0.5, 0), (0.02, 4), (0.005, 4), (0.0005, 6)])
def test_the_mode_is_the_group_lasso(scale: float, zeros: int) -> None:
    data = tasks()

    def shrink(w: Array, step: float) -> Array:
        size = np.linalg.norm(w, axis=1, keepdims=True)
        return np.asarray(w * np.maximum(1.0 - step / scale / np.maximum(size, 1e-300), 0.0))

    fit = fitted(TASKS, f"laplace(scale = {scale}, group = task)", data, "map")
    assert fit.status.name == "converged"
    w = fit.mean("w").values
    np.testing.assert_allclose(w, group_lasso(data["X"], data["y"], shrink), atol=1e-9)
    assert np.sum(np.abs(w).max(axis=1) < 1e-9) == zeros


@pytest.mark.parametrize("b", [0.3, 0.03])
def test_groups_of_a_map_with_a_weight_each(b: float) -> None:
    data = blocks()

    def shrink(w: Array, step: float) -> Array:
        out = w.copy()
        for label, root in zip(LABELS, ROOT, strict=True):
            inside = label == OF
            size = max(float(np.linalg.norm(w[inside])), 1e-300)
            out[inside] *= max(1.0 - step * root / b / size, 0.0)
        return out

    fit = fitted(BLOCKS, "laplace(scale = rate, group = of)", data, "map", fixed={"b": b})
    assert fit.status.name == "converged"
    wanted = group_lasso(data["X"], data["y"], shrink)
    np.testing.assert_allclose(fit.mean("w").values, wanted, atol=1e-9)


def log_pair(potential: str) -> Callable[[Array], Array]:
    """log t of two entries, written out."""
    r = {
        "laplace(scale = 0.4": lambda r: -r / 0.4 - np.log(2 * np.pi * 0.16),
        "student_t(scale = 0.4, df = 3": lambda r: (
            special.gammaln(2.5) - special.gammaln(1.5) - np.log(3 * np.pi * 0.16)
            - 2.5 * np.log1p(r**2 / 0.48)
        ),
        "sech2(scale = 0.4": lambda r: (
            -2 * np.log(np.cosh(r / 0.4)) - np.log(2 * np.pi * 0.16 * np.log(2))
        ),
        "exp_power(scale = 0.4, power = 0.7": lambda r: (
            -((r / 0.4) ** 0.7) - np.log(2 * np.pi * 0.16 * special.gamma(2 / 0.7) / 0.7)
        ),
        "normal(sd = 0.4": lambda r: -0.5 * r**2 / 0.16 - np.log(2 * np.pi * 0.16),
    }  # fmt: skip
    return r[potential]


PAIRS = [
    ("laplace(scale = 0.4", 0.25),
    ("student_t(scale = 0.4, df = 3", 0.15),
    ("sech2(scale = 0.4", 0.12),
    ("exp_power(scale = 0.4, power = 0.7", 0.25),
    ("normal(sd = 0.4", 1e-9),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("potential", "gap"), PAIRS)
def test_a_complex_number_against_quadrature(potential: str, gap: float) -> None:
    rng = np.random.default_rng(1)
    f, y = rng.normal(size=(3, 2)), rng.normal(size=3)
    grid = np.linspace(-7.0, 7.0, 1401)
    w = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    log = log_pair(potential)(np.linalg.norm(w, axis=-1))
    log = log - 0.5 * np.sum((y - w @ f.T) ** 2, axis=-1) / 0.49 - 1.5 * np.log(0.98 * np.pi)
    log = log - np.sum(w**2, axis=-1) / 8.0 - np.log(8.0 * np.pi)
    mass = np.exp(log) * (grid[1] - grid[0]) ** 2
    truth, mean = np.log(mass.sum()), np.einsum("ij,ijk->k", mass, w) / mass.sum()
    fit = fitted(PAIR, f"{potential}, group = part)", {"F": f, "y": y}, "double-loop")
    assert fit.status.name == "converged"
    assert truth - gap < fit.log_evidence < truth + 1e-5
    np.testing.assert_allclose(fit.mean("w").values, mean, atol=0.05)
    if potential[:4] in ("stud", "sech", "norm"):
        ep = fitted(PAIR, f"{potential}, group = part)", {"F": f, "y": y}, "ep")
        assert abs(ep.log_evidence - truth) < 2e-3
        np.testing.assert_allclose(ep.mean("w").values, mean, atol=1e-3)
        assert fitted(PAIR, f"{potential}, group = part)", {"F": f, "y": y}, "laplace").converged


@pytest.mark.parametrize("method", ["double-loop", "map"])
@pytest.mark.parametrize("potential", ["laplace(scale = b", "student_t(scale = b, df = 3"])
def test_groups_of_one_are_the_plain_potential(potential: str, method: str) -> None:
    data = blocks() | {"of": np.array(list("gfedcba")), "block": list("abcdefg")}
    data["root"] = np.ones(7)
    one = fitted(BLOCKS, f"{potential}, group = of)", data, method, fixed={"b": 0.3})
    plain = fitted(BLOCKS, f"{potential})", data, method, fixed={"b": 0.3})
    # Both end within the tolerance of a fit; how near depends on the processor.
    np.testing.assert_allclose(one.mean("w").values, plain.mean("w").values, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(one.sd("w").values, plain.sd("w").values, rtol=1e-6)
    np.testing.assert_allclose(one.log_evidence, plain.log_evidence, atol=1e-7)


def test_normal_potentials_do_not_see_groups() -> None:
    data = blocks()
    one = fitted(BLOCKS, "normal(sd = rate, group = of)", data, "laplace", fixed={"b": 0.3})
    each = BLOCKS.replace("POTENTIAL", "normal(sd = rate[of])")
    plain = fitted(each, "", data, "laplace", fixed={"b": 0.3})
    np.testing.assert_allclose(one.mean("w").values, plain.mean("w").values, rtol=1e-12)
    np.testing.assert_allclose(one.log_evidence, plain.log_evidence, rtol=1e-12)


def test_groups_of_unequal_sizes_are_groups_of_their_own() -> None:
    """Padding changes nothing: two potentials, one for the large group and one for the rest."""
    data = blocks()
    whole = fitted(BLOCKS, "laplace(scale = b, group = of)", data, "double-loop", fixed={"b": 0.3})
    apart = """lgm 1
index obs
index big
index one
data X[obs, big] : real
data Z[obs, one] : real
data y[obs] : real
latent u[big] ~ flat
latent v[one] ~ flat
potential u ~ laplace(scale = 0.3, group = big)
potential v ~ laplace(scale = 0.3)
observe y ~ normal(mean = X @ u + Z @ v, sd = 0.5)
"""
    large = OF == "a"
    parts = {"X": data["X"][:, large], "Z": data["X"][:, ~large], "y": data["y"]}
    other = lgm.fit(lgm.loads(apart), parts, method="double-loop")
    np.testing.assert_allclose(whole.log_evidence, other.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(
        whole.mean("w").values[large], other.mean("u").values, rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("method", ["double-loop", "map"])
def test_the_order_of_labels_does_not_matter(method: str) -> None:
    data, order = blocks(), np.array([3, 0, 6, 5, 1, 4, 2])
    moved = data | {"X": data["X"][:, order], "of": OF[order]}
    moved |= {"block": LABELS[::-1].copy(), "root": ROOT[::-1].copy()}
    potential = "laplace(scale = rate, group = of)"
    one, other = (fitted(BLOCKS, potential, d, method, fixed={"b": 0.2}) for d in (data, moved))
    np.testing.assert_allclose(one.mean("w").values[order], other.mean("w").values, atol=1e-9)


@pytest.mark.parametrize("unit", [1e-20, 1e12])
@pytest.mark.parametrize("method", ["double-loop", "map"])
@pytest.mark.parametrize("potential", ["laplace(scale = b", "student_t(scale = b, df = 3"])
def test_another_unit_of_the_data(potential: str, method: str, unit: float) -> None:
    data = blocks()
    plain = fitted(BLOCKS, f"{potential}, group = of)", data, method, fixed={"b": 0.3})
    text = BLOCKS.replace("sd = 0.5", f"sd = {0.5 * unit}")
    moved = data | {"y": unit * data["y"]}
    other = fitted(text, f"{potential}, group = of)", moved, method, fixed={"b": 0.3 * unit})
    assert other.status.name == "converged"
    np.testing.assert_allclose(other.mean("w").values / unit, plain.mean("w").values, atol=1e-8)
    if method == "double-loop":
        lost = 40 * np.log(unit)
        np.testing.assert_allclose(other.log_evidence + lost, plain.log_evidence, atol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "potential", ["exp_power(scale = b, power = 0.8", "student_t(scale = b, df = 3"]
)
def test_the_scale_is_learned_where_the_bound_is_highest(potential: str) -> None:
    data = blocks()
    text = BLOCKS.replace("half_normal(sd = 2)", "flat")
    fit = fitted(text, f"{potential}, group = of)", data, "double-loop", hyper="map")
    best = float(fit.mean("b"))
    heights = [
        fitted(text, f"{potential}, group = of)", data, "double-loop", fixed={"b": v}).log_evidence
        for v in (0.97 * best, best, 1.03 * best)
    ]
    assert heights[1] > max(heights[0], heights[2])
    bend = heights[0] - 2 * heights[1] + heights[2]
    assert abs(heights[2] - heights[0]) < 0.1 * abs(bend)


def test_one_label_and_one_group_of_an_index_agree() -> None:
    data = blocks() | {"of": np.array(["c"] * 7)}
    fixed = {"b": 0.3}
    one = fitted(BLOCKS, "laplace(scale = b, group = of)", data, "double-loop", fixed=fixed)
    other = fitted(BLOCKS, "laplace(scale = b, group = feat)", data, "double-loop", fixed=fixed)
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(one.mean("w").values, other.mean("w").values, atol=1e-12)


def test_a_map_onto_an_index_of_the_expression() -> None:
    """Groups named after a member: `data first[feat] : feat`."""
    text = BLOCKS.replace("data of[feat] : block", "data of[feat] : block\ndata first[feat] : feat")
    data = blocks() | {"feat": np.arange(7), "first": np.array([0, 1, 2, 1, 1, 5, 1])}
    fixed = {"b": 0.3}
    one = fitted(text, "laplace(scale = b, group = first)", data, "double-loop", fixed=fixed)
    other = fitted(text, "laplace(scale = b, group = of)", data, "double-loop", fixed=fixed)
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-12)


def test_several_indices_under_one_map() -> None:
    """All entries of one label, over every index of the expression."""
    data = tasks() | {"of": np.array(["p", "q", "p", "r", "r", "r"])}
    text = TASKS.replace("index task", "index task\nindex block\ndata of[feat] : block")
    data["pair"] = np.repeat(data["of"][:, None], 3, axis=1)
    both = text.replace("data y", "data pair[feat, task] : block\ndata y")
    data["block"] = np.array(["p", "q", "r"])
    one = fitted(both, "laplace(scale = 0.3, group = of)", data, "double-loop")
    other = fitted(both, "laplace(scale = 0.3, group = pair)", data, "double-loop")
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-12)
    assert not np.isclose(
        one.log_evidence,
        fitted(both, "laplace(scale = 0.3, group = task)", data, "double-loop").log_evidence,
    )


def test_files_pages_and_what_is_refused(tmp_path: Any) -> None:
    data = blocks()
    model = lgm.loads(BLOCKS.replace("POTENTIAL", "laplace(scale = rate, group = of)"))
    fit = lgm.fit(model, data, method="double-loop", fixed={"b": 0.3})
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.mean("w").values, fit.mean("w").values)
    assert "laplace.group" in str(fit.summary())
    page = " ".join(str(lgm.explain(model, data)).split())
    assert "the norms of 4 groups of 1 to 4 entries; 1 label of `block` without entries" in page
    assert "missing" not in page
    with pytest.raises(lgm.ModelError, match="a model with a potential cannot be simulated"):
        lgm.simulate(model, data, fixed={"b": 0.3})
    with pytest.raises(lgm.MethodError, match="has a kink"):
        lgm.fit(model, data, method="laplace", fixed={"b": 0.3})
    with pytest.raises(lgm.MethodError, match="double-loop bounds it"):
        lgm.fit(model, data, method="natural-gradient", fixed={"b": 0.3})
    missing = data | {"of": np.where(OF == "d", "", OF)}
    text = BLOCKS.replace("of[feat] : block", "of[feat] : block?")
    with pytest.raises(lgm.DataError, match="an entry without a label has no group"):
        fitted(text, "laplace(scale = rate, group = of)", missing, "double-loop")


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["double-loop", "map", "laplace"])
def test_groups_that_are_alike_count_as_often_as_they_come(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,400 groups that read three vectors: merged into three of a weight each."""
    text = """lgm 1
index obs
index who
index task
data on[obs] : who
data y[who, task] : real
latent u[who, task] ~ normal(sd = 1)
let v[obs, task] = u[on, task]
potential v ~ POTENTIAL
observe y ~ normal(mean = u, sd = 0.5)
"""
    rng = np.random.default_rng(7)
    data = {"y": rng.normal(size=(3, 2)), "on": np.array(["a", "b", "c"] * 800)}
    kind = "sech2(scale = 60" if method == "laplace" else "laplace(scale = 400"
    merged = fitted(text, f"{kind}, group = task)", data, method)
    assert alike.alike(merged.canonical.blocks[0]) is not None
    monkeypatch.setattr(alike, "LEAST", 1 << 30)
    apart = fitted(text, f"{kind}, group = task)", data, method)
    np.testing.assert_allclose(merged.mean("u").values, apart.mean("u").values, atol=1e-5)
    if method != "map":
        np.testing.assert_allclose(merged.log_evidence, apart.log_evidence, rtol=1e-7)
        np.testing.assert_allclose(merged.sd("u").values, apart.sd("u").values, rtol=1e-4)
    assert np.abs(merged.mean("u").values).max() < 0.9 * np.abs(data["y"]).max()


HOSTILE = [
    ("laplace(scale = rate[of], group = of)", "E201", "write rate"),
    ("laplace(scale = b / root[of], group = of)", "E201", "write b / root"),
    ("laplace(scale = each, group = of)", "E201", "over the groups: hyper s[block]"),
    ("laplace(scale = b, group = block)", "E108", "write group = of"),
    ("laplace(scale = b, group = obs)", "E108", "write group = feat"),
    ("laplace(scale = b, group = b)", "E108", "write group = feat"),
    ('laplace(scale = b, group = "of")', "E108", "group = of"),
    ("laplace(scale = b, group = off)", "E103", "did you mean `of`"),
    ("asymmetric_laplace(scale = b, level = 0.3, group = of)", "E104", "it takes"),
]


@pytest.mark.parametrize(("potential", "code", "help"), HOSTILE)
def test_what_the_language_refuses(potential: str, code: str, help: str) -> None:
    text = BLOCKS.replace("data root", "data each[feat] : positive\ndata root")
    with pytest.raises(lgm.ModelError) as caught:
        lgm.loads(text.replace("POTENTIAL", potential))
    assert caught.value.codes == (code,) and help in str(caught.value)


def test_what_a_method_refuses_is_said_of_learned_hyperparameters_too() -> None:
    """Four entries a group are more than moments are had of; and no start says otherwise."""
    learned = TASKS.replace(
        "index task", "index task = 4\nhyper s : positive ~ half_normal(sd = 1)"
    )
    data = tasks() | {"y": np.repeat(tasks()["y"][:, :1], 4, axis=1)}
    for settings in ({"fixed": {"s": 0.5}}, {"hyper": "map"}, {"hyper": "integrate"}):
        with pytest.raises(lgm.MethodError, match=r"4 directions.*\n.*laplace or double-loop"):
            fitted(learned, "student_t(scale = s, df = 3, group = task)", data, "ep", **settings)


def test_many_groups_of_one_entry_are_the_entries() -> None:
    """More than a buffer of numpy's, in an order of their own."""
    n, rng = 9000, np.random.default_rng(0)
    data = {"y": rng.normal(size=n), "of": rng.permutation(n)}
    text = (
        "lgm 1\nindex i\nindex k\ndata y[i] : real\ndata of[i] : k\n"
        "latent z[i] ~ normal(sd = 1)\nobserve y ~ normal(mean = z, sd = 0.5)\n"
        "potential z ~ student_t(scale = 0.3, df = 3{})\n"
    )
    plain, grouped = (
        lgm.fit(lgm.loads(text.format(group)), data, method="laplace").log_evidence
        for group in ("", ", group = of")
    )
    assert grouped == pytest.approx(plain, rel=1e-10)
