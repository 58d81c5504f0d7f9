"""
Gaussian process classification
===============================

Two half moons, a squared-exponential kernel with a length scale for each input, and the
probability of a class over the plane. Hyperparameters are estimated by their posterior mode.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(9)
angle = rng.uniform(0.0, np.pi, 150)
side = rng.integers(0, 2, 150)
x = np.c_[np.cos(angle) + side, np.sin(angle) * (1 - 2 * side) + 0.3 * side] + rng.normal(
    0, 0.25, (150, 2)
)

model = lgm.loads("""
lgm 1
index obs
index dim = {"x1", "x2"}
data x[obs, dim] : real
data y[obs]      : binary
hyper s        : positive ~ pc_sd(u = 5, alpha = 0.05)
hyper ell[dim] : positive ~ pc_range(u = 0.3, alpha = 0.05)
latent b0     ~ normal(sd = 1)
latent f[obs] ~ gp(at = x, kernel = se(sd = s, length = ell))
let eta[obs] = b0 + f
observe y ~ bernoulli(logit = eta)
report p[obs] = invlogit(eta)
""")
fit = lgm.fit(model, {"x": x, "y": side}, hyper="map")
print(fit.summary())

# %%
across, up = np.meshgrid(np.linspace(-1.8, 2.8, 40), np.linspace(-1.6, 1.8, 40))
p = fit.predict({"x": np.c_[across.ravel(), up.ravel()]}).mean("p").values
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
filled = ax.contourf(
    across, up, p.reshape(across.shape), levels=np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.7
)
ax.scatter(*x.T, c=side, cmap="RdBu_r", edgecolor="black", s=28, linewidth=0.6)
ax.set(xlabel="x1", ylabel="x2")
fig.colorbar(filled, label="probability of the second class")
plt.show()
