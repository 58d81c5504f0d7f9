"""Fits by Python's mixed-model packages, in an environment of their own: one line of JSON each.

python mixed_peers.py PEER FOLDER NAME ...: glmm, gpboost or mixedlm on the columns that `mixed.R`
wrote to FOLDER, by maximum likelihood, twice.
"""

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def formula(meta: Any) -> str:
    """Its columns as a formula; a random column that is a fixed one too has that one's name."""
    fixed = {c: f"x{k}" for k, c in enumerate(meta["columns"], 1)}
    first = "1" if fixed.pop("(Intercept)", None) else "0"
    random = []
    for k, term in enumerate(meta["terms"], 1):
        names = {c: fixed.get(c, f"z{k}_{j}") for j, c in enumerate(term, 1)}
        level = "1" if names.pop("(Intercept)", None) else "0"
        random.append(f"({' + '.join([level, *names.values()])} | g{k})")
    return f"y ~ {' + '.join([first, *fixed.values(), *random])}"


def by_glmm(meta: Any, d: Any) -> dict[str, Any]:
    import glmm

    given = {"weights": d.n.to_numpy(float)} if meta["family"] == "trials" else {}
    if d.o.any():
        given["offset"] = d.o.to_numpy(float)
    family = {"trials": "binomial", "Gamma": "gamma", "nbinom2": "negativebinomial"}
    rows = d.assign(y=d.y / d.n) if given.get("weights") is not None else d
    m = glmm.fit(
        rows, formula(meta), family.get(meta["family"], meta["family"]), reml=False, **given
    )
    sd = [float(s) for k in range(len(meta["terms"])) for s in np.atleast_1d(m.stddev_corr(k)[0])]
    return {
        "loglik": m.loglik, "converged": bool(m.converged), "singular": bool(m.singular),
        "beta": list(m.beta), "se": list(m.se), "sd": sd, "evaluations": m.n_eval + m.n_grad,
    }  # fmt: skip


def by_gpboost(meta: Any, d: Any) -> dict[str, Any]:
    import gpboost

    if any(t != ["(Intercept)"] for t in meta["terms"]) or d.o.any() or (d.n != 1).any():
        raise ValueError("not tried: correlated slopes, offsets, trials")
    names = {"gaussian": "gaussian", "poisson": "poisson", "binomial": "bernoulli_logit",
             "Gamma": "gamma", "nbinom2": "negative_binomial"}  # fmt: skip
    groups = d[[f"g{k}" for k in range(1, len(meta["terms"]) + 1)]].to_numpy()
    X = d[[f"x{k}" for k in range(1, len(meta["columns"]) + 1)]].to_numpy(float)
    m = gpboost.GPModel(group_data=groups, likelihood=names[meta["family"]])
    m.fit(y=d.y.to_numpy(float), X=X)
    return {"loglik": -float(m.get_current_neg_log_likelihood()), "converged": True,
            "evaluations": int(m._get_num_optim_iter())}  # fmt: skip


def by_mixedlm(meta: Any, d: Any) -> dict[str, Any]:
    import mixedlm

    given = {"offset": d.o.to_numpy(float)} if d.o.any() else {}
    if meta["family"] == "gaussian":
        m = mixedlm.lmer(formula(meta), d, REML=False, **given)
    else:
        from mixedlm import families as f

        laws = {"poisson": f.Poisson, "binomial": f.Binomial, "trials": f.Binomial}
        if meta["family"] == "trials":
            given["weights"], d = d.n.to_numpy(float), d.assign(y=d.y / d.n)
        m = mixedlm.glmer(formula(meta), d, family=laws[meta["family"]](), **given)
    loglik = m.logLik()
    return {"loglik": float(getattr(loglik, "value", loglik)), "converged": bool(m.converged)}


def main(peer: str, folder: str, names: list[str]) -> None:
    """One line for each."""
    work = {"glmm": by_glmm, "gpboost": by_gpboost, "mixedlm": by_mixedlm}[peer]
    for name in names:
        meta = json.loads((Path(folder) / f"{name}.json").read_text())
        d, spent = pd.read_csv(Path(folder) / f"{name}.csv"), list[float]()
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                while len(spent) < 2 and sum(spent) < 60:
                    began = time.process_time()
                    out = work(meta, d)
                    spent.append(time.process_time() - began)
            out |= {"first": spent[0], "warm": spent[-1]}
            out["message"] = "; ".join(sorted({type(w.message).__name__ for w in said}))
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            out = {"converged": False, "message": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"name": name, "tool": peer, **out}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
