"""
Growth of rats
==============

Weights of 30 young rats over five weeks (Gelfand, Hills, Racine-Poon and Smith 1990, *JASA* 85): a
line for each rat, levels and slopes correlated. It is the first example of the BUGS manual, whose
posterior means are 242.7 g at day 22 and 6.19 g a day.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lgmdsl as lgm

weights = """
151 199 246 283 320  145 199 249 293 354  147 214 263 312 328  155 200 237 272 297
135 188 230 280 323  159 210 252 298 331  141 189 231 275 305  159 201 248 297 338
177 236 285 350 376  134 182 220 260 296  160 208 261 313 352  143 188 220 273 314
154 200 244 289 325  171 221 270 326 358  163 216 242 281 312  160 207 248 288 324
142 187 234 280 316  156 203 243 283 317  157 212 259 307 336  152 203 246 286 321
154 205 253 298 334  139 190 225 267 302  146 191 229 272 302  157 211 250 285 323
132 185 237 286 331  160 207 257 303 345  169 216 261 295 333  157 205 248 289 316
137 180 219 258 291  153 200 244 286 324
"""
y = np.array(weights.split(), dtype=float).reshape(30, 5)
days = np.array([8.0, 15.0, 22.0, 29.0, 36.0])
rat, occasion = np.divmod(np.arange(150), 5)
data = {"y": y.ravel(), "x": days[occasion] - 22.0, "who": rat}

model = lgm.loads("""
lgm 1
index obs
index rat
index term = {"level", "slope"}

data y[obs]   : real "weight, g"
data x[obs]   : real "days since day 22"
data who[obs] : rat

hyper noise         : positive   ~ pc_sd(u = 20, alpha = 0.05)
hyper S[term, term] : covariance ~ lkj_cov(eta = 2, u = 30, alpha = 0.05)

latent b[term]      ~ normal(sd = 1000)
latent d[rat, term] ~ iid * dense(cov = S)

let mu[obs] = b["level"] + d[who, "level"] + (b["slope"] + d[who, "slope"]) * x

observe y ~ normal(mean = mu, sd = noise)
report  level[rat] = b["level"] + d[rat, "level"] "weight at day 22, g"
report  slope[rat] = b["slope"] + d[rat, "slope"] "growth, g a day"
""")
fit = lgm.fit(model, data)
print(fit.summary())

# %%
# Each rat's least-squares line and its posterior: slopes are drawn towards the mean more than
# levels, which five weights determine well; the heavier a rat, the faster it grows.
alone = np.array([np.polyfit(days - 22.0, row, 1) for row in y])
level, slope = fit.mean("level").values, fit.mean("slope").values
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.plot(days, y.T, color="0.7", linewidth=0.7)
middle = fit.mean("b").values
left.plot(days, middle[0] + middle[1] * (days - 22.0), "k")
left.set(xlabel="day", ylabel="weight, g")
for k in range(30):
    right.plot([alone[k, 1], level[k]], [alone[k, 0], slope[k]], color="0.7", linewidth=0.8)
right.plot(alone[:, 1], alone[:, 0], "o", color="0.5", markersize=3, label="least squares")
right.plot(level, slope, "o", color="C0", markersize=4, label="posterior mean")
right.set(xlabel="weight at day 22, g", ylabel="g a day")
right.legend(frameon=False)
plt.show()
