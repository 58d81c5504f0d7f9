"""
Smooths by group
================

A smooth of a covariate for each of two groups, of counts, under one sd. In mgcv: ``y ~ group +
s(x, by = group, id = 1)``; without ``id`` each level has a smoothing parameter of its own.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(3)
x = rng.integers(0, 80, 400)
group = rng.choice(["treated", "control"], 400)


def curve(x: np.ndarray, group: str) -> np.ndarray:
    return np.sin(x / 12.0) + (0.5 + x / 100.0 if group == "treated" else 0.0)


truth = np.where(group == "treated", curve(x, "treated"), curve(x, "control"))
data = {"y": rng.poisson(np.exp(0.5 + truth)), "x": x, "which": group}

model = lgm.loads("""
lgm 1
index obs
index place = 0..79
index group = {"control", "treated"}
data y[obs]     : count
data x[obs]     : place
data which[obs] : group
hyper s : positive ~ pc_sd(u = 2, alpha = 0.05)
latent b[group]        ~ normal(sd = 5)
latent f[group, place] ~ iid * rw2(sd = s)
let eta[obs] = b[which] + f[which, x]
observe y ~ poisson(log_rate = eta)
report rate[group, place] = exp(b + f)
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
grid = np.arange(80)
for name, colour in (("control", "C0"), ("treated", "C1")):
    low, middle, high = (
        fit.quantile("rate", [q]).sel(group=name).values[0] for q in (0.05, 0.5, 0.95)
    )
    ax.fill_between(grid, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(grid, middle, color=colour, label=name)
    ax.plot(grid, np.exp(0.5 + curve(grid, name)), "k--", linewidth=1)
    ax.plot(x[group == name], data["y"][group == name], ".", color=colour, markersize=2)
ax.set(xlabel="x", ylabel="rate (dashed: truth)", ylim=(0, 16))
ax.legend(frameon=False)
plt.show()
