"""
Trend and season of carbon dioxide
==================================

Weekly means of atmospheric CO2 at Mauna Loa, 1958 to 2001 (Keeling and Whorf 2004; the data come
with statsmodels): a smooth trend, and a smooth season that joins at the turn of the year. In mgcv:
``gam(co2 ~ s(year, k = 20) + s(day, bs = "cc", k = 12))``.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

import lgmdsl as lgm

table = sm.datasets.co2.load_pandas().data["co2"].dropna()
data = {
    "co2": table.to_numpy(),
    "year": table.index.year + (table.index.dayofyear - 0.5) / 365.25,
    "day": table.index.dayofyear,
}

model = lgm.loads("""
lgm 1
index week
data co2[week]  : real "CO2, ppm"
data year[week] : real "year"
data day[week]  : real "day of the year"

hyper s     : positive ~ pc_sd(u = 30, alpha = 0.05)
hyper t     : positive ~ pc_sd(u = 10, alpha = 0.05)
hyper noise : positive ~ pc_sd(u = 5, alpha = 0.05)

latent level ~ flat
latent trend[week]  ~ spline(at = year, sd = s, size = 20)
latent season[week] ~ spline(at = day, sd = t, basis = "cyclic", size = 12, period = 366)

let mu[week] = level + trend + season
observe co2 ~ normal(mean = mu, sd = noise)
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
# The curves, in ppm, each about zero over the weeks.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for ax, name, at, label in (
    (left, "trend", "year", "year"),
    (right, "season", "day", "day of the year"),
):
    order = np.argsort(data[at])
    x = np.asarray(data[at])[order]
    low, middle, high = np.asarray(fit.quantile(name, [0.05, 0.5, 0.95]))[:, order]
    ax.fill_between(x, low, high, alpha=0.3, linewidth=0)
    ax.plot(x, middle)
    ax.set(xlabel=label, ylabel=f"{name}, ppm")
left.plot(data["year"], data["co2"] - fit.mean("level").item(), ",", color="0.5", zorder=0)
plt.show()

# %%
# What is left is no noise: it lasts for weeks, as the season itself drifts and years differ.

residual = data["co2"] - np.asarray(fit.mean("mu"))
print(f"correlation of a week with the next: {np.corrcoef(residual[1:], residual[:-1])[0, 1]:.2f}")
