"""
Stochastic volatility
=====================

Daily returns whose log variance is an autoregression of order 1.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(15)
days, rho = 500, 0.97
h = np.zeros(days)
for t in range(1, days):
    h[t] = rho * h[t - 1] + rng.normal(0, 0.2)
data = {"r": np.exp(0.5 * (h - 1.0)) * rng.normal(size=days)}

model = lgm.loads("""
lgm 1
index day = 1..500
data r[day] : real "per cent"
hyper s   : positive    ~ pc_sd(u = 3, alpha = 0.05)
hyper rho : correlation ~ pc_cor1(u = 0.9, alpha = 0.7)
latent level  ~ normal(sd = 5)
latent h[day] ~ ar1(sd = s, rho = rho)
let log_var[day] = level + h
observe r ~ normal(log_var = log_var)
report volatility[day] = exp(0.5 * log_var)
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
low, middle, high = fit.quantile("volatility", [0.05, 0.5, 0.95]).values
day = np.arange(1, days + 1)
ax.plot(day, np.abs(data["r"]), ".", color="0.75", markersize=3, label="|return|")
ax.fill_between(day, low, high, color="C0", alpha=0.3, linewidth=0)
ax.plot(day, middle, color="C0", label="volatility, 90 %")
ax.plot(day, np.exp(0.5 * (h - 1.0)), "k--", linewidth=1, label="truth")
ax.set(xlabel="day", ylabel="per cent", ylim=(0, 3))
ax.legend(frameon=False, ncols=3)
plt.show()
