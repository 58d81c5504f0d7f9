"""
Which case to label next
========================

Labels are expensive. ``lgm.design`` picks the cases about whose labels the model is least sure, ten
at a time; here it is compared with picking at random.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(13)
truth = np.r_[1.5, -1.5, 1.0, np.zeros(7)]


def cases(n: int) -> dict[str, np.ndarray]:
    X = rng.normal(size=(n, 10))
    return {"X": X, "y": (rng.random(n) < 1 / (1 + np.exp(-4 * X @ truth))).astype(int)}


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
known, pool, test = cases(10), cases(400), cases(2000)
fig, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
for score in ("random", "uncertainty"):
    design = lgm.design(
        model,
        known,
        {"X": pool["X"]},
        score=score,
        steps=80,
        block=10,
        oracle={"y": pool["y"]},
        test=test,
        seed=1,
    )
    ax.plot(
        [point.included for point in design.course],
        [point.test_error for point in design.course],
        "o-",
        label=score,
    )
ax.set(xlabel="labels asked for", ylabel="test error", ylim=(0.0, None))
ax.legend(frameon=False)
plt.show()

# %%
# The cases that were chosen first:
print("\n".join(design.table.splitlines()[:12]))
