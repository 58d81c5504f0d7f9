"""Where modes are sought from: the same answers as from the prior's mean, with the same bits
whoever gives them, and fewer passes over the rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.shards import model as sharded_models
from lgmdsl.shards.anchors import Anchors, Near, Point
from lgmdsl.shards.anchors import Path as Asked
from lgmdsl.shards.questions import Answered, answered
from lgmdsl.shards.shard import ShardSource
from tests.shards.models import compiled, folder, passes_of, rows, spread, text


def source_of(case: str, place: Path, **data: Any) -> tuple[ShardSource, dict[str, Any], int]:
    """A shard, a theta, and how many latents are shared."""
    canonical, _ = compiled(lgm.loads(text(case)), folder(place, rows(case, **data), 2))
    return passes_of(canonical).sources[0], canonical.hypers.start({}), canonical.size


def points(theta: dict[str, Any], size: int, count: int, step: float) -> list[Point]:
    """Some that are `step` apart in theta and beta; covariances are as they are."""
    out = []
    for k in range(count):
        values = {
            n: np.asarray(v) * (1.0 + step * k) if np.ndim(v) == 0 else v for n, v in theta.items()
        }
        out.append(Point(values, 0.1 + step * k * np.cos(np.arange(size) + k)))
    return out


def ask(source: ShardSource, point: Point, near: Near = ()) -> Answered:
    """The answer, third derivatives included."""
    return answered(source, point, near, 0.01 * np.eye(len(point.beta)))


def same_bits(one: Answered, other: Answered) -> bool:
    """Whether two answers are the same in every bit."""
    return all(
        np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(one, other, strict=True)
    )


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "case", ["poisson", "binary", "gaussian", "negbinomial", "vectors", "walk"]
)
def test_answers_do_not_depend_on_anchors_but_for_rounding(case: str, tmp_path: Path) -> None:
    """And a worker that was asked nothing else gives every bit of them."""
    source, theta, size = source_of(case, tmp_path / "rows")
    a, x, at = points(theta, size, 3, 0.05)
    cold = ask(source, at)
    for near in ((a,), (a, x), (at,)):
        warm = ask(source, at, near)
        for got, want in zip(warm[:5], cold[:5], strict=True):
            assert got is not None and want is not None
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
        source.forget()  # as another worker
        assert same_bits(ask(source, at, near), warm)
        ask(source, x, (at,))
        ask(source, a, (x, at))
        assert same_bits(ask(source, at, near), warm)
    source.forget()


def test_near_an_anchor_one_pass_or_two_find_the_modes(tmp_path: Path) -> None:
    source, theta, size = source_of("poisson", tmp_path / "rows")
    a, x, near_x = points(theta, size, 1, 0.0)[0], *points(theta, size, 3, 1e-6)[1:]
    assert ask(source, a).passes > 3
    assert ask(source, x, (a,)).passes <= 2
    assert ask(source, near_x, (a, x)).passes == 1


@pytest.mark.thorough
def test_an_anchor_without_modes_is_left_alone(tmp_path: Path) -> None:
    """At shared latents of 1e4 rates overflow: the search begins at the prior's mean."""
    source, theta, size = source_of("poisson", tmp_path / "rows")
    nowhere = Point(theta, np.full(size, 1e4))
    at = points(theta, size, 1, 0.0)[0]
    assert ask(source, nowhere).value == -np.inf
    assert same_bits(ask(source, at, (nowhere,)), ask(source, at))
    far = Point(theta, np.array([30.0, 0.0]))  # modes there, and none of them of use here
    got, want = ask(source, at, (far,)), ask(source, at)
    np.testing.assert_allclose(got.value, want.value, rtol=1e-12)
    np.testing.assert_allclose(got.slope, want.slope, rtol=1e-9)


def test_questions_name_two_points_at_most() -> None:
    anchors = Anchors()
    theta = {"s": np.array(1.0)}
    betas = [np.array([float(k)]) for k in range(8)]
    first = Asked(anchors, theta)
    assert first.near(betas[0]) == ()
    first.noted((), 9)
    a = Point(theta, betas[0])
    assert [p.beta[0] for p in first.near(betas[1])] == [a.beta[0]]
    for k in range(2, 5):  # from the last that was asked from A
        assert [p.beta[0] for p in first.near(betas[k])] == [0.0, 1.0]
    first.noted(first.near(betas[4]), 5)  # far: the next is asked from A
    assert [p.beta[0] for p in first.near(betas[5])] == [0.0]
    assert [p.beta[0] for p in first.near(betas[6])] == [0.0, 5.0]
    assert first.near(betas[2]) is first.near(betas[2]) and len(first.near(betas[2])) == 2
    second = Asked(anchors, {"s": np.array(2.0)})
    near = second.near(betas[1])
    second.noted(near, 2)  # near A: all that follow are asked from it
    assert [p.beta[0] for p in near] == [0.0]
    assert [p.beta[0] for p in second.near(betas[7])] == [0.0, 1.0]


def test_the_anchor_moves_with_a_search_that_has_moved() -> None:
    anchors, theta = Anchors(), {"s": np.array(1.0)}
    ends = [Point({"s": np.array(float(k))}, np.array([float(k)])) for k in range(4)]
    near = Asked(anchors, theta).near(ends[0].beta)
    anchors.noted(near, 6)
    anchors.reached(ends[1], 10.0)
    assert anchors.current is not None and anchors.current.beta[0] == 0.0  # it has cost nothing yet
    anchors.noted((anchors.current,), 5)
    anchors.noted((anchors.current,), 5)
    anchors.reached(ends[2], 5.0)  # a trial that came out lower
    assert anchors.current.beta[0] == 0.0
    anchors.reached(ends[3], 11.0)
    assert anchors.current is ends[3] and anchors.excess == 0


@pytest.mark.thorough
def test_a_search_begins_in_a_sample_of_the_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends where one that does not begins, with one hash of threads and of one process."""
    shards = folder(tmp_path / "shards", rows("poisson", 1000, 40), 4)
    model = lgm.loads(text("poisson"))
    plain = lgm.fit(model, shards, hyper="map", tol=1e-8)
    monkeypatch.setattr(sharded_models, "LEAST_ROWS", 100)
    monkeypatch.setattr(sharded_models, "LEAST_PLACES", 5)
    canonical, _ = compiled(model, shards)
    part = canonical.rows.sampled(canonical)
    assert part is not None and spread(part).about.shards == 1
    assert part.rows.sampled(part) is None
    assert part.observations < 0.5 * canonical.observations == 500
    piloted = lgm.fit(model, shards, hyper="map", tol=1e-8)
    assert piloted.converged and piloted != plain
    assert piloted.log_evidence == pytest.approx(plain.log_evidence, abs=1e-7)
    np.testing.assert_allclose(piloted.mean("s"), plain.mean("s"), rtol=1e-5)
    with ThreadPoolExecutor(2) as executor:
        assert lgm.fit(model, shards, hyper="map", tol=1e-8, jobs=executor) == piloted
    few = compiled(model, folder(tmp_path / "few", rows("poisson"), 3))[0]
    assert few.rows.sampled(few) is None
