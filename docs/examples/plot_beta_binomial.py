"""
Proportions that vary: beta-binomial
====================================

Seeds that germinate, 8 to 30 on each plate. Plates differ by more than binomial chance, so that a
binomial model is too sure of the effect of a treatment; the beta-binomial learns how much they
differ.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(8)
plates, concentration = 60, 4.0
treated = np.arange(plates) % 2
seeds = rng.integers(8, 31, plates)
mean = 1.0 / (1.0 + np.exp(-(-0.4 + 0.7 * treated)))
chance = rng.beta(concentration * mean, concentration * (1.0 - mean))
data = {"y": rng.binomial(seeds, chance), "n": seeds, "treated": treated}

HEAD = """
lgm 1
index plate
data y[plate]       : count "seeds that germinated"
data n[plate]       : count "seeds"
data treated[plate] : binary
latent level  ~ normal(sd = 3)
latent effect ~ normal(sd = 2)
let eta[plate] = level + effect * treated
"""
binomial = lgm.fit(lgm.loads(HEAD + "observe y ~ binomial(n = n, logit = eta)"), data)
model = lgm.loads(
    HEAD
    + """
hyper c : positive ~ lognormal(mean = 2, sd = 1)
observe y ~ betabinomial(n = n, logit = eta, concentration = c)
"""
)
fit = lgm.fit(model, data)
print(fit.summary())
print(f"log evidence: binomial {binomial.log_evidence:.1f}, beta-binomial {fit.log_evidence:.1f}")

# %%
# The effect has a wider, honest interval. Ranks of the observations in their predictive
# distributions (PIT) are uniform under the beta-binomial, and pile up at both ends under the
# binomial.
fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
x = np.linspace(-0.5, 2.0, 200)
for name, one in (("binomial", binomial), ("beta-binomial", fit)):
    mean, sd = float(one.mean("effect")), float(one.sd("effect"))
    axes[0].plot(x, np.exp(-0.5 * ((x - mean) / sd) ** 2) / sd, label=name)
    axes[1].hist(
        np.asarray(one.pit().pointwise()), bins=10, range=(0, 1), histtype="step", label=name
    )
axes[0].axvline(0.7, color="k", linestyle="--", linewidth=1)
axes[0].set(xlabel="effect, log odds (dashed: truth)", yticks=[])
axes[1].set(xlabel="PIT")
axes[1].legend(frameon=False)
plt.show()
