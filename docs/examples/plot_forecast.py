"""
A forecast
==========

Monthly sales with a level that follows a random walk and a season that changes slowly, forecast two
years ahead.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(7)
months = np.arange("2015-01", "2023-01", dtype="datetime64[M]")
t = np.arange(len(months))
level = np.cumsum(rng.normal(0.005, 0.02, len(t)))
season = 0.25 * np.sin(2 * np.pi * t / 12) + 0.1 * np.cos(4 * np.pi * t / 12)
log_sales = 5.0 + level + season + rng.normal(0.0, 0.04, len(t))
known = 72
data = {"month": months.astype(str)[:known], "y": log_sales[:known]}

model = lgm.loads("""
lgm 1
index month
data y[month] : real "log sales"
hyper s_level  : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper s_season : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper noise    : positive ~ pc_sd(u = 0.3, alpha = 0.05)
latent b0            ~ normal(sd = 10)
latent level[month]  ~ rw1(sd = s_level)
latent season[month] ~ seasonal(sd = s_season, period = 12)
let mu[month] = b0 + level + season
observe y ~ normal(mean = mu, sd = noise)
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
ahead = fit.predict({"month": months.astype(str)[known:]})
y = ahead.response("y")
fig, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
ax.plot(months, log_sales, ".", color="black", markersize=3, label="observed")
fitted = fit.mean("mu").values
ax.plot(months[:known], fitted, color="C0", label="fitted")
ax.fill_between(
    months[known:], y["mean"] - 1.64 * y["sd"], y["mean"] + 1.64 * y["sd"], color="C1", alpha=0.3
)
ax.plot(months[known:], y["mean"], color="C1", label="forecast, 90 %")
ax.set(xlabel="month", ylabel="log sales")
ax.legend(frameon=False)
plt.show()
