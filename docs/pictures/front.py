"""A cyclic smooth and effects of groups, fitted to simulated counts."""

import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(12)
when, where = rng.integers(1, 366, 600), rng.integers(0, 12, 600)
names = np.array(list("ABCDEFGHIJKL"))
effect = rng.normal(0.0, 0.4, 12)
effect -= effect.mean()
truth = np.sin(2 * np.pi * np.arange(1, 366) / 365) + 0.5 * np.cos(
    4 * np.pi * np.arange(1, 366) / 365
)
y = rng.poisson(np.exp(1.0 + 0.7 * truth[when - 1] + effect[where]))

model = lgm.loads("""lgm 1
index obs
index day = 1..365
index station
data y[obs]     : count
data when[obs]  : day
data where[obs] : station
hyper wiggle  : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper between : positive ~ pc_sd(u = 1, alpha = 0.05)
latent level      ~ normal(sd = 5)
latent f[day]     ~ rw2(sd = wiggle, cyclic = true)
latent u[station] ~ normal(sd = between)
let eta[obs] = level + f[when] + u[where]
observe y ~ poisson(log_rate = eta)
report season[day] = exp(level + f)
""")
fit = lgm.fit(model, {"y": y, "when": when, "where": names[where]})

fig, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.2), width_ratios=[3, 1])
low, middle, high = fit.quantile("season", [0.05, 0.5, 0.95]).values
day = np.arange(1, 366)
left.plot(when, y, ".", color="0.75", markersize=3)
left.fill_between(day, low, high, color="C0", alpha=0.3, linewidth=0)
left.plot(day, middle, color="C0", label="posterior, 90 % band")
left.plot(day, np.exp(1.0 + 0.7 * truth), color="black", linestyle="--", linewidth=1, label="truth")
left.set(xlabel="day", ylabel="count", ylim=(0, 14))
left.legend(frameon=False, fontsize=8)
order = np.argsort(fit.mean("u").values)
right.errorbar(
    fit.mean("u").values[order],
    np.arange(12),
    xerr=1.64 * fit.sd("u").values[order],
    fmt="o",
    markersize=3,
)
right.plot(effect[order], np.arange(12), "k|")
right.set(yticks=np.arange(12), yticklabels=names[order], xlabel="effect of a station")
right.axvline(0.0, color="0.8", zorder=0)
