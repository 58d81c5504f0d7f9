"""
Residuals that are correlated in time
=====================================

Investment of eleven firms over twenty years (Grunfeld 1958; the data come with statsmodels), given
their value and their capital. The residuals of a firm are autoregressive, and each firm has its own
scale. In nlme: ``gls(invest ~ value + capital, correlation = corAR1(form = ~ year | firm),
weights = varIdent(form = ~ 1 | firm))``.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

import lgmdsl as lgm

table = sm.datasets.grunfeld.load_pandas().data.astype({"year": int})
head = """
lgm 1
index row
index firm
index year = 1935..1954
data invest[row]  : real
data value[row]   : real
data capital[row] : real
data who[row]     : firm
data when[row]    : year
hyper s[firm] : positive ~ pc_sd(u = 500, alpha = 0.05)
latent a ~ flat
latent b ~ normal(sd = 10)
latent c ~ normal(sd = 10)
let mu[row] = a + b * value + c * capital
"""
independent = lgm.loads(head + "observe invest ~ normal(mean = mu, sd = s[who])")
correlated = lgm.loads(
    head
    + """
hyper r : correlation ~ uniform(lower = -1, upper = 1)
latent e[firm, year] ~ iid * ar1(sd = 1, rho = r)
observe invest ~ normal(mean = mu, residual = s[who] * e[who, when])
"""
)
columns = {"who": "firm", "when": "year"}
fits = {
    name: lgm.fit(model, table, mapping=columns)
    for name, model in (("independent", independent), ("autoregressive", correlated))
}
for name, fit in fits.items():
    print(f"{name}: log evidence {fit.log_evidence:.1f}")
print(fits["autoregressive"].tidy(["b", "c", "r"]).round(3).to_string(index=False))

# %%
# Residuals that are correlated tell less than as many that are not: the intervals are wider, and
# they lie elsewhere.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for k, (name, fit) in enumerate(fits.items()):
    for row, coefficient in enumerate(("b", "c")):
        low, middle, high = np.asarray(fit.quantile(coefficient, [0.05, 0.5, 0.95]))
        height, label = row + 0.2 * k - 0.1, name if not row else None
        left.plot([low, high], [height, height], color=f"C{k}", label=label)
        left.plot(middle, height, "o", color=f"C{k}")
left.set(yticks=[0, 1], yticklabels=["value", "capital"], ylim=(-0.6, 1.6), xlabel="coefficient")
left.legend(frameon=False)
residual = table["invest"] - np.asarray(fits["autoregressive"].mean("mu"))
scale = fits["autoregressive"].mean("s").to_series()
for firm, rows in table.groupby("firm"):
    right.plot(rows["year"], residual[rows.index] / scale[firm], linewidth=0.8)
right.set(xlabel="year", ylabel="residual / sd of the firm")
plt.show()
