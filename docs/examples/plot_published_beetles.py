"""
Beetles and links
=================

Beetles killed by five hours of carbon disulphide at eight doses (Bliss 1935, *Annals of Applied
Biology* 22), the data by which links are compared in textbooks and in the BUGS manual. The curve is
steeper at its upper end than a logit's is; evidences say by how much.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

log_dose = np.array([1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839])
data = {
    "killed": [6, 13, 18, 28, 52, 53, 61, 60],
    "n": [59, 60, 62, 56, 63, 59, 62, 60],
    "x": log_dose - log_dose.mean(),
}
text = """
lgm 1
index dose
data killed[dose] : count
data n[dose]      : count
data x[dose]      : real "log10 mg/l, about the mean"

latent a ~ normal(sd = 5)
latent b ~ normal(sd = 50)

let eta[dose] = a + b * x

observe killed ~ binomial(n = n, LINK = eta)
report  p[dose] = INVERSE
"""
links = {"logit": "invlogit(eta)", "probit": "normal_cdf(eta)", "cloglog": "1 - exp(-exp(eta))"}
fits = {
    link: lgm.fit(lgm.loads(text.replace("LINK", link).replace("INVERSE", inverse)), data)
    for link, inverse in links.items()
}
print(fits["cloglog"].summary())

# %%
# Differences of log evidences are log Bayes factors: the complementary log-log link, whose curve
# comes up slowly and ends steeply, is preferred by far. The fitted numbers of deaths are those
# of the BUGS manual.
best = max(float(fit.log_evidence) for fit in fits.values())
for link, fit in fits.items():
    expected = data["n"] * fit.mean("p").values
    print(f"{link:8s} {float(fit.log_evidence) - best:6.2f}  ", np.round(expected, 1))

# %%
killed, n = np.array(data["killed"]), np.array(data["n"])
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for link, fit in fits.items():
    ax.plot(log_dose, fit.mean("p").values, label=link)
low, high = fits["cloglog"].quantile("p", [0.05, 0.95]).values
ax.fill_between(log_dose, low, high, color="C2", alpha=0.2, label="90 %, cloglog")
ax.plot(log_dose, killed / n, "ko", markersize=4, label="observed")
ax.set(xlabel="log10 dose, mg/l", ylabel="share killed")
ax.legend(frameon=False)
plt.show()
