"""
A disease map
=============

Counts in 100 regions with expected numbers, a covariate, and an effect of each region. A ``bym2``
effect is the sum of a spatial part, similar among neighbours, and independent noise; ``mix`` is the
spatial share of its variance.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

side = 10
rng = np.random.default_rng(2)
row, column = np.divmod(np.arange(side * side), side)
surface = 0.5 * np.sin(row / 3.0) * np.cos(column / 4.0)
covariate = rng.normal(size=side * side)
expected = rng.uniform(2.0, 20.0, side * side)
right = [(i, i + 1) for i in range(side * side) if column[i] < side - 1]
below = [(i, i + side) for i in range(side * (side - 1))]
data = {
    "y": rng.poisson(
        expected * np.exp(surface + 0.2 * covariate + rng.normal(0, 0.1, side * side))
    ),
    "E": expected,
    "x": covariate,
    "edges": np.array(right + below),
}

model = lgm.loads("""
lgm 1
index region
data y[region]             : count
data E[region]             : positive "expected count"
data x[region]             : real
data edges[region, region] : graph

hyper s   : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper mix : unit     ~ pc_mix(graph = edges, u = 0.5, alpha = 0.67)

latent b0        ~ normal(sd = 5)
latent b         ~ normal(sd = 1)
latent v[region] ~ bym2(graph = edges, sd = s, mix = mix)

let eta[region] = b0 + b * x + v

observe y ~ poisson(log_rate = eta, exposure = E)
report  risk[region] = exp(b0 + v)
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
# Raw ratios are noisy where few cases are expected; the posterior borrows strength from neighbours.
fig, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
pictures = {
    "observed / expected": data["y"] / expected,
    "posterior mean of the risk": fit.mean("risk").values,
    "truth": np.exp(surface),
}
for ax, (title, values) in zip(axes, pictures.items(), strict=True):
    image = ax.imshow(values.reshape(side, side), vmin=0.4, vmax=2.0, cmap="RdBu_r")
    ax.set(title=title, xticks=[], yticks=[])
fig.colorbar(image, ax=axes, shrink=0.8, label="relative risk")
plt.show()
