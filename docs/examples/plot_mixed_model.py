"""
Crossed random effects
======================

Reaction times of 30 people to 20 words: people differ, words differ, and the effect of a condition
differs between people. In lme4: ``log(rt) ~ condition + (condition | person) + (1 | word)``.
"""

# %%
# Data
# ----
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(1)
person, word = np.divmod(np.arange(600), 20)
condition = (person + word) % 2
by_person = rng.multivariate_normal([0.0, 0.0], [[0.04, 0.01], [0.01, 0.01]], 30)
by_word = rng.normal(0.0, 0.1, 20)
log_rt = 6.3 + by_person[person, 0] + (0.1 + by_person[person, 1]) * condition + by_word[word]
data = {
    "log_rt": log_rt + rng.normal(0.0, 0.15, 600),
    "condition": condition,
    "who": person,
    "which": word,
}

# %%
# Model
# -----
# Level and effect of a person are correlated: a covariance over the two, `iid` over people.
model = lgm.loads("""
lgm 1
index trial
index person
index word
index term = {"level", "effect"}

data log_rt[trial]    : real   "log milliseconds"
data condition[trial] : binary
data who[trial]       : person
data which[trial]     : word

hyper S[term, term] : covariance ~ lkj_cov(eta = 2, u = 0.5, alpha = 0.05)
hyper s_word        : positive   ~ pc_sd(u = 0.5, alpha = 0.05)
hyper noise         : positive   ~ pc_sd(u = 0.5, alpha = 0.05)

latent b[term]         ~ normal(sd = 10)
latent d[person, term] ~ iid * dense(cov = S)
latent w[word]         ~ normal(sd = s_word)

let mu[trial] = b["level"] + d[who, "level"] + w[which]
              + (b["effect"] + d[who, "effect"]) * condition

observe log_rt ~ normal(mean = mu, sd = noise)
report  ratio = exp(b["effect"]) "ratio of times, with to without the condition"
""")

# %%
# Fit
# ---
fit = lgm.fit(model, data)
print(fit.summary())

# %%
# Effects of people
# -----------------
# Estimates are shrunk towards their mean, more strongly the less the data say about a person.
effect = fit.mean("d").sel(term="effect").values
sd = fit.sd("d").sel(term="effect").values
order = np.argsort(effect)
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.errorbar(
    np.arange(30),
    effect[order],
    yerr=1.64 * sd[order],
    fmt="o",
    markersize=4,
    label="posterior, 90 %",
)
ax.plot(np.arange(30), by_person[order, 1], "k_", label="truth")
ax.set(xlabel="person, sorted", ylabel="deviation of the effect, log scale")
ax.legend(frameon=False)
plt.show()
