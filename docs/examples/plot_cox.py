"""
Cox regression with frailty and a smooth hazard
===============================================

Times to failure of a catheter in 40 hospitals. The baseline hazard is constant within pieces of
time, and neighbouring pieces are similar (a random walk of the log hazard): with a piece for each
event time and no smoothing the coefficients are those of Cox's partial likelihood, ties by Breslow,
where times of censoring and entry between two event times are moved back to the earlier of them.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(11)
n = 400
hospital = rng.integers(0, 40, n)
frailty = rng.normal(0.0, 0.5, 40)
coated = rng.integers(0, 2, n)


def cumulative(t):
    """Of a hazard that rises, then falls: 0.06 + 0.25 exp(-(t - 4)^2 / 4)."""
    from scipy.special import ndtr

    bump = 0.25 * np.sqrt(4 * np.pi) * (ndtr((t - 4) / np.sqrt(2)) - ndtr(-4 / np.sqrt(2)))
    return 0.06 * t + bump


grid = np.linspace(0.0, 60.0, 6001)
wanted = rng.exponential(size=n) / np.exp(-0.7 * coated + frailty[hospital])
life = np.interp(wanted, cumulative(grid), grid)
end = rng.uniform(4.0, 16.0, n)
breaks = np.arange(0.5, 12.0, 0.5)
data = {
    "weeks": np.minimum(life, end) + 1e-3,
    "failed": (life <= end).astype(int),
    "coated": coated,
    "where": hospital,
    "breaks": breaks,
    "piece": np.arange(len(breaks) + 1),
}

model = lgm.loads("""
lgm 1
index catheter
index hospital
index piece
index inner = head(piece)
data weeks[catheter]  : positive
data failed[catheter] : binary
data coated[catheter] : binary
data where[catheter]  : hospital
data breaks[inner]    : positive
hyper smooth : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper s      : positive ~ pc_sd(u = 1, alpha = 0.05)
latent level       ~ normal(sd = 5)
latent base[piece] ~ rw1(sd = smooth)
latent b_coated    ~ normal(sd = 2)
latent u[hospital] ~ normal(sd = s)
let eta[catheter, piece] = level + base[piece] + b_coated * coated + u[where]
observe weeks ~ piecewise_exponential(log_hazard = eta, breaks = breaks, event = failed)
report ratio = exp(b_coated) "hazard ratio, coated to plain"
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
# Hazard and survival in a new hospital, plain and coated: `fit.survival` averages over the
# frailty of a hospital that nobody has seen.
times = np.arange(0.25, 12.0, 0.5)
new = {"coated": [0, 1], "where": [100, 100], "breaks": breaks}
table = fit.survival(times, {k: new[k] for k in ("coated", "where", "breaks")})
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for arm, colour in ((0, "C0"), (1, "C1")):
    rows = table[table["coated"] == arm]
    for ax, kind in zip(axes, ("hazard", "survival"), strict=True):
        ax.fill_between(
            times, rows[f"{kind}_q5"], rows[f"{kind}_q95"], color=colour, alpha=0.2, linewidth=0
        )
        ax.plot(times, rows[f"{kind}_q50"], color=colour, label=("plain", "coated")[arm])
    truth = (0.06 + 0.25 * np.exp(-((times - 4) ** 2) / 4)) * np.exp(-0.7 * arm)
    axes[0].plot(times, truth, "k--", linewidth=1)
axes[0].set(xlabel="weeks", ylabel="hazard a week (dashed: truth)", ylim=(0, 1.2))
axes[1].set(xlabel="weeks", ylabel="still in use", ylim=(0, 1))
axes[1].legend(frameon=False)
plt.show()
