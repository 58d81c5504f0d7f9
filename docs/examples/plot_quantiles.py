"""
Quantile regression
===================

Growth curves whose spread grows with age. The asymmetric Laplace density makes a quantile of a
chosen level the mode: one fit for each level, each with a smooth curve of age.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import lgmdsl as lgm

rng = np.random.default_rng(5)
n = 500
age = np.round(rng.uniform(0.0, 10.0, n), 1)


def median(a):
    return 50.0 + 30.0 * np.log1p(a)


def spread(a):
    return 2.0 + 0.8 * a


height = median(age) + spread(age) * rng.standard_normal(n)
ages, place = np.unique(age, return_inverse=True)

model = lgm.loads("""
lgm 1
index child
index age
data height[child] : real "cm"
data level : unit
data of[child] : age
hyper s     : positive ~ pc_sd(u = 20, alpha = 0.05)
hyper scale : positive ~ pc_sd(u = 10, alpha = 0.05)
latent mean   ~ normal(mean = 90, sd = 50)
latent slope  ~ normal(sd = 20)
latent f[age] ~ rw2(sd = s)
data years[age] : real
let curve[age] = mean + slope * years + f
let eta[child] = curve[of]
observe height ~ asymmetric_laplace(quantile = eta, scale = scale, level = level)
""")

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(age, height, ".", color="0.8", markersize=3)
for level, colour in ((0.1, "C0"), (0.5, "C1"), (0.9, "C2")):
    data = {"height": height, "level": level, "of": age, "age": ages, "years": ages}
    fit = lgm.fit(model, data, method="natural-gradient")
    low, middle, high = fit.quantile("curve", [0.05, 0.5, 0.95]).values
    ax.fill_between(ages, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(ages, middle, color=colour, label=f"level {level:g}")
    truth = median(ages) + spread(ages) * stats.norm.ppf(level)
    ax.plot(ages, truth, "k--", linewidth=1)
ax.set(xlabel="age (years)", ylabel="height (cm; dashed: truth)")
ax.legend(frameon=False)
plt.show()
