"""A skewed posterior: exact, Gaussian and corrected."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import lgmdsl as lgm

model = lgm.loads("""
lgm 1
index ward
data deaths[ward] : count
data patients[ward] : count
latent theta[ward] ~ normal(sd = 10)
observe deaths ~ binomial(n = patients, logit = theta)
""")
data = {"deaths": [0], "patients": [47], "ward": ["A"]}
gaussian = lgm.fit(model, data, options={"marginals": "gaussian"})
corrected = lgm.fit(model, data)

x = np.linspace(-40.0, 5.0, 1000)
log_density = -0.5 * (x / 10.0) ** 2 - 47.0 * np.logaddexp(0.0, x)
exact = np.exp(log_density - log_density.max())
exact /= np.trapezoid(exact, x)

fig, ax = plt.subplots()
draws = corrected.sample(4000, seed=1)["theta"].values.ravel()
ax.hist(draws, bins=60, density=True, color="0.85", label="corrected (draws)")
ax.plot(x, exact, color="black", label="exact, by quadrature")
mean, sd = float(gaussian.mean("theta")[0]), float(gaussian.sd("theta")[0])
ax.plot(x, norm.pdf(x, mean, sd), color="C3", linestyle="--", label="Gaussian")
ax.set(xlabel="theta[A], the logit of the risk", ylabel="density", xlim=(-40, 2))
ax.legend(frameon=False)
