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
