"""NumPyro's SVI on binary factor analysis: a Gaussian with full covariance for each person,
loadings and offsets as parameters with their priors (Python of its own with numpyro and jax).

    python binary_factors_svi.py data.npz SECONDS EVERY RATE

Prints one JSON object: `path`, a list of [CPU seconds without compilation, steps, objective], the
objective being evidence bound + log prior by 32 draws of every person's latents.
"""

import json
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.optim import Adam

jax.config.update("jax_enable_x64", True)
FACTORS = 3


def model(y: Any) -> None:
    persons, items = y.shape
    c = numpyro.param("c", jnp.zeros(items))
    loadings = numpyro.param("L", 0.1 * np.random.default_rng(0).standard_normal((items, FACTORS)))
    numpyro.factor("prior_c", dist.Normal(0.0, 3.0).log_prob(c).sum())
    numpyro.factor("prior_L", dist.Normal(0.0, 1.0).log_prob(loadings).sum())
    with numpyro.plate("persons", persons):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([FACTORS]).to_event(1))
        logits = c + z @ loadings.T
        numpyro.sample("y", dist.Bernoulli(logits=logits).to_event(1), obs=y)


def guide(y: Any) -> None:
    persons = len(y)
    mean = numpyro.param("mean", jnp.zeros((persons, FACTORS)))
    root = numpyro.param(
        "root",
        jnp.tile(jnp.eye(FACTORS), (persons, 1, 1)),
        constraint=dist.constraints.lower_cholesky,
    )
    with numpyro.plate("persons", persons):
        numpyro.sample("z", dist.MultivariateNormal(mean, scale_tril=root))


def main() -> None:
    path, limit, every, rate = sys.argv[1], *map(float, sys.argv[2:5])
    y = jnp.asarray(np.load(path)["y"], dtype=jnp.float64)
    svi = SVI(model, guide, Adam(lambda t: rate / jnp.sqrt(1.0 + t / 200.0)), Trace_ELBO())
    exact = Trace_ELBO(num_particles=32, vectorize_particles=False)
    state = svi.init(jax.random.PRNGKey(0), y)

    def some(state: Any, _: Any) -> Any:
        state, loss = svi.update(state, y)
        return state, loss

    steps = int(every)
    many = jax.jit(lambda s: jax.lax.scan(some, s, None, length=steps)[0])
    judge = jax.jit(lambda s, key: -exact.loss(key, svi.get_params(s), model, guide, y))
    jax.block_until_ready(many(state))
    jax.block_until_ready(judge(state, jax.random.PRNGKey(1)))
    seconds, found, count = 0.0, [], 0
    while seconds < limit:
        begin = time.process_time()
        state = jax.block_until_ready(many(state))
        seconds += time.process_time() - begin
        count += steps
        found.append([seconds, count, float(judge(state, jax.random.PRNGKey(count)))])
    print(json.dumps({"path": found}))


main()
