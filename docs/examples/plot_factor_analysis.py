"""
Binary factor analysis
======================

Yes-or-no answers of 300 people to 12 questions, explained by two traits. The loadings multiply
latents, so they are hyperparameters, learned by EM.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(10)
loadings = np.zeros((12, 2))
loadings[:6, 0], loadings[6:, 1] = 1.5, 1.5
loadings[4:8] += 0.5
trait = rng.normal(size=(300, 2))
p = 1.0 / (1.0 + np.exp(-(rng.normal(0, 0.7, 12) + trait @ loadings.T)))
data = {"y": (rng.random((300, 12)) < p).astype(int)}

model = lgm.loads("""
lgm 1
index person
index item
index factor = 2
data y[person, item] : binary
hyper L[item, factor] : real ~ normal(sd = 2)
latent c[item]           ~ normal(sd = 2)
latent z[person, factor] ~ normal(sd = 1)
let eta[person, item] = c + L @ z
observe y ~ bernoulli(logit = eta)
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
# Loadings are determined up to a rotation; their products are what the data determine.
learned = fit.mean("L").values
fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
for ax, matrix, title in (
    (axes[0], learned @ learned.T, "learned L L'"),
    (axes[1], loadings @ loadings.T, "truth"),
):
    image = ax.imshow(matrix, vmin=-4, vmax=4, cmap="RdBu_r")
    ax.set(title=title, xlabel="item", ylabel="item")
fig.colorbar(image, ax=axes, shrink=0.8, label="covariance of two items")
plt.show()
