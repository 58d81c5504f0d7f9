"""
Which case to label next
========================

Labels cost. ``lgm.design`` picks, one at a time, the case whose label the model is least sure of; here it is held against
picking at random.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(13)
truth = np.array([2.0, -2.0, 1.0, 0.0, 0.0])


def cases(n: int) -> dict[str, np.ndarray]:
    X = rng.normal(size=(n, 5))
    return {"X": X, "y": (rng.random(n) < 1 / (1 + np.exp(-3 * X @ truth))).astype(int)}


model = lgm.loads("""
lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs]       : binary
latent w[feat] ~ normal(sd = 3)
let eta[obs] = X @ w
observe y ~ bernoulli(logit = eta)
""")
known, pool, test = cases(6), cases(150), cases(400)
fig, ax = plt.subplots(figsize=(6.5, 3))
for score in ("uncertainty", "random"):
    design = lgm.design(
        model, known, {"X": pool["X"]}, score=score, steps=60, block=10, oracle={"y": pool["y"]}, test=test, seed=1
    )
    ax.plot([point.included for point in design.course], [point.test_error for point in design.course], "o-", label=score)
ax.set(xlabel="labels", ylabel="test error", ylim=(0.0, None))
ax.legend(frameon=False)
plt.show()

# %%
# The first ten that were asked for:
print("\n".join(design.table.splitlines()[:12]))
