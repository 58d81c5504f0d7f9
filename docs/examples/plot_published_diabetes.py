"""
An additive model of diabetes
=============================

Progression of diabetes a year after baseline in 442 patients (Efron, Hastie, Johnstone and
Tibshirani 2004, *Annals of Statistics* 32; the data come with scikit-learn): smooths of four
covariates, a difference by sex, and tests of the smooths. In mgcv: ``gam(y ~ sex + s(age) + s(bmi)
+ s(bp) + s(s5))``.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import lgmdsl as lgm

table = load_diabetes(as_frame=True, scaled=False).frame
names = {
    "age": "age, years",
    "bmi": "body mass index",
    "bp": "blood pressure",
    "s5": "log triglycerides",
}

lines = ["lgm 1", "index patient", "data target[patient] : real", "data sex[patient] : integer"]
for name in names:
    lines += [
        f"data {name}[patient] : real",
        f"hyper sd_{name} : positive ~ pc_sd(u = 100, alpha = 0.05)",
        f"latent f_{name}[patient] ~ spline(at = {name}, sd = sd_{name})",
    ]
lines += [
    "hyper noise : positive ~ pc_sd(u = 200, alpha = 0.05)",
    "latent level ~ flat",
    "latent by_sex ~ normal(sd = 100)",
    "let mu[patient] = level + by_sex * (sex - 1) + " + " + ".join(f"f_{n}" for n in names),
    "observe target ~ normal(mean = mu, sd = noise)",
]
model = lgm.loads("\n".join(lines))
fit = lgm.fit(model, table)
print(fit.smooths(test=True).round(3).to_string(index=False))

# %%
# Partial effects with partial residuals, and where the patients are.

fig, axes = plt.subplots(1, 4, figsize=(10, 2.8), sharey=True, layout="constrained")
residual = table["target"] - np.asarray(fit.mean("mu"))
for ax, (name, label) in zip(axes, names.items(), strict=True):
    x = table[name].to_numpy()
    order = np.argsort(x)
    low, middle, high = np.asarray(fit.quantile(f"f_{name}", [0.05, 0.5, 0.95]))
    ax.plot(x, middle + residual, ".", color="0.7", markersize=2)
    ax.fill_between(x[order], low[order], high[order], alpha=0.4, linewidth=0)
    ax.plot(x[order], middle[order])
    ax.plot(x, np.full(len(x), -205.0), "|", color="0.3", markersize=4)
    ax.set(xlabel=label, ylim=(-210, 210))
axes[0].set_ylabel("effect on progression")
plt.show()
