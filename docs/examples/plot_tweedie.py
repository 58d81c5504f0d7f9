"""
Rain and claims: Tweedie
========================

Amounts that are often exactly 0 and otherwise positive, such as daily rain, insurance claims or the
weight of a catch: sums of a random number of gamma amounts. One family has both the zeros and the
amounts, and its power says how the variance grows with the mean.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(5)
n, power, dispersion = 600, 1.6, 2.0
station = rng.integers(0, 15, n)
day = rng.uniform(0.0, 1.0, n)
s = 0.4 + 1.1 * np.sin(2 * np.pi * day) + rng.normal(0.0, 0.4, 15)[station]
rate = np.exp((2 - power) * s) / (dispersion * (2 - power))
showers = rng.poisson(rate)
scale = dispersion * (power - 1) * np.exp((power - 1) * s)
rain = rng.gamma(np.maximum(showers, 1e-9) * (2 - power) / (power - 1), scale) * (showers > 0)
data = {
    "rain": rain,
    "where": station,
    "up": np.sin(2 * np.pi * day),
    "across": np.cos(2 * np.pi * day),
}

model = lgm.loads("""
lgm 1
index obs
index station
data rain[obs]   : nonnegative "mm"
data up[obs]     : real
data across[obs] : real
data where[obs]  : station
hyper phi : positive ~ lognormal(mean = 0, sd = 1)
hyper p   : unit     ~ beta(a = 2, b = 2)
hyper s   : positive ~ pc_sd(u = 1, alpha = 0.05)
latent level      ~ normal(sd = 5)
latent b_up       ~ normal(sd = 2)
latent b_across   ~ normal(sd = 2)
latent u[station] ~ normal(sd = s)
let eta[obs] = level + b_up * up + b_across * across + u[where]
observe rain ~ tweedie(log_mean = eta, dispersion = phi, power = 1 + p)
""")
fit = lgm.fit(model, data)
print(fit.summary())
print(f"power {1 + float(fit.mean('p')):.2f} (truth {power})")

# %%
# The probability of a dry day and the mean of all days follow from one predictor: with mean m, P(0)
# = exp(-m^(2 - power) / (dispersion (2 - power))).
draws = fit.sample(500, seed=1, names=["level", "b_up", "b_across", "phi", "p"])
t = np.linspace(0.0, 1.0, 100)
eta = draws["level"].values + np.outer(np.sin(2 * np.pi * t), draws["b_up"].values)
eta = eta + np.outer(np.cos(2 * np.pi * t), draws["b_across"].values)
rest = 1.0 - draws["p"].values  # 2 - power
dry = np.exp(-np.exp(rest * eta) / (draws["phi"].values * rest))
fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
truth = 0.4 + 1.1 * np.sin(2 * np.pi * t)
true_dry = np.exp(-np.exp((2 - power) * truth) / (dispersion * (2 - power)))
for ax, values, line, label in (
    (axes[0], np.exp(eta), np.exp(truth), "mean rain, mm"),
    (axes[1], dry, true_dry, "P(dry)"),
):
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95], axis=1)
    ax.fill_between(t, low, high, alpha=0.25, linewidth=0)
    ax.plot(t, middle)
    ax.plot(t, line, "k--", linewidth=1)
    ax.set(xlabel="part of the year (dashed: truth)", ylabel=label)
plt.show()
