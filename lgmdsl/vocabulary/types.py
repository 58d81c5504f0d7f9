"""The types that data and hyperparameters are declared with."""

from __future__ import annotations

from typing import NamedTuple

from lgmdsl.vocabulary.examples import SD, model, regression, slopes, smooth
from lgmdsl.vocabulary.notes import Notes


class VariableType(NamedTuple):
    """A word after `:`; `data` and `hyper` say what may be declared with it."""

    name: str
    summary: str
    notes: Notes
    data: bool = False
    hyper: bool = False


_MISSING = "`?` after it (real?) allows missing entries of data: NaN, NA, masked, an empty string"


def _type(
    name: str,
    summary: str,
    values: str,
    support: str,
    advice: str,
    example: str,
    *see_also: str,
    data: bool = False,
    hyper: bool = False,
) -> VariableType:
    notes = Notes(
        formula=values, support=support, advice=advice, example=example, see_also=see_also
    )
    return VariableType(name, summary, notes, data, hyper)


_DATA, _HYPER, _BOTH = "data", "hypers", "data and hypers"

TYPES: tuple[VariableType, ...] = (
    _type(
        "real", "any number", "-inf < x < inf", _BOTH,
        "for covariates and continuous responses; " + _MISSING,
        regression("normal(mean = eta, sd = 1)", y="real?"),
        "positive", "unit", "normal", "data", data=True, hyper=True,
    ),
    _type(
        "positive", "a number above 0", "x > 0", _BOTH,
        "for lifetimes, exposures, scales and standard deviations; 0 is refused (E303)",
        regression("gamma(log_mean = eta, shape = 2)", y="positive"),
        "real", "unit", "gamma", "pc_sd", data=True, hyper=True,
    ),
    _type(
        "nonnegative", "a number from 0", "x >= 0", _DATA,
        "for responses that are 0 in some rows and continuous in the others, and for weights; "
        "negative numbers are refused (E303)",
        regression("gamma(log_mean = eta, shape = 2, hurdle = p)",
                   "hyper p : unit ~ beta(a = 1, b = 1)", y="nonnegative"),
        "positive", "count", "weights", "zero-inflation", data=True,
    ),
    _type(
        "unit", "a number from 0 to 1", "0 <= x <= 1; a beta response 0 < x < 1", _BOTH,
        "for proportions, probabilities and shares",
        regression("beta(logit_mean = eta, concentration = 5)", y="unit"),
        "positive", "correlation", "beta", data=True, hyper=True,
    ),
    _type(
        "count", "a whole number from 0", "0, 1, 2, ...", _DATA,
        "for numbers of events and of trials; numbers that are not whole are refused (E303)",
        regression("poisson(log_rate = eta)", y="count"),
        "integer", "poisson", "binomial", data=True,
    ),
    _type(
        "integer", "a whole number, negative ones among them", "..., -1, 0, 1, ...", _DATA,
        "for covariates that are whole, such as years; a map into an index has the index's name as "
        "its type",
        regression("normal(mean = eta + 0.1 * year, sd = 1)", "data year[obs] : integer"),
        "count", "real", "indices", data=True,
    ),
    _type(
        "binary", "0 or 1", "0, 1; true and false count as 1 and 0", _DATA,
        "for responses of two classes, events and masks; codes 1 and 2 are refused (E303): y - 1",
        regression("bernoulli(logit = eta)", y="binary"),
        "bernoulli", "count", "mask", data=True,
    ),
    _type(
        "graph", "pairs of neighbours among the members of an index",
        "an adjacency matrix (n, n), dense or sparse, or (E, 2) pairs of labels; symmetric", _DATA,
        "written over the index twice: data edges[region, region] : graph; loops are dropped "
        "(W303)",
        smooth("besag(graph = edges, sd = s)", "data edges[region, region] : graph", SD,
               axis="region"),
        "besag", "bym2", "car", "pc_mix", data=True,
    ),
    _type(
        "correlation", "a correlation", "-1 < x < 1", _HYPER,
        "for ar1 and for partial autocorrelations",
        smooth("ar1(sd = s, rho = r)", SD,
               "hyper r : correlation ~ pc_cor1(u = 0.5, alpha = 0.75)"),
        "ar1", "ar", "pc_cor0", "pc_cor1", hyper=True,
    ),
    _type(
        "covariance", "a covariance matrix over an index written twice",
        "symmetric, positive definite", _HYPER,
        "for correlated effects: hyper S[term, term] : covariance, then dense(cov = S)",
        slopes("lkj_cov(eta = 2, u = 2, alpha = 0.05)"),
        "dense", "lkj_cov", "inv_wishart", "graphical_lasso", hyper=True,
    ),
    _type(
        "simplex", "probabilities that add up to 1 over the last index",
        "p_k >= 0, sum_k p_k = 1", _HYPER,
        "for the words of topics",
        model(
            "index letter", "index word", "index topic = 2", "data n[letter, word] : count",
            "hyper beta[topic, word] : simplex ~ dirichlet(alpha = 1.1)",
            "latent z[letter, topic] ~ normal(sd = 1)",
            "observe n ~ admixture(softmax = z, emission = beta)",
        ),
        "dirichlet", "admixture", "unit", hyper=True,
    ),
    _type(
        "ordered", "numbers that increase along the last index", "x_1 < x_2 < ...", _HYPER,
        "for the cuts of ordinal responses, over `head` of the classes",
        model(
            "index obs", 'index score = {"poor", "fair", "good"}', "index cut = head(score)",
            "data x[obs] : real", "data y[obs] : score",
            "hyper c[cut] : ordered ~ normal(sd = 3)", "latent b ~ normal(sd = 2)",
            "observe y ~ ordinal(logit = b * x, cuts = c)",
        ),
        "ordinal", "head", "normal", hyper=True,
    ),
)  # fmt: skip

DATA_TYPES = tuple(t.name for t in TYPES if t.data)
HYPER_TYPES = tuple(t.name for t in TYPES if t.hyper)
