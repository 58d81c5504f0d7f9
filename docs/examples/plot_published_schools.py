"""
Smooths of a share that varies more than a binomial
===================================================

Pupils above the national median in mathematics in 303 school districts of California, 1998 (Gill
2000; the data come with statsmodels): a beta-binomial additive model. In mgcv this needs
``family = quasibinomial``.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

import lgmdsl as lgm

table = sm.datasets.star98.load_pandas().data
names = {
    "LOWINC": "pupils of low income, %",
    "PERMINTE": "teachers of minorities, %",
    "AVSALK": "salary, 1000 dollars",
    "PTRATIO": "pupils for each teacher",
}
data = {"above": table["NABOVE"], "n": table["NABOVE"] + table["NBELOW"]}
data |= {name.lower(): table[name] for name in names}

lines = ["lgm 1", "index district", "data above[district] : count", "data n[district] : count"]
for name in map(str.lower, names):
    lines += [
        f"data {name}[district] : real",
        f"hyper sd_{name} : positive ~ pc_sd(u = 1, alpha = 0.05)",
        f"latent f_{name}[district] ~ spline(at = {name}, sd = sd_{name}, size = 8)",
    ]
lines += [
    "hyper concentration : positive ~ lognormal(mean = 3, sd = 1.5)",
    "latent level ~ normal(sd = 3)",
    "let eta[district] = level + " + " + ".join(f"f_{n.lower()}" for n in names),
    "observe above ~ betabinomial(n = n, logit = eta, concentration = concentration)",
]
fit = lgm.fit(lgm.loads("\n".join(lines)), data)
print(fit.smooths(test=True).round(3).to_string(index=False))

# %%
# Income tells most; each curve is on the scale of the logit.

fig, axes = plt.subplots(1, 4, figsize=(10, 2.8), sharey=True, layout="constrained")
for ax, (name, label) in zip(axes, names.items(), strict=True):
    x = table[name].to_numpy()
    order = np.argsort(x)
    low, middle, high = np.asarray(fit.quantile(f"f_{name.lower()}", [0.05, 0.5, 0.95]))
    ax.fill_between(x[order], low[order], high[order], alpha=0.4, linewidth=0)
    ax.plot(x[order], middle[order])
    ax.plot(x, np.full(len(x), -1.95), "|", color="0.3", markersize=4)
    ax.set(xlabel=label, ylim=(-2, 2))
axes[0].set_ylabel("effect, logit")
plt.show()
