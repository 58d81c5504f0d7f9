"""
Batches of dye
==============

Yields of dyestuff, five samples of each of six batches (Davies 1967; Box and Tiao 1973, and the
BUGS manual): how much of the variance is between batches? Six batches say little about a standard
deviation, so its uncertainty is what matters.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

y = np.array([
    [1545, 1440, 1440, 1520, 1580],
    [1540, 1555, 1490, 1560, 1495],
    [1595, 1550, 1605, 1510, 1560],
    [1445, 1440, 1595, 1465, 1545],
    [1595, 1630, 1515, 1635, 1625],
    [1520, 1455, 1450, 1480, 1445],
])  # fmt: skip
batch, _ = np.divmod(np.arange(30), 5)
data = {"y": y.ravel() - 1500.0, "of": batch}

model = lgm.loads("""
lgm 1
index sample
index batch
data y[sample]  : real "yield beyond 1500 g"
data of[sample] : batch

hyper between : positive ~ half_normal(sd = 100)
hyper within  : positive ~ half_normal(sd = 100)

latent level    ~ normal(sd = 100)
latent u[batch] ~ normal(sd = between)

observe y ~ normal(mean = level + u[of], sd = within)
report  mean[batch] = level + u
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
# The estimates of analysis of variance, 42.0 and 49.5, are near the medians; the interval of the sd
# between batches reaches from nearly nothing to twice that.
low, middle, high = fit.quantile("mean", [0.05, 0.5, 0.95]).values + 1500.0
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for name, label in (("between", "between batches"), ("within", "within a batch")):
    curve = fit.density(name)
    left.plot(curve.x, curve.density, label=label)
left.set(xlabel="standard deviation, g", ylabel="posterior density", xlim=(0, 150), ylim=(0, None))
left.legend(frameon=False)
right.plot(batch + 1, y.ravel(), "k.", alpha=0.5, label="samples")
right.errorbar(
    np.arange(1, 7) + 0.15, middle, yerr=[middle - low, high - middle], fmt="o", label="mean, 90 %"
)
right.axhline(y.mean(), color="0.7", linewidth=0.8)
right.set(xlabel="batch", ylabel="yield, g")
right.legend(frameon=False)
plt.show()
