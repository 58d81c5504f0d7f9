"""Hyperpriors of the language for numpyro, from their definitions (Simpson et al. 2017; Riebler et
al. 2016; Sorbye and Rue 2017), apart from lgmdsl's own."""

from __future__ import annotations

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
    """P(mix < u) = alpha for bym2, from the eigenvalues of the scaled besag covariance: the
    distance is sqrt(2 KLD) from mix = 0, KLD = sum of (mix (g - 1) - log(1 + mix (g - 1))) / 2."""
    excess = np.asarray(variances) - 1.0

    def distance(mix, module):
        terms = mix * excess - module.log1p(mix * excess)
        return module.sqrt(module.sum(terms))

    rate = -np.log1p(-alpha) / distance(u, np)
    mix = numpyro.sample(name, dist.Uniform(0.0, 1.0))
    from_zero = distance(mix, jnp)
    slope = 0.5 * jnp.sum(excess**2 * mix / (1.0 + mix * excess)) / from_zero
    numpyro.factor(f"{name}_prior", -rate * from_zero + jnp.log(slope))
    return mix
