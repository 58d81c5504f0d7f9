"""The first pass of an audit: weights of q's draws, and exact draws where they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lgmdsl.accuracy.weighted import bridged
from lgmdsl.arrays import Array
from lgmdsl.assess.elsewhere import Elsewhere
from lgmdsl.assess.importance.bench import (
    PROJECTION,
    Bench,
    Described,
    Looked,
    Movement,
    Sampled,
    described,
    direction,
    k_hats,
    looked,
    sampled,
    step,
)
from lgmdsl.assess.importance.draws import Chunk
from lgmdsl.assess.importance.moments import Functional, mixed_normals
from lgmdsl.assess.importance.weights import Proposal, best_proposal
from lgmdsl.contract.engine import Rows

EXACT = "exact sampler"


class Scan:
    """The first pass: weights of q's draws, moments of predictors, single directions; and where
    there is a sampler its draws and the evidence of each part by bridge sampling."""

    def __init__(self, bench: Bench, each: Elsewhere) -> None:
        self.bench, self.chunks, n = bench, bench.chunks, bench.chunks.n
        parts = len(self.chunks.parts)
        self.log_weights, self.stretched, self.radius = np.empty(n), np.empty(n), np.empty(n)
        self.moments: list[tuple[Rows, Rows]] = []
        self.along: list[tuple[Array, Array]] = []
        self.distances: list[Array] = []
        self.exact: dict[int, Array] = {}
        self.sampled = bench.sampler is not None
        self.point_evidence = np.zeros(parts)
        self.point_errors, self.point_sizes = np.zeros(parts), np.zeros(parts)
        self.r_hat = 1.0
        first = self.chunks.parts[0].linear
        self.direction = direction(first, bench.at(0)[0], self.chunks.seed)
        units = [(k, start) for k in range(parts) for start in self.chunks.starts(k)]
        begun = looked(bench, self.direction, None, *units[0])
        self._look(units[0][0], begun)
        work: list[tuple[Any, ...]] = []
        for k in range(parts):
            work.append((described, k))
            work += [(looked, *unit) for unit in units[1:] if unit[0] == k]
            if self.sampled and self.chunks.counts[k]:
                work.append((sampled, k))
        answers = each(step, work, (self.direction, begun.places))
        for (_, k, *_), answer in zip(work, answers, strict=True):
            if isinstance(answer, Described):
                self.moments.append((answer.mean, answer.variance))
                self.along.append(answer.along)
            elif isinstance(answer, Looked):
                self._look(k, answer)
            else:
                self._take(k, answer)

    def _look(self, k: int, answer: Looked) -> None:
        where = answer.where
        self.log_weights[where] = answer.log_weight
        self.stretched[where] = answer.stretched
        self.radius[where] = answer.radius
        self.chunks.ranks[k] = answer.rank
        if answer.distances is not None:
            self.distances.append(answer.distances)

    def _take(self, k: int, answer: Sampled | None) -> None:
        chunks, count = self.chunks, int(self.chunks.counts[k])
        if answer is None:
            self.r_hat = np.inf
            self.exact[k] = np.zeros((count, chunks.parts[k].linear.size))
            return
        drawn, own = answer.draws, self.log_weights[chunks.part == k]
        self.exact[k] = drawn.x
        self.r_hat = max(self.r_hat, drawn.r_hat)
        effective = min(drawn.effective, float(count))
        self.point_evidence[k], self.point_errors[k] = bridged(own, answer.log_weight, effective)
        self.point_sizes[k] = effective

    def proposal(self) -> tuple[Proposal, Iterable[Chunk], float]:
        """The proposal, its draws (to be scaled by its `draws`), and their effective size."""
        chunks = self.chunks
        if not self.sampled:
            weights = self.log_weights, self.stretched
            made = best_proposal(
                *weights, self.radius, self.bench.stretch, chunks.rank, chunks.first
            )
            over = {n: getattr(made, n) + chunks.surplus for n in ("log_weight", "log_own")}
            made = replace(made, **over)
            return made, chunks, made.effective
        weight = chunks.surplus + self.point_evidence[chunks.part]
        own = np.full(chunks.n, -np.inf)
        exact = Proposal(np.ones(chunks.n), weight, own, name=EXACT)
        return exact, self._exact_chunks(), self._exact_size()

    def _exact_chunks(self) -> tuple[Chunk, ...]:
        ends = np.cumsum(self.chunks.counts)
        return tuple(
            Chunk(slice(ends[k] - len(x), ends[k]), k, x, np.zeros(len(x)))
            for k, x in self.exact.items()
        )

    def _posterior_shares(self) -> Array:
        """Shares of the parts that were drawn from, corrected by their evidences."""
        shares: Array = np.array([p.share for p in self.chunks.parts])
        shares = shares * (self.chunks.counts > 0)
        top = float(np.max(self.point_evidence, initial=-np.inf, where=shares > 0))
        if not np.isfinite(top):
            return np.asarray(shares / shares.sum())
        drawn = shares > 0  # of the others the evidence is not known
        weights = np.where(drawn, shares * np.exp(np.where(drawn, self.point_evidence - top, 0)), 0)
        return np.asarray(weights / weights.sum())

    def _exact_size(self) -> float:
        weights = self._posterior_shares()
        used = weights > 0
        return float(1.0 / np.sum(weights[used] ** 2 / np.maximum(self.point_sizes[used], 1e-300)))

    @property
    def evidence_error(self) -> float:
        """Standard error of the log evidence, of exact draws."""
        return float(np.sqrt(np.sum((self._posterior_shares() * self.point_errors) ** 2)))

    def k_hats(self, own_size: float) -> dict[str, float]:
        """Along single directions, where there are many latents."""
        return k_hats(self.distances, self.log_weights, own_size) if self.distances else {}

    def predictors(self) -> Iterator[tuple[Functional, Movement]]:
        """The predictors of each site block."""
        for number in range(len(self.chunks.parts[0].linear.predictors)):
            means = [m[number].reshape(-1) for m, _ in self.moments]
            variances = [v[number].reshape(-1) for _, v in self.moments]
            yield self._mixed(f"predictors {number}", means, variances, number)

    def projection(self) -> tuple[Functional, Movement]:
        """A random direction of all latents, each in units of its sd."""
        means, variances = [m for m, _ in self.along], [v for _, v in self.along]
        return self._mixed(PROJECTION, means, variances, -1)

    def _mixed(
        self, name: str, means: Sequence[Array], variances: Sequence[Array], number: int
    ) -> tuple[Functional, Movement]:
        """A functional that is affine in z at every part, of these moments under q there."""
        shares = np.array([p.share for p in self.chunks.parts])
        shares = shares / shares.sum()
        mean = shares @ np.array(means)
        within = shares @ np.maximum(np.array(variances), 0.0)
        variance = within + shares @ (np.array(means) - mean) ** 2
        movement = Movement(name, mean, number, tuple(m - mean for m in means))
        of_part = self.bench.of_part(movement, self.direction)
        sds = np.sqrt(np.maximum(np.array(variances), 0.0))
        points = mixed_normals(shares, np.array(means), sds)
        sd = np.sqrt(variance)
        made = Functional(name, mean, sd, of_part[0], of_part=of_part, quantiles=points)
        return made, movement
