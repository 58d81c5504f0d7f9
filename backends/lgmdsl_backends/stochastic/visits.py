"""Natural gradients from batches, with the last site of every row kept.

q(z) is p(z) exp(sum_i -1/2 w_i s_i^2 + b_i s_i) with one Gaussian site a row, so its natural
parameters are lambda = lambda_0 + sum_i T_i. A batch S has the targets T*_i = (-2 f_v,
f_m - 2 f_v m) at the present q, and estimates the natural gradient of the ELBO without bias by

    lambda_0 + sum_i T_i - lambda + (N / |S|) sum over S of (T*_i - T_i)

whose variance vanishes with T* - T (SAGA; the last slopes are kept as in SAG, Roux et al. 2012, and
here curvatures too, as in the incremental Newton method of Rodomanov and Kropotov 2016). A step of
|S| / N along it is to put T*_i in the place of T_i, so lambda stays lambda_0 + sum_i T_i.

All is computed in u, z = mean + R u, with u ~ N(0, I) at the q where the visits begin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.joint import latent_root
from lgmdsl.numerics.cholesky import Cholesky, cholesky
from lgmdsl_backends.stochastic.batches import Batch, Batches

# Shares of a step that are tried where its natural parameters have no Gaussian.
SHARES = (1.0, 0.5, 0.25)


class Visits:
    """From q with the sites `weight` and `shift`, one a row, which are changed as rows are visited.

    `sample`, where it is given, is what q has for sites instead: those of a batch, each standing
    for as many rows as it takes. Then the rows are yet to be visited, and until they have been the
    sums over those that were stand for all (Roux et al. 2012, section 4.1).

    Raises NumericalError where the covariance of q has no root.
    """

    def __init__(
        self,
        q: Conditioned,
        weight: Rows,
        shift: Rows,
        batches: Batches,
        sample: Batch | None = None,
    ) -> None:
        self.batches = batches
        self.weight, self.shift = (tuple(np.array(x) for x in given) for given in (weight, shift))
        self.mean = q.latent_mean
        self.root = latent_root(q, len(self.mean))
        rank = self.root.shape[1]
        # Natural parameters of q in u: (I, 0) at first.
        self.base = (np.eye(rank), np.zeros(rank))
        self.sums = [(np.zeros((rank, rank)), np.zeros(rank)) for _ in weight]
        self.seen = [np.full(n, sample is None) for n in batches.sizes]
        self.counts = [int(seen.sum()) for seen in self.seen]
        self.now = (np.zeros(rank), _factor(self.base[0]))
        if sample is not None:
            own = _added(sample.moved(self.root), q.weight, q.shift, sample.values(self.mean))
            for precision, linear in own:
                self.base = (self.base[0] - precision, self.base[1] - linear)

    def visit(self, batch: Batch) -> bool:
        """Move to the targets of these rows; False, and nothing has changed, where that is no
        Gaussian or some target is not a number."""
        u, factor = self.now
        half = batch.moved(self.root)
        origin = batch.values(self.mean)
        mean, variance = [], []
        for h, s in zip(half, origin, strict=True):
            m = s + (h @ u).reshape(s.shape)
            mean.append(m)
            variance.append(rows.gram(factor.forward(h.T).T, m))
        answers = batch.expected(tuple(mean), tuple(variance))
        weight = tuple(-2.0 * a.d_variance for a in answers)
        shift = rows.shift_of(tuple(a.d_mean for a in answers), weight, tuple(mean))
        if not all(np.isfinite(x).all() for x in (*weight, *shift)):
            return False
        old_weight = tuple(w[few] for w, few in zip(self.weight, batch.rows, strict=True))
        old_shift = tuple(b[few] for b, few in zip(self.shift, batch.rows, strict=True))
        change_weight = tuple(w - old for w, old in zip(weight, old_weight, strict=True))
        change_shift = tuple(b - old for b, old in zip(shift, old_shift, strict=True))
        change = _added(half, change_weight, change_shift, origin)
        counts = self._counted(batch)
        for share in SHARES:
            sums = [
                (a + share * da, h + share * dh)
                for (a, h), (da, dh) in zip(self.sums, change, strict=True)
            ]
            precision, linear = self._total(sums, counts)
            found = cholesky(precision)
            if found is None:
                continue
            self.sums, self.now, self.counts = sums, (found.solve(linear), found), counts
            for k, few in enumerate(batch.rows):
                self.weight[k][few] += share * change_weight[k]
                self.shift[k][few] += share * change_shift[k]
                self.seen[k][few] = True
            return True
        return False

    def _counted(self, batch: Batch) -> list[int]:
        """How many rows of each site block have been visited, with these."""
        new = (int((~seen[few]).sum()) for seen, few in zip(self.seen, batch.rows, strict=True))
        return [count + more for count, more in zip(self.counts, new, strict=True)]

    def _total(
        self, sums: Sequence[tuple[Array, Array]], counts: Sequence[int]
    ) -> tuple[Array, Array]:
        precision, linear = self.base[0].copy(), self.base[1].copy()
        for (a, h), size, count in zip(sums, self.batches.sizes, counts, strict=True):
            scale = size / count if count else 0.0
            precision += scale * a
            linear += scale * h
        return precision, linear


def _added(
    half: Sequence[Array], weight: Rows, shift: Rows, origin: Rows
) -> list[tuple[Array, Array]]:
    """What sites (W, b) add to the natural parameters, (H'WH, H'(b - W s0)), s = s0 + H u."""
    out = []
    for h, w, b, s in zip(half, weight, shift, origin, strict=True):
        alpha = b - rows.times(w, s)
        out.append((h.T @ rows.times_rows(w, h), h.T @ alpha.reshape(-1)))
    return out


def _factor(precision: Array) -> Cholesky:
    factor = cholesky(precision.copy())
    assert factor is not None  # of the identity
    return factor
