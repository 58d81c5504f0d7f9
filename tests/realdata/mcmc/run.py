"""Long MCMC of one case into `../references`.

python -m tests.realdata.mcmc.run CASE [DRAWS [WARMUP]], DRAWS for each of four chains. See
README.md in this folder."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import jax
import numpy as np
import numpyro
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

from tests.realdata.data import LOADERS, fingerprint

from .models import MODELS

HERE = Path(__file__).resolve()
DATA = HERE.parents[4] / "shared" / "data"
OUT = HERE.parents[1] / "references"
CHAINS = 4
LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)
DENSE = {"epil_51", "epil_53", "seeds_01", "seeds_02", "rats"}
DENSE |= {"salamander_1", "salamander_2", "salamander_3", "leukaemia_weibull"}
DENSE |= {"leukaemia_exponential", "coal", "scotland", "scotland_connected"}
TOGETHER = {
    "pound_dollar": [("phi_distance", "step_e", "mu")],
    "toenail": [("s", "b0", "b_trt", "b_time", "b_trt_time")],
    "epil_52": [("v0", "v1", "b0", "b_base", "b_trt", "b_base_trt", "b_age", "b_v4")],
}  # a mass matrix for these few, a diagonal for the rest
# coordinates of the sampler, of which no model file knows
HIDDEN = ("_e", "_root", "_distance", "_prior")
ALSO_HIDDEN = {"alone", "together", "sds", "line"}
INTERNAL = {"positive": ("log", np.log), "correlation": ("atanh", np.arctanh)}
HYPERS = {
    "positive": ("v", "v0", "v1", "v_f", "v_m", "sigma", "sigma0", "sigma1", "sigma_f", "sigma_m",
                 "s", "noise", "shape"),
    "correlation": ("phi",),
}  # fmt: skip


def with_other_scales(draws):
    """Hypers on their internal scales besides; of a covariance its sds and correlation."""
    out = {k: v for k, v in draws.items() if not k.endswith(HIDDEN) and k not in ALSO_HIDDEN}
    if "S" in out:
        S = out["S"]
        for k in (0, 1):
            out[f"sd{k + 1} S"] = np.sqrt(S[..., k, k])
            out[f"log sd{k + 1} S"] = 0.5 * np.log(S[..., k, k])
        out["corr S"] = S[..., 0, 1] / np.sqrt(S[..., 0, 0] * S[..., 1, 1])
        out["atanh corr S"] = np.arctanh(out["corr S"])
    for kind, names in HYPERS.items():
        word, internal = INTERNAL[kind]
        scalars = [k for k in names if k in out and out[k].ndim == 2]
        out |= {f"{word} {k}": internal(out[k]) for k in scalars}
    return out


def rounded(values):
    return [float(f"{x:.6g}") for x in np.ravel(values)]


def told(values):
    """Moments and quantiles of (chains, draws, ...)."""
    flat = values.reshape(-1, *values.shape[2:])
    with np.errstate(invalid="ignore", divide="ignore"):
        ess, rhat = effective_sample_size(values), split_gelman_rubin(values)
    assert np.isfinite(values).all() and np.isfinite(ess).all(), "a chain that went nowhere"
    found = {
        "shape": list(flat.shape[1:]),
        "mean": rounded(flat.mean(axis=0)), "sd": rounded(flat.std(axis=0)),
        "ess": [int(x) for x in np.ravel(ess)], "rhat": float(f"{np.max(rhat):.5g}"),
    }  # fmt: skip
    for level in LEVELS:
        found[f"q{100 * level:g}"] = rounded(np.quantile(flat, level, axis=0))
    return found


def main(case, draws=10000, warmup=2000):
    numpyro.enable_x64()
    data = LOADERS[case][1](DATA)
    kernel = NUTS(
        MODELS[case],
        dense_mass=TOGETHER.get(case, case in DENSE),
        target_accept_prob=0.9 if case in DENSE or case in TOGETHER else 0.8,
    )
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = time.process_time()
    mcmc.run(jax.random.PRNGKey(20), data, extra_fields=("diverging", "num_steps"))
    fields = {k: np.asarray(v) for k, v in mcmc.get_extra_fields(group_by_chain=True).items()}
    samples = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    quantities = {k: told(v) for k, v in sorted(with_other_scales(samples).items())}
    seconds = time.process_time() - start
    record = {
        "case": case, "fingerprint": fingerprint(case, DATA), "sampler": "numpyro NUTS",
        "version": numpyro.__version__, "chains": CHAINS, "draws": draws, "warmup": warmup,
        "divergences": int(fields["diverging"].sum()), "seconds": round(seconds),
        "quantities": quantities,
    }  # fmt: skip
    OUT.mkdir(exist_ok=True)
    (OUT / f"{case}.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")
    small = [k for k, q in quantities.items() if len(q["mean"]) <= 4]
    print(
        f"{case}: {seconds:.0f} CPU s, {record['divergences']} divergences, "
        f"{fields['num_steps'].mean():.0f} steps a draw, worst rhat "
        f"{max(q['rhat'] for q in quantities.values()):.4f}, least ess "
        f"{min(min(q['ess']) for q in quantities.values() if min(q['sd']) > 0)}; "
        + ", ".join(f"{k} {min(quantities[k]['ess'])}" for k in small),
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1], *(int(a) for a in sys.argv[2:]))
