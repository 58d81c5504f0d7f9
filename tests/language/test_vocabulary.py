"""Signatures: complete, consistent, found by name, and open to third parties."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lgmdsl.errors import ModelError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.language.check.check import check
from lgmdsl.language.parse.parse import parse
from lgmdsl.vocabulary.lookup import (
    CATEGORIES,
    DATA_TYPES,
    HYPER_TYPES,
    elsewhere,
    kin,
    lookup,
    names,
    observing,
    register,
    signatures,
    suited,
    summary,
    unregister,
)
from lgmdsl.vocabulary.signature import Parameter, Signature

EVERY = [s for c in CATEGORIES for s in signatures(c)]

# LANGUAGE.md, "Names in the language": name and arguments.
STRUCTURES = {
    "normal": "mean sd", "iid": "", "flat": "", "dense": "cov", "gmrf": "precision sd",
    "rw1": "sd cyclic at sum_to_zero", "rw2": "sd cyclic at sum_to_zero", "seasonal": "sd period",
    "ar1": "sd rho", "ar": "sd pacf", "ou": "sd rate at", "besag": "graph sd",
    "car": "graph sd alpha", "bym2": "graph sd mix", "gp": "at kernel",
    "spde": "mass stiffness sd range",
}  # fmt: skip
KERNELS = {
    "se": "sd length", "matern": "sd length smoothness", "rq": "sd length alpha",
    "periodic": "sd length period", "linear": "sd", "white": "sd",
}  # fmt: skip
FAMILIES = {
    "normal": "mean sd log_sd", "student_t": "mean scale log_scale df", "laplace": "mean scale",
    "lognormal": "mean sd log_sd", "gamma": "log_mean shape log_shape",
    "beta": "logit_mean concentration log_concentration",
    "exponential": "log_rate", "weibull": "log_scale shape log_shape",
    "bernoulli": "logit probit cloglog", "binomial": "n logit probit cloglog",
    "poisson": "log_rate exposure", "negbinomial": "log_mean size log_size exposure",
    "negbinomial1": "log_mean dispersion log_dispersion exposure",
    "betabinomial": "n logit probit cloglog concentration log_concentration",
    "generalized_poisson": "log_mean dispersion exposure",
    "com_poisson": "log_mean dispersion exposure", "tweedie": "log_mean dispersion power",
    "dirichlet": "softmax concentration",
    "dirichlet_multinomial": "n softmax concentration",
    "ordinal": "logit probit cuts scores model", "categorical": "softmax stick probit available",
    "multinomial": "n softmax", "admixture": "softmax emission",
    "inverse_gaussian": "log_mean shape", "loglogistic": "log_scale shape",
    "gompertz": "log_rate shape", "generalized_gamma": "location scale shape",
    "generalized_pareto": "log_scale shape", "piecewise_exponential": "log_hazard breaks entry",
    "skew_normal": "mean sd skew", "gev": "location scale shape",
    "asymmetric_laplace": "quantile scale level", "logistic": "mean scale",
}  # fmt: skip
POTENTIALS = {
    "normal": "sd", "laplace": "scale", "student_t": "scale df", "sech2": "scale",
    "exp_power": "scale power", "logistic": "scale", "asymmetric_laplace": "scale level",
}  # fmt: skip
PRIORS = {
    "pc_sd": "u alpha", "pc_cor0": "u alpha", "pc_cor1": "u alpha", "pc_mix": "graph u alpha",
    "pc_range": "u alpha", "pc_df": "u alpha", "exponential": "rate", "half_normal": "sd",
    "half_cauchy": "scale", "half_student_t": "scale df", "student_t": "location scale df",
    "cauchy": "location scale", "logistic": "location scale", "normal": "mean sd",
    "lognormal": "mean sd", "gamma": "shape rate",
    "inv_gamma": "shape scale", "beta": "a b", "uniform": "lower upper", "lkj_cov": "eta u alpha",
    "inv_wishart": "df scale", "dirichlet": "alpha", "graphical_lasso": "rate", "flat": "",
}  # fmt: skip
OPERATORS = {
    "sum": "expr index", "diff": "expr index order boundary", "conv2": "expr psf boundary",
    "wavelet": "expr filter levels", "fft": "expr", "mask": "expr keep", "cumsum": "expr index",
}  # fmt: skip
FUNCTIONS = {"log", "exp", "sqrt", "invlogit", "normal_cdf", "softmax"}
CENSORED = {
    "normal", "student_t", "laplace", "lognormal", "gamma", "exponential", "weibull",
    "inverse_gaussian", "loglogistic", "gompertz", "generalized_gamma", "generalized_pareto",
}  # fmt: skip


@pytest.mark.parametrize(
    ("category", "table", "extra"),
    [
        ("structure", STRUCTURES, ()),
        ("kernel", KERNELS, ()),
        ("family", FAMILIES, ("event", "lower", "upper")),
        ("potential", POTENTIALS, ("group",)),
        ("prior", PRIORS, ()),
        ("operator", OPERATORS, ()),
    ],
)
def test_names_and_arguments_are_those_of_the_language(
    category: Any, table: Any, extra: Any
) -> None:
    assert set(names(category)) == set(table)
    for name, arguments in table.items():
        signature = lookup(category, name)
        assert signature is not None
        own = [p.name for p in signature.parameters if p.name not in extra]
        assert own == arguments.split(), name


def test_functions() -> None:
    assert set(names("function")) == FUNCTIONS


def test_censoring_is_on_the_positive_and_real_families() -> None:
    with_event = {s.name for s in signatures("family") if s.parameter("lower")}
    assert with_event == CENSORED
    for name in CENSORED:
        signature = lookup("family", name)
        assert signature is not None
        assert all(not signature.parameter(p).required for p in ("event", "lower", "upper"))


def test_every_name_of_the_manual_is_known(shared: Path) -> None:
    text = (shared / "LANGUAGE.md").read_text(encoding="utf-8")
    section = text.partition("## Names in the language")[2].partition("- **rewrites**")[0]
    known = {s.name for s in EVERY}
    for code in re.findall(r"`([^`]*)`", section):
        for name in re.findall(r"(?:^|  | )([a-z][a-z0-9_]*)(?=\()", code):
            assert name in known, name


@pytest.mark.parametrize("signature", EVERY, ids=lambda s: f"{s.category}-{s.name}")
def test_signatures_are_consistent(signature: Signature) -> None:
    own = [p.name for p in signature.parameters]
    assert len(set(own)) == len(own)
    assert signature.summary
    assert set(signature.carries_scale) <= set(own)
    for p in signature.parameters:
        assert not (p.required and p.default is not None), p.name
        if p.choices and p.default is not None:
            assert p.default in p.choices
        if p.one_of:
            assert sum(q.one_of == p.one_of for q in signature.parameters) > 1
    if signature.category == "family":
        assert any(p.type == "latent" for p in signature.parameters)
        assert set(signature.observed) <= {*DATA_TYPES, "index"}
    if signature.category == "prior":
        assert signature.observed and set(signature.observed) <= set(HYPER_TYPES)


def test_show() -> None:
    poisson, bernoulli, iid = (
        lookup("family", "poisson"),
        lookup("family", "bernoulli"),
        lookup("structure", "iid"),
    )
    assert poisson and poisson.show() == "poisson(log_rate: latent, exposure: positive = 1)"
    assert bernoulli
    assert bernoulli.show() == "bernoulli(logit: latent | probit: latent | cloglog: latent)"
    assert iid and iid.show() == "iid"
    rw1 = lookup("structure", "rw1")
    assert rw1 and rw1.show() == (
        "rw1(sd: positive, cyclic: bool = false, [at: real], sum_to_zero: bool = true)"
    )


def test_form_is_chosen_by_the_arguments_given() -> None:
    normal = lookup("family", "normal")
    assert normal
    assert normal.form(frozenset(("mean", "sd"))) is normal
    volatility = normal.form(frozenset(("mean", "log_var")))
    assert volatility.parameter("log_var") and not volatility.parameter("sd")
    assert volatility.parameter("mean").type == "real"
    assert normal.form(frozenset()) is normal


def test_lines_for_messages() -> None:
    assert kin("structure", "rw2") == "Structures over one ordered axis: rw1 rw2 seasonal ar1 ar ou"
    assert kin("structure", "besag") == "Structures over a graph: besag car bym2"
    assert kin("structure", "nothing").startswith("Structures: normal iid")
    assert kin("prior", "pc_cor0").startswith("Hyperpriors for `correlation`: pc_cor0 pc_cor1")
    assert summary("family").startswith("Observation families: normal")
    assert suited("simplex") == ("dirichlet", "flat")
    assert observing("binary") == ("bernoulli",)
    assert observing("index") == ("ordinal", "categorical")
    assert observing("real")[0] == "normal"
    assert elsewhere("structure", "poisson") == "family"
    assert elsewhere("structure", "nothing") is None


def test_a_registered_family_and_structure_can_be_used_in_a_model() -> None:
    gumbel = Signature(
        "gumbel",
        "family",
        (Parameter("location", "latent"), Parameter("scale", "positive")),
        observed=("real",),
        summary="Gumbel",
    )
    spline = Signature(
        "spline",
        "structure",
        (Parameter("sd", "positive", over="none"),),
        ordered_axis=True,
        carries_scale=("sd",),
        summary="a spline",
    )
    text = """lgm 1
index t
data y[t] : real
latent f[t] ~ spline(sd = 1)
observe y ~ gumbel(location = f, scale = 1)
"""
    with pytest.raises(ModelError) as refused:
        check(parse(text))
    assert refused.value.codes == ("E103", "E103")
    try:
        register(gumbel)
        register(gumbel)
        register(spline)
        assert warnings_of(model_graph(check(parse(text)))) == ()
        assert "spline" in kin("structure", "rw1")
        with pytest.raises(ModelError) as twice:
            register(Signature("gumbel", "family", summary="another"))
        assert twice.value.codes == ("E106",)
    finally:
        unregister("family", "gumbel")
        unregister("structure", "spline")
    assert lookup("family", "gumbel") is None
    unregister("family", "gumbel")
