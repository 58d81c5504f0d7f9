"""
Discrete choice
===============

Travellers choose among bus, car and train by time and cost, and differ in how they weigh the two: a
mixed logit. A car is not always available.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(6)
people, trips = 60, 480
who = rng.integers(0, people, trips)
X = np.stack([rng.uniform(0.2, 2.0, (trips, 3)), rng.uniform(0.2, 2.0, (trips, 3))], axis=2)
taste = np.array([-2.0, -1.5]) + rng.multivariate_normal([0, 0], [[2.0, 0.5], [0.5, 1.0]], people)
available = np.c_[np.ones(trips), rng.random(trips) < 0.7, np.ones(trips)].astype(int)
utility = (
    np.array([0.0, 0.8, 0.4]) + np.einsum("tak,tk->ta", X, taste[who]) + rng.gumbel(size=(trips, 3))
)
choice = np.where(available == 1, utility, -np.inf).argmax(axis=1)
data = {"X": X, "who": who, "avail": available, "y": np.array(["bus", "car", "train"])[choice]}

model = lgm.loads("""
lgm 1
index trip
index person
index attr = {"time", "cost"}
index alt  = {"bus", "car", "train"}
data X[trip, alt, attr] : real
data who[trip]          : person
data avail[trip, alt]   : binary
data y[trip]            : alt
hyper S[attr, attr] : covariance ~ lkj_cov(eta = 2, u = 2, alpha = 0.05)
latent asc[alt]        ~ normal(sd = 3)
latent b[attr]         ~ normal(sd = 5)
latent d[person, attr] ~ iid * dense(cov = S)
let util[trip, alt] = asc + X @ b + sum(X * d[who, attr], attr)
observe   y ~ categorical(softmax = util, available = avail)
constrain asc["bus"] = 0
report    worth = b["time"] / b["cost"] "value of an hour, in units of cost"
""")
fit = lgm.fit(model, data, hyper="map")
print(fit.summary())

# %%
# The value of time is a ratio of two latents, so its posterior is computed from joint draws.
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.hist(fit.sample(4000, seed=1)["worth"].values, bins=60, density=True, color="0.8")
ax.axvline(2.0 / 1.5, color="black", linestyle="--")
ax.set(xlabel="value of an hour (dashed: truth)", ylabel="density")
plt.show()
