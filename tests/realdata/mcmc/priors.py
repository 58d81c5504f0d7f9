"""Hyperpriors of the language for numpyro, from their definitions (Simpson et al. 2017; Riebler et
al. 2016; Sorbye and Rue 2017), apart from lgmdsl's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy.optimize import brentq


def flat(name):
    return numpyro.sample(name, dist.ImproperUniform(dist.constraints.real, (), ()))


def normal(name, sd):
    return numpyro.sample(name, dist.Normal(0.0, sd))


def inv_gamma(name, shape, scale):
    """A variance whose precision is gamma(shape, rate = scale)."""
    return numpyro.sample(name, dist.InverseGamma(shape, scale))


def pc_sd(name, u, alpha):
    """Exponential with P(sd > u) = alpha."""
    return numpyro.sample(name, dist.Exponential(-np.log(alpha) / u))


def pc_cor1(name, u, alpha):
    """sqrt(1 - rho) exponential, cut off at sqrt(2), with P(rho > u) = alpha."""
    far = np.sqrt(2.0)

    def excess(rate):
        return np.expm1(-rate * np.sqrt(1.0 - u)) / np.expm1(-rate * far) - alpha

    rate = brentq(excess, 1e-6, 1e3)
    distance = numpyro.sample(f"{name}_distance", dist.Uniform(0.0, far))
    numpyro.factor(f"{name}_prior", -rate * distance)
    return numpyro.deterministic(name, 1.0 - distance**2)


def pc_mix(name, variances, u, alpha):
    """P(mix < u) = alpha for bym2, from the eigenvalues g of the scaled besag covariance: the
    distance is sqrt(2 KLD) from mix = 0, KLD = sum of (mix (g - 1) - log(1 + mix (g - 1))) / 2.

    P(logit(mix) > x) falls with exp(-rate sqrt(x)) only: on the map of Scotland 6 % of the prior is
    above 40, where 1 - mix rounds to 0. So r is sampled, logit(mix) = sinh(r)."""
    null = np.asarray(variances) < 1e-12
    g = np.asarray(variances)[~null]

    def distance(mix, log_rest, module):
        known = module.sum(mix * (g - 1.0) - module.log1p(mix * (g - 1.0)))
        return module.sqrt(known - null.sum() * (mix + log_rest))

    rate = -np.log1p(-alpha) / distance(u, np.log1p(-u), np)
    r = flat(f"{name}_e")
    x = numpyro.deterministic(f"logit {name}", jnp.sinh(r))
    mix, log_mix, log_rest = jax.nn.sigmoid(x), jax.nn.log_sigmoid(x), jax.nn.log_sigmoid(-x)
    off = np.asarray(variances) - 1.0
    small = jnp.clip(mix, 1e-100, 1e-4)
    near = small * jnp.sqrt(0.5 * (off**2).sum() - small * (off**3).sum() / 3.0)  # no cancellation
    apart = jnp.maximum(mix, 1e-4)
    far = distance(apart, jnp.minimum(log_rest, np.log1p(-1e-4)), jnp)
    from_zero = jnp.where(mix < 1e-4, near, far)
    # (1 - mix) dd/dmix: the rest of dmix/dx is mix
    share = jnp.exp(log_rest)
    slope = (
        0.5
        * jnp.maximum(mix, 1e-100)
        / from_zero
        * (null.sum() + jnp.sum((g - 1.0) ** 2 * share / (1.0 + mix * (g - 1.0))))
    )
    numpyro.factor(
        f"{name}_prior", -rate * from_zero + jnp.log(slope) + log_mix + jnp.log(jnp.cosh(r))
    )
    return numpyro.deterministic(name, mix), jnp.exp(0.5 * log_mix), jnp.exp(0.5 * log_rest)
