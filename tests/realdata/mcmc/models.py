"""The models of `../models` for numpyro. Quantities have the names of the model files;
parametrisations are chosen for the sampler."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from . import priors as p
from . import structures as st


def keep(name, value):
    return numpyro.deterministic(name, value)


def effects(name, sd, size, centred):
    """Independent effects, centred where the data say much of each."""
    if centred:
        return numpyro.sample(name, dist.Normal(0.0, sd).expand([size]).to_event(1))
    e = numpyro.sample(f"{name}_e", dist.Normal(0.0, 1.0).expand([size]).to_event(1))
    return keep(name, sd * e)


def spread(name, root, sd):
    """sd B e: an intrinsic structure."""
    columns = root.shape[1]
    e = numpyro.sample(f"{name}_e", dist.Normal(0.0, 1.0).expand([columns]).to_event(1))
    return keep(name, sd * (root @ e))


def number(codes):
    """0-based codes and their number."""
    values, index = np.unique(codes, return_inverse=True)
    return index, len(values)


def _epil_slopes(d, names):
    sd = np.sqrt(1000.0)
    b0 = p.flat("b0")
    base, trt, age = d["base"], d["trt"], d["age"]
    columns = (base, trt, base * trt, age, d[names[-1]])
    named = ("base", "trt", "base_trt", "age", names[-1])
    return b0 + sum(p.normal(f"b_{n}", sd) * x for n, x in zip(named, columns, strict=True))


def epil_51(d):
    who, patients = number(d["who"])
    sigma = keep("sigma1", jnp.sqrt(p.inv_gamma("v1", 2.0, 1.140)))
    u = effects("u", sigma, patients, centred=True)
    eta = _epil_slopes(d, ("v4",)) + u[who]
    numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=d["y"])


def epil_52(d):
    who, patients = number(d["who"])
    sigma0 = keep("sigma0", jnp.sqrt(p.inv_gamma("v0", 2.0, 1.140)))
    sigma1 = keep("sigma1", jnp.sqrt(p.inv_gamma("v1", 2.0, 1.140)))
    u = effects("u", sigma1, patients, centred=True)
    e = effects("e", sigma0, len(who), centred=False)
    eta = _epil_slopes(d, ("v4",)) + u[who] + e
    numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=d["y"])


def epil_53(d):
    who, patients = number(d["who"])
    root = numpyro.sample("Q_root", dist.WishartCholesky(5.0, scale_matrix=np.linalg.inv(d["R"])))
    S = keep("S", jnp.linalg.inv(root @ root.T))
    mixed = dist.MultivariateNormal(jnp.zeros(2), covariance_matrix=S)
    e = numpyro.sample("d", mixed.expand([patients]).to_event(1))
    eta = _epil_slopes(d, ("v",)) + e[who, 0] + d["v"] * e[who, 1]
    numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=d["y"])


def seeds(d, both):
    sigma = keep("sigma", jnp.sqrt(p.inv_gamma("v", 0.5, 0.0164)))
    sd = np.sqrt(1000.0)
    eta = p.flat("b0") + p.normal("b_seed", sd) * d["x1"] + p.normal("b_extract", sd) * d["x2"]
    if both:
        eta = eta + p.normal("b_both", sd) * d["x1"] * d["x2"]
    eta = eta + effects("u", sigma, len(d["r"]), centred=False)
    numpyro.sample("r", dist.Binomial(d["n"], logits=eta), obs=d["r"])


def salamander(d):
    sigma_f = keep("sigma_f", jnp.sqrt(p.inv_gamma("v_f", 1.0, 0.622)))
    sigma_m = keep("sigma_m", jnp.sqrt(p.inv_gamma("v_m", 1.0, 0.622)))
    sd = np.sqrt(1000.0)
    eta = p.flat("b0") + p.normal("b_wsf", sd) * d["wsf"] + p.normal("b_wsm", sd) * d["wsm"]
    eta = eta + p.normal("b_both", sd) * d["wsf"] * d["wsm"]
    u = effects("u", sigma_f, 20, centred=False)
    w = effects("w", sigma_m, 20, centred=False)
    numpyro.sample("y", dist.Bernoulli(logits=eta + u[d["f"]] + w[d["m"]]), obs=d["y"])


def tokyo(d):
    root, _ = st.scaled_root(st.walk(len(d["y"]), 2, cyclic=True))
    s = p.pc_sd("s", 1.0, 0.01)
    eta = p.normal("b0", 10.0) + spread("f", root, s)
    numpyro.sample("y", dist.Binomial(d["n"], logits=eta), obs=d["y"])


def scotland(d):
    size = len(d["y"])
    root, variances = st.besag_root(d["edges"], size)
    s = p.pc_sd("s", 1.0, 0.01)
    _, root_mix, root_rest = p.pc_mix("mix", variances, 0.5, 2.0 / 3.0)
    alone = numpyro.sample("alone", dist.Normal(0.0, 1.0).expand([size]).to_event(1))
    together = numpyro.sample("together", dist.Normal(0, 1).expand([root.shape[1]]).to_event(1))
    v = keep("v", s * (root_rest * alone + root_mix * (root @ together)))
    eta = p.normal("b0", 10.0) + p.normal("b", 2.5) * d["x"] + v
    numpyro.sample("y", dist.Poisson(d["E"] * jnp.exp(eta)), obs=d["y"])


def pound_dollar(d):
    phi = p.pc_cor1("phi", 0.9, 0.9)
    # s, whose prior is pc_sd(1, 0.05), by the innovations' sd, of which the data say more
    log_step = p.flat("step_e")
    rate, stationary = -np.log(0.05), jnp.sqrt(1.0 - phi**2)
    s = keep("s", jnp.exp(log_step) / stationary)
    numpyro.factor("s_prior", -rate * s + jnp.log(s))
    mu = p.normal("mu", 5.0)
    size = len(d["r"])
    e = numpyro.sample("h_e", dist.Normal(0.0, 1.0).expand([size]).to_event(1))
    steps = s * jnp.where(jnp.arange(size) == 0, 1.0, jnp.sqrt(1.0 - phi**2)) * e
    factors = jnp.where(jnp.arange(size) == 0, 0.0, phi)

    def after(a, b):  # z -> f z + g, one after the other
        return a[0] * b[0], b[0] * a[1] + b[1]

    h = keep("h", jax.lax.associative_scan(after, (factors, steps))[1])
    numpyro.sample("r", dist.Normal(0.0, jnp.exp(0.5 * (mu + h))), obs=d["r"])


def coal(d):
    root, _ = st.scaled_root(st.walk(len(d["y"]), 1, cyclic=False))
    s = p.pc_sd("s", 1.0, 0.01)
    eta = p.normal("b0", 10.0) + spread("f", root, s)
    numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=d["y"])


def leukaemia(d, weibull):
    root, _ = st.besag_root(d["edges"], 24)
    s = p.pc_sd("s", 1.0, 0.01)
    eta = p.normal("b0", 10.0) + sum(
        p.normal(f"b_{n}", 2.5) * d[n] for n in ("age", "sex", "wbc", "tpi")
    )
    eta = eta + spread("v", root, s)[d["where"]]
    t = d["time"]
    if weibull:
        k = numpyro.sample("shape", dist.LogNormal(0.0, 1.0))
        rate = jnp.exp(k * (jnp.log(t) - eta))
        log_hazard = jnp.log(k) + (k - 1.0) * jnp.log(t) - k * eta
    else:
        rate, log_hazard = t * jnp.exp(eta), eta
    numpyro.factor("time", jnp.sum(d["died"] * log_hazard - rate))


def rats(d):
    who, animals = number(d["who"])
    noise = p.pc_sd("noise", 20.0, 0.05)
    rate = -np.log(0.05) / 30.0
    sds = numpyro.sample("sds", dist.Exponential(rate).expand([2]).to_event(1))
    root = sds[:, None] * numpyro.sample("corr_root", dist.LKJCholesky(2, 2.0))
    keep("S", root @ root.T)
    b = numpyro.sample("b", dist.Normal(0.0, 1000.0).expand([2]).to_event(1))
    own = dist.MultivariateNormal(b, scale_tril=root).expand([animals]).to_event(1)
    line = numpyro.sample("line", own)
    keep("d", line - b)
    mean = line[who, 0] + d["x"] * line[who, 1]
    numpyro.sample("y", dist.Normal(mean, noise), obs=d["y"])


def toenail(d):
    who, patients = number(d["who"])
    s = p.pc_sd("s", 5.0, 0.05)
    eta = p.normal("b0", 10.0) + p.normal("b_trt", 2.5) * d["trt"]
    eta = eta + p.normal("b_time", 2.5) * d["time"]
    eta = eta + p.normal("b_trt_time", 2.5) * d["trt"] * d["time"]
    u = effects("u", s, patients, centred=False)
    numpyro.sample("y", dist.Bernoulli(logits=eta + u[who]), obs=d["y"])


MODELS = {
    "epil_51": epil_51, "epil_52": epil_52, "epil_53": epil_53,
    "seeds_01": lambda d: seeds(d, both=False), "seeds_02": lambda d: seeds(d, both=True),
    "salamander_1": salamander, "salamander_2": salamander, "salamander_3": salamander,
    "tokyo": tokyo, "scotland": scotland, "scotland_connected": scotland,
    "pound_dollar": pound_dollar, "coal": coal, "rats": rats, "toenail": toenail,
    "leukaemia_weibull": lambda d: leukaemia(d, weibull=True),
    "leukaemia_exponential": lambda d: leukaemia(d, weibull=False),
}  # fmt: skip
