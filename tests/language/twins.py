"""The fifteen example models, built in Python."""

from __future__ import annotations

from collections.abc import Callable

import lgmdsl as w
from lgmdsl.language.builder import Model
from lgmdsl.language.expressions import Expression

TWINS: dict[str, Callable[[], Model]] = {}


def _twin(name: str) -> Callable[[Callable[[], Model]], Callable[[], Model]]:
    def keep(make: Callable[[], Model]) -> Callable[[], Model]:
        TWINS[name] = make
        return make

    return keep


def _indices(m: Model, names: str) -> list[Expression]:
    return [m.index(name) for name in names.split()]


@_twin("01_logistic")
def logistic() -> Model:
    m = Model()
    obs, feat = _indices(m, "obs feat")
    X = m.data("X", [obs, feat], "real")
    y = m.data("y", [obs], "binary")
    s = m.hyper("s", "positive", 2.5)
    b0 = m.latent("b0", [], w.normal(sd=10))
    b = m.latent("w", [feat], w.normal(sd=s))
    eta = m.let("eta", [obs], b0 + X @ b)
    m.observe(y, w.bernoulli(logit=eta))
    return m


@_twin("01b_logistic_laplace")
def logistic_laplace() -> Model:
    m = Model()
    obs, feat = _indices(m, "obs feat")
    X = m.data("X", [obs, feat], "real")
    y = m.data("y", obs, "binary")
    tau = m.hyper("tau", "positive", w.exponential(rate=1), doc="scale of the Laplace prior")
    b0 = m.latent("b0", [], w.normal(sd=10))
    b = m.latent("w", [feat], w.flat)
    eta = m.let("eta", [obs], b0 + X @ b)
    m.observe(y, w.bernoulli(logit=eta))
    m.potential(b, w.laplace(scale=tau))
    return m


@_twin("02_gp_classification")
def gp_classification() -> Model:
    m = Model()
    obs, dim = _indices(m, "obs dim")
    x = m.data("x", [obs, dim], "real")
    y = m.data("y", [obs], "binary")
    s = m.hyper("s", "positive", w.pc_sd(u=3, alpha=0.05))
    ell = m.hyper("ell", "positive", w.inv_gamma(shape=5, scale=5), dims=[dim])
    b0 = m.latent("b0", [], w.normal(sd=3))
    f = m.latent("f", [obs], w.gp(at=x, kernel=w.se(sd=s, length=ell)))
    eta = m.let("eta", [obs], b0 + f)
    m.observe(y, w.bernoulli(probit=eta))
    m.report("p", [obs], w.normal_cdf(eta))
    return m


@_twin("03_poisson_glmm")
def poisson_glmm() -> Model:
    m = Model()
    obs, subject, feat = _indices(m, "obs subject feat")
    y = m.data("y", [obs], "count")
    X = m.data("X", [obs, feat], "real")
    who = m.data("who", [obs], subject)
    time = m.data("time", [obs], "positive", doc="exposure, days")
    s = m.hyper("s", "positive", w.pc_sd(u=1, alpha=0.01), doc="between-subject sd")
    b0 = m.latent("b0", [], w.normal(sd=10))
    b = m.latent("b", [feat], w.normal(sd=2.5))
    u = m.latent("u", [subject], w.normal(sd=s))
    eta = m.let("eta", [obs], b0 + X @ b + u[who])
    m.observe(y, w.poisson(log_rate=eta, exposure=time))
    return m


@_twin("03b_random_slopes")
def random_slopes() -> Model:
    m = Model()
    obs, subject = _indices(m, "obs subject")
    term = m.index("term", ["intercept", "slope"])
    y = m.data("y", [obs], "count")
    x = m.data("x", [obs], "real")
    who = m.data("who", [obs], subject)
    prior = w.lkj_cov(eta=2, u=1, alpha=0.05)
    S = m.hyper("S", "covariance", prior, dims=[term, term])
    b = m.latent("b", [term], w.normal(sd=5))
    d = m.latent("d", [subject, term], w.iid * w.dense(cov=S))
    eta = m.let(
        "eta",
        [obs],
        b["intercept"] + x * b["slope"] + d[who, "intercept"] + x * d[who, "slope"],
    )
    m.observe(y, w.poisson(log_rate=eta))
    return m


@_twin("04_tokyo")
def tokyo() -> Model:
    m = Model()
    day = m.index("day", range(1, 367))
    y = m.data("y", [day], "count")
    n = m.data("n", [day], "count")
    s = m.hyper("s", "positive", w.pc_sd(u=1, alpha=0.01))
    b0 = m.latent("b0", [], w.normal(sd=10))
    f = m.latent("f", [day], w.rw2(sd=s, cyclic=True))
    eta = m.let("eta", [day], b0 + f)
    m.observe(y, w.binomial(n=n, logit=eta))
    m.report("p", [day], w.invlogit(eta), doc="probability of rain")
    return m


@_twin("05_bym2")
def bym2() -> Model:
    m = Model()
    region, feat = _indices(m, "region feat")
    y = m.data("y", [region], "count")
    E = m.data("E", [region], "positive", doc="expected count")
    X = m.data("X", [region, feat], "real")
    adj = m.data("adj", [region, region], "graph")
    s = m.hyper("s", "positive", w.pc_sd(u=1, alpha=0.01))
    mix = m.hyper("mix", "unit", w.pc_mix(graph=adj, u=0.5, alpha=w.const(2) / 3))
    b0 = m.latent("b0", [], w.normal(sd=10))
    b = m.latent("b", [feat], w.normal(sd=2.5))
    v = m.latent("v", [region], w.bym2(graph=adj, sd=s, mix=mix))
    eta = m.let("eta", [region], b0 + X @ b + v)
    m.observe(y, w.poisson(log_rate=eta, exposure=E))
    m.report("rr", [region], w.exp(eta), doc="relative risk")
    return m


@_twin("05b_space_time")
def space_time() -> Model:
    m = Model()
    region, year, obs = _indices(m, "region year obs")
    y = m.data("y", [obs], "count")
    E = m.data("E", [obs], "positive")
    where = m.data("where", [obs], region)
    when = m.data("when", [obs], year)
    adj = m.data("adj", [region, region], "graph")
    s = m.hyper("s", "positive", w.pc_sd(u=1, alpha=0.01))
    rho = m.hyper("rho", "correlation", w.pc_cor1(u=0.7, alpha=0.7))
    b0 = m.latent("b0", [], w.normal(sd=10))
    st = m.latent("st", [region, year], w.besag(graph=adj, sd=s) * w.ar1(rho=rho))
    eta = m.let("eta", [obs], b0 + st[where, when])
    m.observe(y, w.poisson(log_rate=eta, exposure=E))
    return m


@_twin("06_stochvol")
def stochvol() -> Model:
    m = Model()
    t = m.index("t")
    r = m.data("r", [t], "real?", doc="log return, per cent")
    s = m.hyper("s", "positive", w.pc_sd(u=1, alpha=0.05))
    phi = m.hyper("phi", "correlation", w.pc_cor1(u=0.9, alpha=0.9))
    mu = m.latent("mu", [], w.normal(sd=5))
    h = m.latent("h", [t], w.ar1(sd=s, rho=phi))
    lv = m.let("lv", [t], mu + h)
    m.observe(r, w.normal(mean=0, log_var=lv))
    m.report("vol", [t], w.exp(0.5 * lv), doc="volatility")
    return m


@_twin("07_binary_fa")
def binary_fa() -> Model:
    m = Model()
    person, item = _indices(m, "person item")
    factor = m.index("factor", 3)
    y = m.data("y", [person, item], "binary", missing=True)
    c = m.hyper("c", "real", w.normal(sd=3), dims=[item])
    L = m.hyper("L", "real", w.normal(sd=1), dims=[item, factor])
    z = m.latent("z", [person, factor], w.normal(sd=1))
    eta = m.let("eta", [person, item], c + L @ z)
    m.observe(y, w.bernoulli(logit=eta))
    return m


@_twin("08_stick_breaking")
def stick_breaking() -> Model:
    m = Model()
    obs, feat = _indices(m, "obs feat")
    way = m.index("class", ("walk", "bike", "bus", "car"))
    cut = m.index("cut", w.head(way))
    X = m.data("X", [obs, feat], "real")
    y = m.data("y", [obs], way)
    b0 = m.latent("b0", [cut], w.normal(sd=5))
    B = m.latent("B", [cut, feat], w.normal(sd=2.5))
    eta = m.let("eta", [obs, cut], b0 + X @ B)
    m.observe(y, w.categorical(stick=eta))
    return m


@_twin("09_mixed_fa")
def mixed_fa() -> Model:
    m = Model()
    person = m.index("person")
    factor = m.index("factor", 2)
    lab, symptom, visit, region = _indices(m, "lab symptom visit region")
    cut = m.index("region_cut", w.head(region))
    a = m.data("a", [person, lab], "real?")
    b = m.data("b", [person, symptom], "binary?")
    k = m.data("k", [person, visit], "count?")
    g = m.data("g", [person], region, missing=True)
    sd_a = m.hyper("sd_a", "positive", w.pc_sd(u=2, alpha=0.05), dims=[lab])
    ca = m.hyper("ca", "real", w.normal(sd=5), dims=[lab])
    cb, ck, cg = (
        m.hyper(name, "real", w.normal(sd=3), dims=[over])
        for name, over in (("cb", symptom), ("ck", visit), ("cg", cut))
    )
    La, Lb, Lk, Lg = (
        m.hyper(name, "real", w.normal(sd=1), dims=[over, factor])
        for name, over in (("La", lab), ("Lb", symptom), ("Lk", visit), ("Lg", cut))
    )
    z = m.latent("z", [person, factor], w.normal(sd=1))
    ea = m.let("ea", [person, lab], ca + La @ z)
    eb = m.let("eb", [person, symptom], cb + Lb @ z)
    ek = m.let("ek", [person, visit], ck + Lk @ z)
    eg = m.let("eg", [person, cut], cg + Lg @ z)
    m.observe(a, w.normal(mean=ea, sd=sd_a))
    m.observe(b, w.bernoulli(logit=eb))
    m.observe(k, w.poisson(log_rate=ek))
    m.observe(g, w.categorical(stick=eg))
    return m


@_twin("10_deblur")
def deblur() -> Model:
    m = Model()
    row, col, krow, kcol = _indices(m, "row col krow kcol")
    y = m.data("y", [row, col], "real", doc="blurred image")
    psf = m.data("psf", [krow, kcol], "positive")
    noise = m.hyper("noise", "positive", 0.003)
    tv = m.hyper("tv", "positive", w.const(1) / 15)
    wav = m.hyper("wav", "positive", w.const(1) / 20)
    u = m.latent("u", [row, col], w.flat())
    blurred = m.let("blurred", [row, col], w.conv2(u, psf, boundary="circular"))
    m.observe(y, w.normal(mean=blurred, sd=noise))
    m.potential(w.diff(u, row, boundary="circular"), w.laplace(scale=tv))
    m.potential(w.diff(u, col, boundary="circular"), w.laplace(scale=tv))
    m.potential(w.wavelet(u, filter="haar"), w.laplace(scale=wav))
    return m


@_twin("11_ctm")
def ctm() -> Model:
    m = Model()
    doc, vocabulary = _indices(m, "doc word")
    topic = m.index("topic", 20)
    n = m.data("n", [doc, vocabulary], "count")
    mu = m.hyper("mu", "real", w.normal(sd=2), dims=[topic])
    prior = w.lkj_cov(eta=1, u=2, alpha=0.05)
    S = m.hyper("S", "covariance", prior, dims=[topic, topic])
    beta = m.hyper("beta", "simplex", w.dirichlet(alpha=1.1), dims=[topic, vocabulary])
    z = m.latent("z", [doc, topic], w.iid * w.dense(cov=S))
    eta = m.let("eta", [doc, topic], mu + z)
    m.observe(n, w.admixture(softmax=eta, emission=beta))
    return m


@_twin("12_discrete_choice")
def discrete_choice() -> Model:
    m = Model()
    trial, person, attr = _indices(m, "trial person attr")
    alt = m.index("alt", ["bus", "car", "train"])
    X = m.data("X", [trial, alt, attr], "real")
    who = m.data("who", [trial], person)
    avail = m.data("avail", [trial, alt], "binary")
    y = m.data("y", [trial], alt)
    prior = w.lkj_cov(eta=2, u=2, alpha=0.05)
    S = m.hyper("S", "covariance", prior, dims=[attr, attr])
    asc = m.latent("asc", [alt], w.normal(sd=3))
    b = m.latent("b", [attr], w.normal(sd=5))
    d = m.latent("d", [person, attr], w.iid * w.dense(cov=S))
    util = m.let("util", [trial, alt], asc + X @ b + w.sum(X * d[who, attr], attr))
    m.observe(y, w.categorical(softmax=util, available=avail))
    m.constrain(asc["bus"], 0)
    m.report("gap", [], b["time"] - b["cost"])
    return m
