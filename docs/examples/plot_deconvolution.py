"""
Deblurring an image
===================

A blurred and noisy image, and a Laplace prior on the differences between neighbouring pixels,
which preserves edges. The blur is an operator, applied by FFT and never stored as a matrix. The
scales of the noise and of the edges are learned.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import convolve2d

import lgmdsl as lgm

rng = np.random.default_rng(11)
n = 24
image = np.zeros((n, n))
image[4:14, 6:12] = 1.0
image[10:20, 14:20] = 0.6
width = np.arange(-2, 3)
psf = np.exp(-(width[:, None] ** 2 + width[None, :] ** 2) / 3.0)
psf /= psf.sum()
blurred = convolve2d(image, psf, mode="same", boundary="wrap") + rng.normal(0, 0.03, (n, n))

model = lgm.loads("""
lgm 1
index row
index col
index prow = 5
index pcol = 5
data psf[prow, pcol] : real
data y[row, col]     : real
hyper noise : positive ~ pc_sd(u = 0.2, alpha = 0.05)
hyper edge  : positive ~ pc_sd(u = 0.2, alpha = 0.05)
latent u[row, col] ~ flat
let blurred[row, col] = conv2(u, psf, boundary = "circular")
observe   y ~ normal(mean = blurred, sd = noise)
potential diff(u, row) ~ laplace(scale = edge)
potential diff(u, col) ~ laplace(scale = edge)
""")
fit = lgm.fit(model, {"psf": psf, "y": blurred}, hyper="map")
print(fit.summary())

# %%
fig, axes = plt.subplots(1, 4, figsize=(9.5, 2.6), layout="constrained")
pictures = {"truth": image, "blurred": blurred, "posterior mean": fit.mean("u").values}
for ax, (title, values) in zip(axes, pictures.items(), strict=False):
    ax.imshow(values, vmin=0, vmax=1, cmap="gray")
    ax.set(title=title, xticks=[], yticks=[])
axes[3].imshow(fit.sd("u").values, cmap="magma")
axes[3].set(title="posterior sd", xticks=[], yticks=[])
plt.show()
