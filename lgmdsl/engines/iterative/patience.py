"""What the iterative engine's solves cost, and those that it does not begin."""

from __future__ import annotations

import math

from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.errors import Diagnostic, MethodError

# Flops that take as long as an entry of a vector that is read or written: 20 GFlop/s by 8 GB/s.
TRAFFIC = 20.0
TOUCHED, TOUCHED_ROWS = 20.0, 4.0  # entries of an iteration for each latent and each row
# Error of a sample and of a probe over its length in posterior sds, sqrt(n). On random rows of 3
# among 20,000 latents: variances 0.3 % off where chance leaves 5 %, log|A| 3e-4 nats of 20.
SCATTER, LOGS = 0.005, 0.015
# Flops of one solve beyond which it is not begun unless the engine was asked for: two minutes, and
# a fit needs dozens.
ENDLESS = 2e12


def step_cost(linear: LinearGaussian) -> float:
    """Flops of one iteration on one column; what moves through memory counts as flops do."""
    applied = sum(op.cost for p in linear.predictors for op in p.columns.values())
    entries = TOUCHED * float(linear.size) + TOUCHED_ROWS * linear.rows
    return 2.0 * applied + TRAFFIC * entries


class Patience:
    """Accuracies, in posterior sds, and iterations that solves of a model may take: `limit` at
    most, and no more than `endless` flops."""

    def __init__(self, linear: LinearGaussian, loose: float, limit: int, endless: float) -> None:
        self.linear, self.loose, self.limit, self.endless = linear, loose, limit, endless
        self.work = step_cost(linear)

    def accuracy(self, share: float) -> float:
        """Of a solve for something whose length is about sqrt(n)."""
        return max(self.loose, share * math.sqrt(self.linear.size))

    def affordable(self, columns: int) -> int:
        """Iterations on so many columns."""
        return int(min(float(self.limit), self.endless / (max(columns, 1) * self.work)))

    def steps(self, condition: float) -> float:
        """Iterations that samples take at this condition number kappa, (sqrt(kappa)/2)
        log(2/error) (Golub and Van Loan, section 11.3)."""
        error = self.accuracy(SCATTER) / math.sqrt(self.linear.size)
        return 0.5 * math.sqrt(condition) * math.log(2.0 / min(error, 1.0))

    def lasts(self, condition: float, columns: int) -> bool:
        """Whether samples as many as `columns` can be had."""
        return self.endless == math.inf or self.steps(condition) <= self.affordable(columns)

    def refused(self, condition: float, samples: int) -> MethodError:
        """E501: a posterior on which the solves would not end."""
        sizes = ((b.name, b.size) for b in self.linear.blocks)
        name, size = max(sizes, key=lambda block: block[1])
        return MethodError(
            Diagnostic(
                "E501",
                f"the posterior of `{name}` ({size:,} entries) would take too long: about "
                f"{self.steps(condition):,.0f} iterations on {samples} vectors at each step",
                help="tighter priors, fewer latents, or sites that are more alike in precision; "
                "the option engine=iterative runs it all the same",
                layout="plain",
            )
        )
