"""Priors of a standard deviation that say the same of values above 1."""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

sd = np.linspace(1e-3, 2.5, 500)
fig, ax = plt.subplots()
ax.plot(sd, stats.expon.pdf(sd, scale=1.0 / -np.log(0.05)), label="pc_sd(u = 1, alpha = 0.05)")
ax.plot(
    sd, stats.halfnorm.pdf(sd, scale=1.0 / stats.halfnorm.isf(0.05)), label="half_normal(sd = 0.51)"
)
ax.plot(
    sd,
    stats.halfcauchy.pdf(sd, scale=1.0 / stats.halfcauchy.isf(0.05)),
    label="half_cauchy(scale = 0.079)",
)
variance = sd**2
ax.plot(
    sd,
    stats.invgamma.pdf(variance, 1.0, scale=5e-5) * 2.0 * sd,
    label="sqrt of inv_gamma(shape = 1, scale = 5e-5)",
)
ax.set(xlabel="standard deviation", ylabel="density", ylim=(0.0, 8.0))
ax.legend(frameon=False, fontsize=8)
