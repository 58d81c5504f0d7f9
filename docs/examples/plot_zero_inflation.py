"""
Counts with too many zeros, by site
===================================

Animals counted at 40 sites, some of them unsuitable: the chance of a structural zero and the mean
count both depend on cover and on the site. In glmmTMB: ``count ~ cover + (1 | site), ziformula = ~
cover, family = poisson``.
"""

# %%
# Data
# ----
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(8)
site = np.repeat(np.arange(40), 10)
cover = rng.normal(size=400)
by_site = rng.normal(0.0, 0.5, 40)
rate = np.exp(1.0 + 0.5 * cover + by_site[site])
empty = rng.random(400) < 1.0 / (1.0 + np.exp(0.5 + cover))
count = np.where(empty, 0, rng.poisson(rate))
data = {"count": count, "cover": cover, "site_of": site}

# %%
# Model
# -----
model = lgm.loads("""
lgm 1
index obs
index site

data count[obs]   : count
data cover[obs]   : real
data site_of[obs] : site

hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)

latent b0      ~ normal(sd = 5)
latent b1      ~ normal(sd = 2)
latent u[site] ~ normal(sd = s)
latent z0      ~ normal(sd = 3)
latent z1      ~ normal(sd = 2)

let eta[obs]  = b0 + b1 * cover + u[site_of]
let zeta[obs] = z0 + z1 * cover

observe count ~ poisson(log_rate = eta, zero_inflation_logit = zeta)
report  empty[obs] = invlogit(zeta) "probability that the place is empty"
""")
fit = lgm.fit(model, data, method="laplace")
print(fit.summary())

# %%
# Zeros
# -----
# The probability of a zero at new places, of either kind.
grid = np.linspace(-2.0, 2.0, 9)
new = fit.predict({"cover": grid, "site_of": np.zeros(9, dtype=int)})
zero = new.response("count")["probability"].sel(value=0)

fig, axis = plt.subplots()
axis.plot(grid, zero, label="P(count = 0)")
axis.plot(grid, new.mean("empty"), label="P(empty)")
axis.set(xlabel="cover", ylabel="probability", ylim=(0.0, 1.0))
axis.legend()
plt.show()

# %%
# The same without extra zeros predicts worse.
plain = lgm.loads(model.to_lgm().replace(", zero_inflation_logit = zeta", ""))
print(lgm.compare_models({"zero-inflated": fit, "poisson": lgm.fit(plain, data, method="laplace")}))
