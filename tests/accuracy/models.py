"""A model of both files: no success in n trials leaves a long tail."""

ZERO = """lgm 1
index obs
data y[obs] : count
data n[obs] : count
latent a ~ normal(sd = 10)
let eta[obs] = a + 0
observe y ~ binomial(n = n, logit = eta)
"""
