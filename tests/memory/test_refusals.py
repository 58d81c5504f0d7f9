"""What no memory holds is refused by its name and size, before any of it is allocated.

Each fit runs under a limit of its address space that leaves a fraction of what it asks for.
"""

from __future__ import annotations

import sys

import pytest

from tests.memory.processes import told

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space")

ROOM = 1.2e9  # numba and the compiled kernels are loaded within it
BUDGET = "4GB"

LATENTS = '''
fit("""lgm 1
index place = 60000000
latent u[place] ~ normal(sd = 1)
potential u[0] ~ laplace(scale = 1)
""", {})
'''
LABELS = '''
fit("""lgm 1
index obs
index place
data y[obs] : real
data who[obs] : place
latent u[place] ~ normal(sd = 1)
observe y ~ normal(mean = u[who], sd = 1)
""", {"y": np.zeros(2), "who": np.arange(2), "place": np.arange(20_000_000)})
'''
PAIRS = '''
fit("""lgm 1
index a = 100000
index b = 100000
index obs
data y[obs] : real
latent f[a] ~ normal(sd = 1)
latent g[b] ~ normal(sd = 1)
let eta[a, b] = f + g
observe y ~ normal(mean = eta[0, 1], sd = 1)
""", {"y": np.zeros(3)})
'''
POTENTIALS = '''
fit("""lgm 1
index a = 100000
index b = 100000
latent f[a] ~ normal(sd = 1)
latent g[b] ~ normal(sd = 1)
potential f + g ~ laplace(scale = 1)
potential f - g ~ laplace(scale = 1)
""", {})
'''
TERM = '''
fit("""lgm 1
index a
index b
data y[a] : real
data u[a] : real
data v[b] : real
latent g[b] ~ normal(sd = 1)
observe y ~ normal(mean = sum(u * v * g, b), sd = 1)
""", {"y": np.zeros(100_000), "u": np.zeros(100_000), "v": np.zeros(100_000)})
'''
CONSTRAINTS = '''
fit("""lgm 1
index a = 30000
index b = 30000
latent f[a] ~ normal(sd = 1)
latent g[b] ~ normal(sd = 1)
potential f ~ laplace(scale = 1)
constrain f + sum(g, b) = 0
""", {})
'''
DENSE = '''
n = 40_000
fit("""lgm 1
index a
data x[a] : real
data y[a] : real
latent f[a] ~ gp(at = x, kernel = se(sd = 1, length = 1))
observe y ~ normal(mean = f, sd = 1)
""", {"x": np.arange(float(n)), "y": np.zeros(n)})
'''
GRAPH = '''
import scipy.sparse as sp
n, rng = 20_000, np.random.default_rng(0)
i, j = rng.integers(0, n, 5 * n), rng.integers(0, n, 5 * n)
graph = sp.csr_array((np.ones(5 * n), (i, j)), shape=(n, n))
graph = sp.csr_array(((graph + graph.T - sp.diags_array((graph + graph.T).diagonal())) > 0) * 1.0)
graph.eliminate_zeros()
fit("""lgm 1
index a
data y[a] : count
data g[a, a] : graph
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent f[a] ~ %s
observe y ~ poisson(log_rate = f)
""", {"y": np.ones(n), "g": graph}, method="laplace", fixed={"s": 1.0})
'''


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (LATENTS, ("E505", "latent `u[place]`", "60,000,000 entries: 15 GB", "is 4 GB")),
        (LABELS, ("E505", "latent `u[place]`", "20,000,000 entries: 5 GB")),
        (PAIRS, ("E505", "let `eta[a, b]`", "100,000 x 100,000 = 10,000,000,000 entries")),
        (POTENTIALS, ("E505", "`potential 1`", "10,000,000,000 entries: 2 TB")),
        (TERM, ("E505", "the predictor of `y`", "100,000 x 100,000 = 10,000,000,000 entries")),
        (CONSTRAINTS, ("E505", "`constrain`", "30,000 x 30,000 = 900,000,000 entries")),
    ],
    ids=["latents", "labels", "lets", "potentials", "terms", "constraints"],
)
def test_a_part_is_refused_by_name_and_size(script: str, words: tuple[str, ...]) -> None:
    said = told(script, ROOM, LGM_MEMORY=BUDGET)
    assert all(w in said for w in words), said
    assert "LGM_MEMORY=" in said


@pytest.mark.thorough
def test_a_larger_budget_is_the_remedy_that_it_is_said_to_be() -> None:
    small = LABELS.replace("20_000_000", "100_000")
    assert "latent `u[place]`" in told(small, ROOM, LGM_MEMORY="20MB")
    assert told(small, ROOM, LGM_MEMORY="400MB").strip() == "converged"


@pytest.mark.thorough
def test_a_dense_prior_is_refused_with_what_every_engine_would_hold() -> None:
    said = told(DENSE, ROOM, LGM_MEMORY=BUDGET)
    assert "40000 latents" in said and "the memory budget is 4 GB" in said, said


@pytest.mark.thorough
def test_a_graph_whose_scaling_would_not_end_is_refused() -> None:
    said = told(GRAPH % "besag(graph = g, sd = s)", ROOM, LGM_MEMORY="40GB")
    assert "E501" in said and "scaling this prior" in said and "car(graph = g" in said, said


@pytest.mark.thorough
def test_a_graph_whose_factor_no_budget_holds_is_refused_by_its_fill() -> None:
    said = told(GRAPH % "besag(graph = g, sd = s)", ROOM, LGM_MEMORY="500MB")
    assert "E505" in said and "the prior of `f`" in said and "19,999 unknowns" in said, said


COVARIANCE = '''
k, n, rng = 400, 40, np.random.default_rng(0)
what = np.concatenate([np.arange(k)])
fit("""lgm 1
index obs
index person
index item
data y[obs] : real
data who[obs] : person
data what[obs] : item
hyper S[item, item] : covariance ~ lkj_cov(eta = 2, u = 3, alpha = 0.05)
latent z[person, item] ~ iid * dense(cov = S)
observe y ~ normal(mean = z[who, what], sd = 0.5)
""", {"y": rng.normal(size=k), "who": np.repeat(np.arange(n), 10), "what": what,
      "person": np.arange(n), "item": np.arange(k)}, hyper="map", options={"learning_steps": 2})
'''


@pytest.mark.thorough
def test_learning_80_200_hypers_takes_memory_linear_in_their_number() -> None:
    """A dense matrix over them would take 51 GB."""
    assert told(COVARIANCE, ROOM).strip() == "iteration_limit"


def test_memory_that_runs_out_all_the_same_is_an_error_of_ours() -> None:
    """The budget is larger than what the process gets: the estimates let it pass."""
    said = told(DENSE.replace("40_000", "12_000"), 4e8, LGM_MEMORY="40GB")
    assert "E505" in said and "memory ran out while" in said and "budget is 40 GB" in said, said
    assert "LGM_MEMORY=" in said
