"""Complete models around one word, for the pages of the manual: each is checked and fitted by
`tests/vocabulary/test_examples.py`."""

from __future__ import annotations

SD = "hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)"
NOISE = "hyper noise : positive ~ pc_sd(u = 1, alpha = 0.01)"


def model(*lines: str) -> str:
    """The lines of a model after its head."""
    return "\n".join(("lgm 1", *lines)) + "\n"


def regression(observation: str, *declarations: str, y: str = "real") -> str:
    """One covariate, and what is observed given `eta`."""
    return model(
        "index obs",
        "data x[obs] : real",
        f"data y[obs] : {y}",
        *declarations,
        "latent a ~ normal(sd = 5)",
        "latent b ~ normal(sd = 2)",
        "let eta[obs] = a + b * x",
        f"observe y ~ {observation}",
    )


def smooth(structure: str, *declarations: str, axis: str = "day") -> str:
    """A level and a latent with a structure over one axis, seen through counts."""
    return model(
        f"index {axis}",
        f"data y[{axis}] : count",
        *declarations,
        "latent level ~ normal(sd = 5)",
        f"latent f[{axis}] ~ {structure}",
        "observe y ~ poisson(log_rate = level + f)",
    )


def grouped(*declarations: str, sd: str = "s") -> str:
    """Independent effects of groups, seen through counts."""
    return model(
        "index obs",
        "index group",
        "data who[obs] : group",
        "data y[obs] : count",
        *declarations,
        "latent level ~ normal(sd = 5)",
        f"latent u[group] ~ normal(sd = {sd})",
        "observe y ~ poisson(log_rate = level + u[who])",
    )


def slopes(prior: str, *declarations: str) -> str:
    """An intercept and a slope of each group, with a covariance between them."""
    return model(
        "index obs",
        "index group",
        'index term = {"level", "slope"}',
        "data who[obs] : group",
        "data x[obs] : real",
        "data y[obs] : real",
        *declarations,
        f"hyper S[term, term] : covariance ~ {prior}",
        "latent d[group, term] ~ iid * dense(cov = S)",
        'observe y ~ normal(mean = d[who, "level"] + x * d[who, "slope"], sd = 1)',
    )


def process(kernel: str, *declarations: str) -> str:
    """A Gaussian process of one input, with its scale learned."""
    return model(
        "index obs",
        "data x[obs] : real",
        "data y[obs] : real",
        SD,
        *declarations,
        f"latent f[obs] ~ gp(at = x, kernel = {kernel})",
        "observe y ~ normal(mean = f, sd = 0.5)",
    )


def sparse(potential: str, *declarations: str) -> str:
    """A potential on the coefficients of a regression."""
    return model(
        "index obs",
        "index feat",
        "data X[obs, feat] : real",
        "data y[obs] : real",
        *declarations,
        "latent w[feat] ~ flat",
        f"potential w ~ {potential}",
        "observe y ~ normal(mean = X @ w, sd = 1)",
    )


SHAPE = "hyper k : positive ~ lognormal(mean = 0, sd = 1)"
SHARE = "hyper p : unit ~ beta(a = 1, b = 4)"
_SECOND = ("latent c ~ normal(sd = 2)", "latent d ~ normal(sd = 1)", "let zeta[obs] = c + d * x")

# Arguments that many words take, or that stand in place of another, each in a model.
OF_ARGUMENTS = {
    "weight": regression(
        "poisson(log_rate = eta, weight = w)", "data w[obs] : nonnegative", y="count"
    ),
    "zero_inflation": regression(
        "poisson(log_rate = eta, zero_inflation = p)", SHARE, y="count"
    ),
    "zero_inflation_logit": regression(
        "poisson(log_rate = eta, zero_inflation_logit = zeta)", *_SECOND, y="count"
    ),
    "hurdle": regression(
        "gamma(log_mean = eta, shape = k, hurdle = p)", SHAPE, SHARE, y="nonnegative"
    ),
    "hurdle_logit": regression(
        "gamma(log_mean = eta, shape = k, hurdle_logit = zeta)", SHAPE, *_SECOND, y="nonnegative"
    ),
    "truncated": regression("poisson(log_rate = eta, truncated = true)", y="count"),
    "entry": regression(
        "weibull(log_scale = eta, shape = k, event = died, entry = joined)",
        "data died[obs] : binary", "data joined[obs] : nonnegative", SHAPE, y="positive",
    ),
    "log_sd": regression("normal(mean = eta, log_sd = zeta)", *_SECOND),
    "log_shape": regression("gamma(log_mean = eta, log_shape = zeta)", *_SECOND, y="positive"),
    "log_size": regression("negbinomial(log_mean = eta, log_size = zeta)", *_SECOND, y="count"),
    "log_dispersion": regression(
        "negbinomial1(log_mean = eta, log_dispersion = zeta)", *_SECOND, y="count"
    ),
    "log_concentration": regression(
        "beta(logit_mean = eta, log_concentration = zeta)", *_SECOND, y="unit"
    ),
    "log_var": regression("normal(mean = 0, log_var = eta)"),
    "probit": regression("bernoulli(probit = eta)", y="binary"),
    "cloglog": regression("bernoulli(cloglog = eta)", y="binary"),
}  # fmt: skip
