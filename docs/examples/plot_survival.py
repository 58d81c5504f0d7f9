"""
Survival with frailty
=====================

Times to relapse of patients in 20 clinics, some of them still well when the study ended. A Weibull
model with effects of treatment and age, and a frailty of each clinic.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(4)
n, shape = 300, 1.4
clinic = rng.integers(0, 20, n)
frailty = rng.normal(0.0, 0.4, 20)
treated = rng.integers(0, 2, n)
age = rng.normal(0.0, 1.0, n)
log_scale = 3.0 + 0.6 * treated - 0.3 * age + frailty[clinic]
months = np.exp(log_scale) * rng.weibull(shape, n)
end = rng.uniform(10.0, 40.0, n)
data = {
    "months": np.minimum(months, end),
    "relapse": (months <= end).astype(int),
    "treated": treated,
    "age": age,
    "where": clinic,
}

model = lgm.loads("""
lgm 1
index patient
index clinic
data months[patient]  : positive
data relapse[patient] : binary "0: still well at that time"
data treated[patient] : binary
data age[patient]     : real   "standardised"
data where[patient]   : clinic
hyper shape : positive ~ gamma(shape = 4, rate = 3)
hyper s     : positive ~ pc_sd(u = 1, alpha = 0.05)
latent level     ~ normal(sd = 10)
latent b_treated ~ normal(sd = 2)
latent b_age     ~ normal(sd = 2)
latent u[clinic] ~ normal(sd = s)
let eta[patient] = level + b_treated * treated + b_age * age + u[where]
observe months ~ weibull(log_scale = eta, shape = shape, event = relapse)
report ratio = exp(b_treated) "ratio of times, treated to control"
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
# Survival curves of an average clinic, from joint draws of latents and hyperparameters.
draws = fit.sample(1000, seed=1, names=["level", "b_treated", "shape"])
t = np.linspace(0.1, 60.0, 100)
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for arm, colour in ((0, "C0"), (1, "C1")):
    scale = np.exp(draws["level"].values + arm * draws["b_treated"].values)
    survival = np.exp(-((t[:, None] / scale) ** draws["shape"].values))
    low, middle, high = np.quantile(survival, [0.05, 0.5, 0.95], axis=1)
    ax.fill_between(t, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(t, middle, color=colour, label=("control", "treated")[arm])
    ax.plot(t, np.exp(-((t / np.exp(3.0 + 0.6 * arm)) ** shape)), "k--", linewidth=1)
ax.set(xlabel="months", ylabel="still well (dashed: truth)", ylim=(0, 1))
ax.legend(frameon=False)
plt.show()
