"""What other languages call the same arguments, types and functions. Their names of distributions,
structures, priors and kernels stand in the declarations (`Signature.also_called`)."""

from __future__ import annotations

# Arguments. The first that the distribution has is the one that was meant.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "rate": ("log_rate",), "lambda": ("log_rate", "rate"), "mu": ("mean", "log_mean", "log_rate"),
    "mean": ("log_mean", "log_rate", "logit_mean"), "p": ("logit", "probit", "softmax"),
    "prob": ("logit", "probit", "softmax"), "probability": ("logit", "probit", "softmax"),
    "theta": ("logit", "probit"), "eta": ("logit", "log_rate", "mean", "log_mean"),
    "logits": ("logit", "softmax"), "logit": ("softmax",), "var": ("sd",), "variance": ("sd",),
    "sigma": ("sd", "scale"), "std": ("sd", "scale"), "sd": ("scale",), "scale": ("sd",),
    "sigma2": ("sd",), "precision": ("sd",), "prec": ("sd",), "tau": ("sd",),
    "phi": ("rho", "size", "concentration"), "correlation": ("rho",), "nu": ("df",),
    "adjacency": ("graph",), "adj": ("graph",), "w": ("graph",), "loc": ("mean",),
    "lengthscale": ("length",), "ell": ("length",), "variance_scale": ("sd",), "size": ("n",),
    "trials": ("n",), "covariance": ("cov", "kernel"), "cov": ("kernel",), "sigma_cov": ("cov",),
    "x": ("at",), "locations": ("at",), "inputs": ("at",), "thresholds": ("cuts",),
    "cutpoints": ("cuts",), "dispersion": ("size", "shape"), "alpha": ("shape", "size", "a"),
    "b": ("scale",), "beta": ("scale", "rate", "b"), "nu_": ("smoothness",),
    "censored": ("event",), "cens": ("event",), "status": ("event",), "delta": ("event",),
    "failed": ("event",), "left": ("lower",), "right": ("upper",), "weights": ("weight",),
    "wt": ("weight",), "zi": ("zero_inflation",), "ziformula": ("zero_inflation",),
    "hu": ("hurdle",), "trunc": ("truncated",), "truncation": ("entry", "truncated"),
    "start": ("entry",), "tstart": ("entry",),
}  # fmt: skip

# Types of data and of hypers.
TYPES = {
    **dict.fromkeys(["int", "int32", "int64", "whole"], "integer"),
    **dict.fromkeys(["float", "double", "numeric", "number", "continuous", "float64"], "real"),
    **dict.fromkeys(["bool", "boolean", "logical"], "binary"),
    **dict.fromkeys(["corr"], "correlation"),
    **dict.fromkeys(["cov"], "covariance"),
    **dict.fromkeys(["probability", "prob", "proportion", "fraction"], "unit"),
}

# Types whose place an index takes.
FACTORS = frozenset(["factor", "category", "categorical", "string", "str", "character", "text"])

# Functions: what takes their place here.
_INVERSE_LOGIT = "the inverse of the logit is `invlogit`, in a report"
_NORMAL_CDF = "the distribution function of the normal is `normal_cdf`, in a report"
_PRODUCT = "a product over the shared index is written `@`, as in X @ b"
FUNCTIONS = {
    **dict.fromkeys(["inv_logit", "expit", "sigmoid", "plogis", "ilogit"], _INVERSE_LOGIT),
    **dict.fromkeys(["phi", "pnorm"], _NORMAL_CDF),
    **dict.fromkeys(["dot", "matmul", "mul", "inner"], _PRODUCT),
    **dict.fromkeys(
        ["factor", "as_factor", "c"],
        "a factor is a datum whose type is an index, data who[obs] : subject; "
        "its effects are a latent over it, u[who]",
    ),
    "offset": "an offset is a term like any other: leave `offset` out",
    "t": "the algebra is by the names of indices: nothing is transposed",
    "ln": "the natural logarithm is `log`",
    **dict.fromkeys(["pow", "power"], "a power is written with `^`, as in s^2"),
    "f": "a random effect is a latent over an index, gathered by a map: u[who]",
    **dict.fromkeys(
        ["s", "smooth", "te"],
        "a smooth term is a latent: latent f[day] ~ rw2(sd = 1), then f[when]",
    ),
}

# Functions that undo a link, by the link.
INVERSES = {
    "log": frozenset(["exp"]),
    "logit": frozenset(["invlogit", "inv_logit", "expit", "sigmoid", "plogis", "ilogit"]),
    "probit": frozenset(["normal_cdf", "phi", "pnorm"]),
}
