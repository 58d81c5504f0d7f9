"""
A surface over months and years
===============================

Monthly temperatures of the sea off Peru, 1950 to 2010 (NOAA; the data come with statsmodels): the
season, the slow change, and how the season itself changes, which is a tensor product of splines
without its margins. In mgcv: ``s(month) + s(year) + ti(year, month)``.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

import lgmdsl as lgm

table = sm.datasets.elnino.load_pandas().data
years, values = table["YEAR"].to_numpy(), table.to_numpy()[:, 1:]
year, month = (a.ravel() for a in np.meshgrid(years, np.arange(1.0, 13.0), indexing="ij"))
data = {"sst": values.ravel(), "year": year, "month": month, "place": np.stack([year, month], 1)}

model = lgm.loads("""
lgm 1
index obs
index axis = {"year", "month"}
data sst[obs]         : real "temperature, C"
data year[obs]        : real
data month[obs]       : real
data place[obs, axis] : real

hyper s[axis] : positive ~ pc_sd(u = 5, alpha = 0.05)
hyper t[axis] : positive ~ pc_sd(u = 5, alpha = 0.05)
hyper noise   : positive ~ pc_sd(u = 3, alpha = 0.05)

latent level ~ flat
latent slow[obs]    ~ spline(at = year, sd = s["year"], size = 20)
latent season[obs]  ~ spline(at = month, sd = s["month"], basis = "cyclic", size = 10, period = 12)
latent changes[obs] ~ tensor_spline(at = place, sd = t, size = 6, interaction = true)

let mu[obs] = level + slow + season + changes
observe sst ~ normal(mean = mu, sd = noise)
""")
fit = lgm.fit(model, data)
print(fit.smooths().round(2).to_string(index=False))

# %%
# The sea is half a degree warmer than it was, and the season hardly changes.

shape = (len(years), 12)
fig, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
low, middle, high = np.asarray(fit.quantile("season", [0.05, 0.5, 0.95]))[:, :12]
axes[0].fill_between(np.arange(1, 13), low, high, alpha=0.3, linewidth=0)
axes[0].plot(np.arange(1, 13), middle)
axes[0].set(xlabel="month", ylabel="season, C")
low, middle, high = np.asarray(fit.quantile("slow", [0.05, 0.5, 0.95]))[:, ::12]
axes[1].fill_between(years, low, high, alpha=0.3, linewidth=0)
axes[1].plot(years, middle)
axes[1].set(xlabel="year", ylabel="change, C")
change = np.asarray(fit.mean("changes")).reshape(shape)
limit = np.abs(change).max()
drawn = axes[2].pcolormesh(
    years, np.arange(1, 13), change.T, cmap="RdBu_r", vmin=-limit, vmax=limit, shading="nearest"
)
axes[2].set(xlabel="year", ylabel="month")
fig.colorbar(drawn, label="change of the season, C")
plt.show()
