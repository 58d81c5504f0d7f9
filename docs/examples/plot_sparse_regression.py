"""
Sparse regression
=================

Sixty measurements and a hundred inputs, of which five matter: a Laplace potential on the weights,
whose scale is learned.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(12)
X = rng.normal(size=(60, 100))
weights = np.zeros(100)
weights[[3, 17, 42, 64, 90]] = [2.0, -1.5, 1.0, -2.0, 1.5]
data = {"X": X, "y": X @ weights + rng.normal(0, 0.5, 60)}

model = lgm.loads("""
lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs]       : real
hyper scale : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper noise : positive ~ pc_sd(u = 2, alpha = 0.05)
latent w[feat] ~ flat
let mu[obs] = X @ w
observe   y ~ normal(mean = mu, sd = noise)
potential w ~ laplace(scale = scale)
""")
fit = lgm.fit(model, data, hyper="map")
print(fit.summary())

# %%
fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
ax.errorbar(
    np.arange(100),
    fit.mean("w").values,
    yerr=1.64 * fit.sd("w").values,
    fmt=".",
    markersize=4,
    color="C0",
)
ax.plot(np.flatnonzero(weights), weights[weights != 0], "kx", label="truth, where not 0")
ax.set(xlabel="input", ylabel="weight, 90 %")
ax.legend(frameon=False)
plt.show()
