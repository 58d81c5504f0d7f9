"""
Coal mining disasters
=====================

Explosions in British coal mines with ten deaths or more, by year, 1851 to 1962 (Jarrett 1979,
*Biometrika* 66; printed in Carlin, Gelfand and Smith 1992). When did they become rarer, and how
fast? A random walk says so without a change point being assumed.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

counts = """
4 5 4 1 0 4 3 4 0 6 3 3 4 0 2 6 3 3 5 4 5 3 1 4 4 1 5 5 3 4 2 5 2 2 3 4 2 1
3 2 2 1 1 1 1 3 0 0 1 0 1 1 0 0 3 1 0 3 2 2 0 1 1 1 0 1 0 1 0 0 0 2 1 0 0 0
1 1 0 2 3 3 1 1 2 1 1 1 1 2 3 3 0 0 0 1 4 0 0 0 1 0 0 0 0 0 1 0 0 1 0 1
"""
y = np.array(counts.split(), dtype=int)
year = np.arange(1851, 1963)

model = lgm.loads("""
lgm 1
index year
data y[year] : count

hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)

latent level   ~ normal(sd = 10)
latent f[year] ~ rw1(sd = s)

let eta[year] = level + f

observe y ~ poisson(log_rate = eta)
report  rate[year] = exp(eta) "explosions a year"
""")
fit = lgm.fit(model, {"y": y})
print(fit.summary())

# %%
# The rate falls from the 1880s to 1900, to a third: the walk is free to jump, and finds a slope
# over two decades where models with a change point put one year near 1890.
low, middle, high = fit.quantile("rate", [0.05, 0.5, 0.95]).values
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.bar(year, y, color="0.8", width=1.0, label="explosions")
ax.fill_between(year, low, high, alpha=0.3, label="90 % interval of the rate")
ax.plot(year, middle, label="median of the rate")
ax.set(xlabel="year", ylabel="a year")
ax.legend(frameon=False)
plt.show()
