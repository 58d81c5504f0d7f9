"""
Space and time
==============

Counts in 36 regions over 12 years: an effect of the region, and an interaction of region and year
in which neighbours change alike (``besag * ar1``: type IV of Knorr-Held 2000, with a stationary
factor for time).
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

side, years = 6, 12
rng = np.random.default_rng(8)
row, column = np.divmod(np.arange(side * side), side)
right = [(i, i + 1) for i in range(side * side) if column[i] < side - 1]
below = [(i, i + side) for i in range(side * (side - 1))]
space = 0.5 * np.cos(row / 2.0)
wave = 0.4 * np.sin((column[:, None] - np.arange(years)[None, :]) / 2.0)
truth = space[:, None] + wave
E = rng.uniform(5.0, 20.0, (side * side, years))
data = {"y": rng.poisson(E * np.exp(truth)), "E": E, "edges": np.array(right + below)}

model = lgm.loads("""
lgm 1
index region
index year = 2011..2022
data y[region, year]       : count
data E[region, year]       : positive
data edges[region, region] : graph
hyper s_space : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper s_both  : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper rho     : correlation ~ pc_cor1(u = 0.5, alpha = 0.75)
latent b0              ~ normal(sd = 5)
latent v[region]       ~ besag(graph = edges, sd = s_space)
latent d[region, year] ~ besag(graph = edges, sd = s_both) * ar1(rho = rho)
let eta[region, year] = b0 + v + d
observe y ~ poisson(log_rate = eta, exposure = E)
report risk[region, year] = exp(eta)
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
fig, axes = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained")
for k, year in enumerate((2011, 2014, 2017, 2020)):
    pictures = (fit.mean("risk").sel(year=year).values, np.exp(truth[:, year - 2011]))
    for ax, values in zip(axes[:, k], pictures, strict=True):
        image = ax.imshow(values.reshape(side, side), vmin=0.4, vmax=2.2, cmap="RdBu_r")
        ax.set(xticks=[], yticks=[])
    axes[0, k].set_title(year)
axes[0, 0].set_ylabel("posterior")
axes[1, 0].set_ylabel("truth")
fig.colorbar(image, ax=axes, shrink=0.8, label="relative risk")
plt.show()
