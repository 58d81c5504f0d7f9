"""
Correlated topics
=================

Counts of words in 120 short texts, each a mixture of three topics with correlated shares. The
topics are learned by EM.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

rng = np.random.default_rng(14)
words = 30
topics = np.full((3, words), 0.2)
for k in range(3):
    topics[k, 10 * k : 10 * k + 10] = 4.0
topics = np.array([rng.dirichlet(row) for row in topics])
z = rng.multivariate_normal([0, 0, 0], [[1, 0.6, -0.5], [0.6, 1, -0.5], [-0.5, -0.5, 1]], 120)
share = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
data = {"n": np.array([rng.multinomial(60, s @ topics) for s in share])}

model = lgm.loads("""
lgm 1
index text
index word
index topic = 3
data n[text, word] : count
hyper mu[topic]         : real       ~ normal(sd = 2)
hyper S[topic, topic]   : covariance ~ lkj_cov(eta = 1, u = 2, alpha = 0.05)
hyper beta[topic, word] : simplex    ~ dirichlet(alpha = 1.1)
latent z[text, topic] ~ iid * dense(cov = S)
let eta[text, topic] = mu + z
observe n ~ admixture(softmax = eta, emission = beta)
report share[text, topic] = softmax(eta, topic)
""")
fit = lgm.fit(model, data)
print(fit.status.name, fit.method, fit.hyper)

# %%
# The order of the topics is arbitrary; here they are matched with the true ones.
learned = fit.mean("beta").values
order = [int(np.argmax(learned @ topic)) for topic in topics]
fig, axes = plt.subplots(2, 1, figsize=(7, 3), sharex=True, layout="constrained")
axes[0].imshow(topics, aspect="auto", cmap="Greys")
axes[0].set(ylabel="truth", yticks=[])
axes[1].imshow(learned[order], aspect="auto", cmap="Greys")
axes[1].set(ylabel="learned", yticks=[], xlabel="word")
plt.show()
