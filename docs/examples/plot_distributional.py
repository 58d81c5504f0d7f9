"""
Distributional regression
=========================

The spread of y changes with x as its mean does: a predictor for the log sd, smooth in x as well. In
brms: ``bf(y ~ s(x), sigma ~ s(x))``; in mgcv the family ``gaulss``.
"""

# %%
# Data
# ----
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(4)
x = np.sort(rng.uniform(0.0, 50.0, 300))
place = np.minimum((x / 2.0).astype(int), 24)
mean = 8.0 * np.sin(x / 8.0)
y = mean + np.exp(0.2 + 0.03 * x) * rng.standard_normal(300)

# %%
# Model
# -----
# Two random walks over the same 25 places: one of the mean, one of the log sd.
model = lgm.loads("""
lgm 1
index obs
index place = 0..24

data where[obs] : place
data y[obs]     : real

hyper s_mean   : positive ~ pc_sd(u = 5, alpha = 0.05)
hyper s_spread : positive ~ pc_sd(u = 0.5, alpha = 0.05)

latent m0        ~ normal(sd = 20)
latent f[place]  ~ rw2(sd = s_mean)
latent c0        ~ normal(sd = 3)
latent g[place]  ~ rw2(sd = s_spread)

let eta[obs]  = m0 + f[where]
let zeta[obs] = c0 + g[where]

observe y ~ normal(mean = eta, log_sd = zeta)
""")
fit = lgm.fit(model, {"where": place, "y": y}, method="natural-gradient")
print(fit.summary())

# %%
# Quantiles of new responses
# --------------------------
# They average over the uncertainty of both predictors.
new = fit.predict({"where": np.arange(25)})
low, middle, high = new.response_quantile("y", [0.05, 0.5, 0.95]).values

fig, axis = plt.subplots()
axis.plot(x, y, ".", color="0.6")
axis.plot(2.0 * np.arange(25) + 1.0, middle)
axis.fill_between(2.0 * np.arange(25) + 1.0, low, high, alpha=0.3)
axis.set(xlabel="x", ylabel="y")
plt.show()

# %%
# Is the spread right? Leave-one-out transforms are uniform if it is.
print(fit.pit())
