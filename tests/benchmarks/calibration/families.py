"""Calibration by simulation of every family with its modifiers, by two methods.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.calibration.families FOLDER RUNS [NAME...]

y of 30 rows with an intercept and a slope (a second pair where there is a second predictor), other
parameters as numbers. A line for each: the least uniform quantity of each method.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import lgmdsl as lgm
from lgmdsl.api.page import columns
from lgmdsl.errors import LgmError

HEAD = """lgm 1
index obs
data x[obs] : real
data y[obs] : {type}
latent a ~ normal(mean = {level}, sd = 0.7)
latent b ~ normal(sd = 0.5)
let eta[obs] = a + b * x
"""
SECOND = """latent c ~ normal(mean = {second}, sd = 0.5)
latent d ~ normal(sd = 0.3)
let zeta[obs] = c + d * x
"""
# The type of y, the levels of the predictor and of the second one, the family.
TABLE = """
count 0.5 - negbinomial(log_mean = eta, size = 2, exposure = 3)
count 1.0 - negbinomial1(log_mean = eta, dispersion = 2)
count -0.5 - binomial(cloglog = eta, n = 6)
count 0.0 - betabinomial(logit = eta, n = 8, concentration = 4)
count 0.0 - betabinomial(probit = eta, n = 8, concentration = 4)
count -0.5 - betabinomial(cloglog = eta, n = 8, concentration = 4)
count 1.0 - generalized_poisson(log_mean = eta, dispersion = 2)
count 1.0 - com_poisson(log_mean = eta, dispersion = 0.6)
nonnegative 0.5 - tweedie(log_mean = eta, dispersion = 1.5, power = 1.5)
positive 0.0 - inverse_gaussian(log_mean = eta, shape = 2)
positive 0.0 - loglogistic(log_scale = eta, shape = 2)
positive -1.0 - gompertz(log_rate = eta, shape = 0.5)
positive 0.0 - generalized_gamma(location = eta, scale = 0.8, shape = 0.5)
positive 0.0 - generalized_pareto(log_scale = eta, shape = 0.2)
real 0.0 - gev(location = eta, scale = 1, shape = 0.1)
real 0.0 - skew_normal(mean = eta, sd = 1, skew = 0.6)
real 0.0 - asymmetric_laplace(quantile = eta, scale = 0.5, level = 0.8)
real 0.0 - logistic(mean = eta, scale = 0.6)
count 1.0 - poisson(log_rate = eta, zero_inflation = 0.3)
count 1.0 - poisson(log_rate = eta, hurdle = 0.3)
count 0.5 - poisson(log_rate = eta, truncated = true)
count 1.0 - negbinomial(log_mean = eta, size = 2, zero_inflation = 0.3)
nonnegative 0.5 - gamma(log_mean = eta, shape = 2, hurdle = 0.3)
real 0.0 0.0 normal(mean = eta, log_sd = zeta)
positive 0.0 -0.3 lognormal(mean = eta, log_sd = zeta)
real 0.0 0.0 student_t(mean = eta, df = 5, log_scale = zeta)
positive 0.0 0.7 gamma(log_mean = eta, log_shape = zeta)
positive 0.0 0.3 weibull(log_scale = eta, log_shape = zeta)
unit 0.0 2.0 beta(logit_mean = eta, log_concentration = zeta)
count 1.5 0.7 negbinomial(log_mean = eta, log_size = zeta)
count 1.5 0.5 negbinomial1(log_mean = eta, log_dispersion = zeta)
count 0.0 1.5 betabinomial(logit = eta, n = 8, log_concentration = zeta)
count 1.5 -0.5 poisson(log_rate = eta, zero_inflation_logit = zeta)
count 1.0 -0.5 poisson(log_rate = eta, hurdle_logit = zeta)
nonnegative 0.5 -0.5 gamma(log_mean = eta, shape = 2, hurdle_logit = zeta)
"""
FAMILIES = {row.split(maxsplit=3)[3]: row.split()[:3] for row in TABLE.strip().splitlines()}
METHODS = ("natural-gradient", "ep", "laplace")
WANTED = 2  # methods of each
HEADER = ("family", "method", "runs", "ms", "worst", "bias", "sd", "p", "verdict")


def model(name: str) -> lgm.Model:
    type_, level, second = FAMILIES[name]
    text = HEAD.format(type=type_, level=level)
    if second != "-":
        text += SECOND.format(second=second)
    return lgm.loads(f"{text}observe y ~ {name}\n")


def line(name: str, method: str, folder: Path, runs: int) -> tuple[str, ...] | None:
    """Of the table; None where the method refuses the family."""
    start, file = time.process_time(), re.sub(r"\W+", "_", f"{name} {method}")
    try:
        found = lgm.calibrate(
            model(name), None, {"obs": 30}, runs, method=method, jobs=1,
            record=folder / f"{file}.jsonl",
        )  # fmt: skip
    except LgmError as error:
        print(f"{name}, {method}: {error.diagnostics[0].message}", flush=True)
        return None
    each = 1000.0 * (time.process_time() - start) / runs
    worst = found.worst_first[0]
    test = found.tests[worst]
    return (
        name, method, f"{len(found.outcomes)}", f"{each:.0f}", worst,
        f"{test.bias:+.2f} +- {test.bias_error:.2f}",
        f"{100.0 * test.sd_off:+.0f} +- {100.0 * test.sd_error:.0f} %", f"{test.p:.2g}",
        found.verdict.partition(":")[0],
    )  # fmt: skip


def main(folder: Path, runs: int, names: list[str]) -> None:
    """Calibrate, and print."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in names or FAMILIES:
        taken = 0
        for method in METHODS:
            found = line(name, method, folder, runs) if taken < WANTED else None
            if found is not None:
                taken += 1
                lines.append(found)
                print("\t".join(found), flush=True)
    print(
        "\n".join(
            columns(
                [("family", "method", "runs", "ms", "worst", "bias", "sd", "p", "verdict"), *lines]
            )
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
