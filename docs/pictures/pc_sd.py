"""What pc_sd(u, alpha) says of a standard deviation, and of an effect with it."""

import matplotlib.pyplot as plt
import numpy as np

sd = np.linspace(0.0, 3.0, 400)
fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.0))
for u, alpha, colour in ((0.5, 0.05, "C0"), (1.0, 0.05, "C1"), (2.0, 0.05, "C2"), (1.0, 0.5, "C3")):
    rate = -np.log(alpha) / u
    name = f"u = {u:g}, alpha = {alpha:g}"
    left.plot(sd, rate * np.exp(-rate * sd), color=colour, label=name)
    rng = np.random.default_rng(0)
    effect = np.exp(np.abs(rng.normal(size=100_000)) * rng.exponential(1.0 / rate, 100_000))
    share = np.linspace(0.0, 0.99, 200)
    right.plot(share, np.quantile(effect, share), color=colour)
left.set(xlabel="standard deviation", ylabel="density", ylim=(0.0, 6.0))
left.legend(frameon=False, fontsize=8)
right.set(
    xlabel="share of the prior below", ylabel="factor exp|effect|", yscale="log", ylim=(1.0, 100.0)
)
