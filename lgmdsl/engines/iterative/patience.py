"""What the iterative engine's solves cost, and those that it does not begin."""

from __future__ import annotations

import math

from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.errors import Diagnostic, TooLong

# Flops that take as long as an entry of a vector that is read or written: 20 GFlop/s by 8 GB/s.
TRAFFIC = 20.0
TOUCHED, TOUCHED_ROWS = 20.0, 4.0  # entries of an iteration for each latent and each row
# And as long as one that is fetched from a place of its own, once the vectors of a solve outgrow
# the cache: random rows of 3 among 30,000 latents take 0.8 ms for an iteration on a column, among
# 1,000,000 latents 64 ms, of which 25 are explained without.
FETCHED, CACHED = 130.0, 200_000.0
# Error of a sample and of a probe over its length in posterior sds, sqrt(n). On random rows of 3
# among 20,000 latents: variances 0.03 % (normal) and 0.3 % (Poisson) off where chance leaves 5 %,
# log|A| at most 0.002 nats of 20.
SCATTER, LOGS = 0.005, 0.015
MEANS = 4.0  # solves for the mean at each conditioning, to full accuracy
WARM = 3.0  # conditionings of a fit that starts from another one, at most
# Flops that a fit may take unless the engine was asked for, five minutes, and those that twice as
# many samples may for better variances: ten seconds.
LONGEST_FIT, QUICK = 6e12, 2e11
FLOPS_A_MINUTE = 1.2e12


def step_cost(linear: LinearGaussian) -> float:
    """Flops of one iteration on one column; what moves through memory counts as flops do."""
    operators = [op for p in linear.predictors for op in p.columns.values()]
    entries = TOUCHED * float(linear.size) + TOUCHED_ROWS * linear.rows
    fetched = 2.0 * sum(op.entries for op in operators if op.is_sparse and op.cost)
    if linear.size < CACHED:
        fetched = 0.0
    return 2.0 * sum(op.cost for op in operators) + TRAFFIC * entries + FETCHED * fetched


class Patience:
    """Accuracies, in posterior sds, and iterations that solves of a model may take: `limit` at
    most, and no more than `endless` flops for all that a fit needs.

    `steps` and `fits`: how often the model will be conditioned in a fit, and how many fits there
    will be, as far as is known; `done`: conditionings so far. `spent`: flops so far. `condition`:
    the condition number by what was seen first, or by the last solve for a mean, where that took
    more: weights at the data may be far from those that a fit begins with.
    """

    def __init__(
        self,
        linear: LinearGaussian,
        loose: float,
        limit: int,
        endless: float,
        probes: int = 16,
        tolerance: float = 1e-6,
    ) -> None:
        self.linear, self.loose, self.limit, self.endless = linear, loose, limit, endless
        self.probes, self.tolerance, self.condition = probes, tolerance, 1.0
        self.work = step_cost(linear)
        self.steps, self.fits, self.spent, self.done = 1.0, 1.0, 0.0, 0.0
        self.first = 1.0

    def accuracy(self, share: float) -> float:
        """Accuracy of a solve for something whose length is about sqrt(n): `share` of that, or
        `loose`."""
        return max(self.loose, share * math.sqrt(self.linear.size))

    def affordable(self, columns: int) -> int:
        """Iterations on so many columns that are left."""
        remaining = max(self.endless - self.spent, 0.0)
        return int(min(float(self.limit), remaining / (max(columns, 1) * self.work)))

    def iterations(self, error: float) -> float:
        """Iterations that conjugate gradients take to an error relative to the solution, at a
        condition number kappa (sqrt(kappa)/2) log(2/error) (Golub and Van Loan, section 11.3)."""
        return 0.5 * math.sqrt(self.condition) * math.log(2.0 / min(error, 1.0))

    def examined(self, condition: float) -> None:
        """The condition number of the first weights."""
        self.first = self.condition = condition

    def took(self, iterations: float) -> None:
        """A solve for a mean: the condition number is that at which it takes so many."""
        each = 0.5 * math.log(2.0 / self._relative)
        self.condition = max(self.first, (iterations / each) ** 2)

    @property
    def _relative(self) -> float:
        """The error of a mean over its length."""
        return min(self.tolerance / math.sqrt(self.linear.size), 1.0)

    def reach(self, samples: int) -> int:
        """Iterations of a solve for a mean, beyond which the conditionings that lie ahead, at the
        condition number that it shows, could not be had."""
        left = max(self.endless - self.spent, 0.0)
        if left == math.inf:
            return self.limit
        each = self.ahead * self.price(samples) / self.iterations(self._relative)
        return int(min(float(self.limit), left / each))

    def price(self, samples: int) -> float:
        """Flops of one conditioning."""
        length = math.sqrt(self.linear.size)
        columns = (
            (samples, self.accuracy(SCATTER)),
            (self.probes, self.accuracy(LOGS)),
            (MEANS, self.tolerance),
        )
        each = (k * self.iterations(error / length) for k, error in columns)
        return self.work * sum(each)

    @property
    def conditionings(self) -> float:
        """Conditionings of all fits: those after the first start next to their end."""
        return self.steps + (self.fits - 1.0) * min(self.steps, WARM)

    @property
    def ahead(self) -> float:
        """Conditionings that are left, the present one included."""
        return max(self.conditionings - self.done, 1.0)

    def left(self, samples: int) -> float:
        """Flops of the conditionings that are left."""
        return self.ahead * self.price(samples)

    def lasts(self, samples: int) -> bool:
        """Whether all conditionings can be had."""
        return self.spent + self.left(samples) <= self.endless

    def quick(self, samples: int) -> bool:
        """Whether they take no time to speak of, or time does not matter."""
        cost = self.spent + self.left(samples)
        return self.endless == math.inf or cost <= QUICK

    def refused(self, samples: int) -> TooLong:
        """E501: a posterior on which the solves would not end."""
        sizes = ((b.name, b.size) for b in self.linear.blocks)
        name, size = max(sizes, key=lambda block: block[1])
        total = (self.spent + self.left(samples)) / FLOPS_A_MINUTE
        steps = f"about {self.conditionings:.0f} steps" if self.conditionings > 1.0 else "one step"
        if self.fits > 1.0:
            steps += f" in about {self.fits:.0f} fits for the hyperparameters"
        pins = "hyperparameters that are fixed or fewer, " if self.fits > 1.0 else ""
        return TooLong(
            Diagnostic(
                "E501",
                f"the posterior of `{name}` ({size:,} entries) would take too long: "
                f"{total:,.0f} minutes or more, for {steps}, through the iterative engine",
                help=f"{pins}fewer latents, tighter priors, or sites that are more alike in "
                "precision; the option engine=iterative runs it all the same",
                layout="plain",
            )
        )
