"""
Ordered answers
===============

Ratings of dishes on a scale of five, by judges who differ in leniency. A cumulative logit, whose
cut points are learned.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(5)
scale = ["awful", "poor", "fair", "good", "great"]
judge, dish = rng.integers(0, 15, 400), rng.integers(0, 10, 400)
leniency, quality = rng.normal(0.0, 0.8, 15), rng.normal(0.0, 1.2, 10)
latent = quality[dish] + leniency[judge] + rng.logistic(size=400)
cuts = np.array([-2.0, -0.7, 0.7, 2.2])
data = {"rating": np.array(scale)[np.searchsorted(cuts, latent)], "by": judge, "of": dish}

model = lgm.loads("""
lgm 1
index obs
index judge
index dish
index score = {"awful", "poor", "fair", "good", "great"}
index cut   = head(score)
data rating[obs] : score
data by[obs]     : judge
data of[obs]     : dish
hyper c[cut]  : ordered  ~ normal(sd = 3)
hyper s_judge : positive ~ pc_sd(u = 2, alpha = 0.05)
hyper s_dish  : positive ~ pc_sd(u = 2, alpha = 0.05)
latent leniency[judge] ~ normal(sd = s_judge)
latent quality[dish]   ~ normal(sd = s_dish)
let eta[obs] = quality[of] + leniency[by]
observe rating ~ ordinal(logit = eta, cuts = c)
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
# A common level of the dishes cannot be distinguished from the cuts, so the truth is centred.
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
order = np.argsort(fit.mean("quality").values)
ax.errorbar(
    fit.mean("quality").values[order],
    np.arange(10),
    xerr=1.64 * fit.sd("quality").values[order],
    fmt="o",
)
ax.plot(quality[order] - quality.mean(), np.arange(10), "k|", markersize=10)
for value in fit.mean("c").values:
    ax.axvline(value, color="0.8", zorder=0)
ax.set(xlabel="quality of a dish, 90 % (black: truth; grey: cuts)", ylabel="dish, sorted")
plt.show()
