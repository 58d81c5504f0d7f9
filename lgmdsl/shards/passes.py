"""Questions to all shards, and the site that their answers make: sums in the order of the shards.

The order of the sums, and what each shard computes, depend on the shards alone: who computes them,
and how many there are, changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract import rows
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.questions import (
    BoundedAnswer,
    Expected,
    ExpectedAnswer,
    PointwiseAnswer,
    Tilted,
    Widths,
)
from lgmdsl.contract.site import Site, SiteSpec
from lgmdsl.shards import questions
from lgmdsl.shards.anchors import Anchors, Near, Path, Point
from lgmdsl.shards.averages.averaged import FEW
from lgmdsl.shards.averages.shard_sites import ShardSites
from lgmdsl.shards.questions import Found
from lgmdsl.shards.shard import ShardSource
from lgmdsl.shards.shared_layout import SharedLayout
from lgmdsl.shards.shelf import SHELF
from lgmdsl.workers.task import Task
from lgmdsl.workers.workers import Workers

Arrived = Callable[[int, Any], None]
HYPERPARAMETERS = "hyperparameters"  # in which the slopes of these sites come


@dataclass(eq=False)
class Passes:
    """The shards and who works on them; None: this process. `asked`: how many questions were put to
    all shards; `received`: bytes of numbers in the answers; `found`: what each shard is, once that
    was asked; `anchors`: from where the groups' modes are sought, `averages`: their averages, by
    the question that rows answer."""

    sources: tuple[ShardSource, ...]
    workers: Workers | None = None
    asked: int = 0
    received: int = 0
    found: tuple[Found, ...] = ()
    anchors: Anchors = field(default_factory=Anchors)
    averages: dict[type, Anchors] = field(
        default_factory=lambda: {q: Anchors() for q in (Expected, Tilted, Widths)}
    )

    @property
    def codes(self) -> tuple[IntArray | None, ...]:
        """The pairs of shared latents that each shard's informations are of, None for all pairs."""
        return tuple(f.codes for f in self.found)

    @property
    def question(self) -> type | None:
        """What rows answer where the method of the fit averages over the groups."""
        known = self.sources[0].averagings
        return known[0].question if known else None

    def ask(
        self, call: Callable[..., Any], *arguments: Any, arrived: Arrived | None = None
    ) -> list[Any]:
        """The answers in the order of the shards; `arrived` gets the number of a shard and its
        answer as soon as that is there. Raises WorkerError as `Workers.results`, and what a shard
        raises."""
        return self.of_each(call, [arguments] * len(self.sources), arrived)

    def of_each(
        self,
        call: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        arrived: Arrived | None = None,
    ) -> list[Any]:
        """The shards' answers (`ask`), each to arguments of its own."""
        count, pairs = len(self.sources), list(zip(self.sources, arguments, strict=True))
        if self.workers is None:
            answers = []
            for source, given in pairs:
                answers.append(call(source, *given))
                if arrived is not None:
                    arrived(len(answers) - 1, answers[-1])
        else:
            tasks = [
                Task(f"shard {k + 1} of {count}", call, given, (self.workers.bundle(source),), k)
                for k, (source, given) in enumerate(pairs)
            ]
            answers = self.workers.results(tasks, arrived)
        self.asked += 1
        self.received += sum(map(_bytes, answers))
        return answers

    def first(self, count: int) -> Passes:
        """Passes over the first `count` shards alone."""
        return Passes(self.sources[:count], self.workers, found=self.found[:count])

    def done(self) -> None:
        """Let go of the workers, and of the rows that this process has read."""
        self.workers = None
        for source in self.sources:
            SHELF.drop(source)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "workers": None}


def total_of(parts: Sequence[Any]) -> Any:
    """The sum, from the first to the last."""
    return reduce(lambda a, b: a + b, parts)


def _bytes(answer: Any) -> int:
    if isinstance(answer, np.ndarray):
        return int(answer.nbytes)
    if isinstance(answer, dict):
        return sum(map(_bytes, answer.values()))
    if isinstance(answer, tuple | list):
        return sum(map(_bytes, answer))
    return 8 if isinstance(answer, float) else 0


@dataclass(frozen=True, eq=False)
class Shards(SumsOfRows):
    """Sites of the p shared latents, N with K predictors each: the sum of all shards at theta."""

    spec: SiteSpec  # type: ignore[misc]
    passes: Passes
    theta: Theta
    rows: int
    layout: SharedLayout

    def __len__(self) -> int:
        return len(self.layout.once(0.0))

    @property
    def evaluations(self) -> int:
        return self.rows

    def by(self, answer: Callable[[Site], object]) -> Self:
        return self

    def log_density(self, s: Array) -> Array:
        return self.pointwise(s).value

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """`third` only where a variance is given; else it is NaN."""
        beta = self.layout.shared(s)
        given = variance if isinstance(variance, np.ndarray) else None
        spread = [None] * len(self.passes.sources) if given is None else self._spread(given)
        near = self._path.near(beta)
        parts = self._of_each(questions.answered, beta, [(v,) for v in spread])
        self._path.noted(near, max(a.passes for a in parts))
        value, slope, weight = self._totals(parts)
        third = np.full_like(s, np.nan)
        if given is not None:
            third = self.layout.placed(total_of([a.third for a in parts]))
        eliminated = total_of([a.eliminated for a in parts])
        once = self.layout.once
        return PointwiseAnswer(once(value), slope, -weight, third, once(eliminated))

    def _totals(self, parts: list[questions.Answered]) -> tuple[float, Array, Array]:
        """Value, slope, and minus the curvature of all shards."""
        slope = self.layout.placed(total_of([a.slope for a in parts]))
        weight = self._weights([a.information for a in parts])
        return total_of([a.value for a in parts]), slope, weight

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def moved_slopes(self, s: Array, variance: Array, move: Array) -> dict[str, Array]:
        """d(l + tr(variance l'') / 2 + move'l')/dhyperparameter (`RowSource.slopes`)."""
        beta, along = self.layout.shared(s), self.layout.shared(move)
        given = [(v, along) for v in self._spread(variance)]
        return rows.added(self._of_each(questions.slopes, beta, given))

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        self.check_first(second)
        value, slope, weight = self.averaged(Expected, mean, variance)
        return ExpectedAnswer(self.layout.once(value), slope, -0.5 * weight)

    def averaged(self, question: type, mean: Array, variance: Array) -> tuple[float, Array, Array]:
        """F, F_m and -2 F_V of all shards, whose rows answer a question."""
        near, given = self._averages(question, mean, variance)
        parts = self.passes.of_each(questions.answered, given)
        self._paths[question].noted(near, max(a.passes for a in parts))
        return self._totals(parts)

    def row_sites(self) -> ShardSites:
        weight = np.zeros((len(self), self.layout.event, self.layout.event))
        return ShardSites(self, weight, weight[:, :, 0])

    def bounded(self, s: Array, z: Array) -> BoundedAnswer:
        """F as a penalty: with the rows' widths as they are, the groups are eliminated exactly."""
        value, slope, weight = self.averaged(Widths, s, z)
        penalty = self.layout.once(-value)
        level = penalty - 0.5 * rows.trace(weight, z)
        return self.bound_of(s, penalty, level, -slope, weight, weight)

    def at_scale(self, s: Array) -> BoundedAnswer:
        """Next to shared latents that are known."""
        return self.bounded(s, np.zeros((*s.shape, s.shape[1])))

    def averaged_slopes(self, question: type, mean: Array, variance: Array) -> dict[str, Array]:
        _, given = self._averages(question, mean, variance)
        return rows.added(self.passes.of_each(questions.bound_slopes, given))

    def unit_weights(self) -> Array:
        return self._weights(self.passes.ask(questions.unit_information, dict(self.theta)))

    def working_sums(
        self, mean: Array, variance: Array, prior: Array | None
    ) -> tuple[float, float, float]:
        before = None if prior is None else self.layout.shared(prior)
        beta = self.layout.shared(mean)
        given = [(v, before) for v in self._spread(variance)]
        near = None
        if self.passes.question is not None:
            near = [n for _, n in self._averages(self.passes.question, mean, variance)[1]]
        parts = self._of_each(questions.working, beta, given, near)
        total, first, second = (total_of([p[k] for p in parts]) for k in range(3))
        return total, first, second

    def along(self, s: Array, directions: Array, lengths: Array) -> Array:
        ways = np.array([self.layout.shared(d) for d in directions])
        count = len(self.passes.sources)
        given = [(ways, np.ascontiguousarray(lengths))] * count
        near: list[Near] | None = None if self.passes.question is None else [()] * count
        parts = self._of_each(questions.along, self.layout.shared(s), given, near)
        return np.asarray(total_of(parts))

    @cached_property
    def _path(self) -> Path:
        return Path(self.passes.anchors, dict(self.theta))

    @cached_property
    def _paths(self) -> dict[type, Path]:
        """Paths of the groups' averages, by the question that rows answer."""
        known = self.passes.averages
        return {q: Path(anchors, dict(self.theta), FEW, q) for q, anchors in known.items()}

    def _weights(self, parts: list[Array]) -> Array:
        return self.layout.weights(self.layout.total(parts, self.passes.codes))

    def _spread(self, variance: Array) -> list[Array]:
        """What each shard needs of the covariance of beta."""
        whole = self.layout.entries(variance)
        return [self.layout.part(whole, codes) for codes in self.passes.codes]

    def _averages(
        self, question: type, mean: Array, variance: Array
    ) -> tuple[Near, list[tuple[Point, Near]]]:
        """From where averages at a q(beta) are sought, and the same as each shard is asked."""
        beta = np.ascontiguousarray(self.layout.shared(mean))
        covariance = np.ascontiguousarray(self.layout.entries(variance))
        path = self._paths[question]
        near, point = path.near(beta, covariance), Point(path.theta, beta, covariance, question)
        given = []
        for codes in self.passes.codes:
            known = {id(p): self._part(p, codes) for p in (point, *near)}
            given.append((known[id(point)], tuple(known[id(p)] for p in near)))
        return near, given

    def _part(self, point: Point, codes: IntArray | None) -> Point:
        """What a shard needs of a point."""
        assert point.covariance is not None
        return point._replace(covariance=self.layout.part(point.covariance, codes))

    def _of_each(
        self,
        call: Callable[..., Any],
        beta: Array,
        given: list[tuple[Any, ...]],
        near: Sequence[Near] | None = None,
    ) -> list[Any]:
        """The answers to a question about the groups given beta, (p,), with what else each shard is
        given; sought from points `near`, None: where modes are."""
        beta = np.ascontiguousarray(beta)
        begin = [self._path.near(beta)] * len(given) if near is None else near
        point, pairs = Point(self._path.theta, beta), zip(begin, given, strict=True)
        return self.passes.of_each(call, [(point, n, *g) for n, g in pairs])
