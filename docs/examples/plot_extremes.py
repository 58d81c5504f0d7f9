"""
Extreme values
==============

The highest water level of each year at six gauges along a coast, over 60 years in which the sea
rises: generalised extreme values with a trend, a level of each gauge, and a shape that is learned.
Positive shapes have a heavy tail.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import lgmdsl as lgm

rng = np.random.default_rng(8)
gauges, years = 6, 60
gauge = np.repeat(np.arange(gauges), years)
year = np.tile(np.arange(years), gauges)
level = rng.normal(0.0, 0.3, gauges)
location = 3.0 + 0.3 * (year - 30) / 30 + level[gauge]
highest = location + 0.25 * stats.genextreme(-0.1).rvs(len(year), random_state=rng)

model = lgm.loads("""
lgm 1
index obs
index gauge
data highest[obs] : real  "metres"
data time[obs]    : real  "decades from the middle"
data at[obs]      : gauge
hyper scale : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper shape : real     ~ uniform(lower = -0.5, upper = 0.5)
hyper s     : positive ~ pc_sd(u = 1, alpha = 0.05)
latent mean     ~ normal(sd = 10)
latent trend    ~ normal(sd = 1)
latent u[gauge] ~ normal(sd = s)
let eta[obs] = mean + trend * time + u[at]
observe highest ~ gev(location = eta, scale = scale, shape = shape)
""")
data = {"highest": highest, "time": (year - 30) / 10, "at": gauge}
fit = lgm.fit(model, data, method="laplace")
print(fit.summary())

# %%
# Return levels at the first gauge, now and at the beginning: what one year in T exceeds.
draws = fit.sample(2000, seed=1, names=["mean", "trend", "u", "scale", "shape"])
periods = np.geomspace(2.0, 200.0, 40)
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for time, colour, label in ((-3.0, "C0", "60 years ago"), (2.9, "C1", "now")):
    centre = draws["mean"].values + time * draws["trend"].values + draws["u"].values[:, 0]
    q = -np.log(-np.log1p(-1.0 / periods))[:, None]  # of the Gumbel law
    k = draws["shape"].values
    levels = centre + draws["scale"].values * np.expm1(k * q) / k
    low, middle, high = np.quantile(levels, [0.05, 0.5, 0.95], axis=1)
    ax.fill_between(periods, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(periods, middle, color=colour, label=label)
    truth = stats.genextreme(-0.1, 3.0 + 0.1 * time + level[0], 0.25).isf(1.0 / periods)
    ax.plot(periods, truth, "k--", linewidth=1)
ax.set(xscale="log", xlabel="return period (years)", ylabel="level (m; dashed: truth)")
ax.legend(frameon=False)
plt.show()
