"""Mixed models next to lme4, glmmTMB and Python's packages: published tables, simulated scenarios,
and rows of MixedBench's registry. CPU seconds of a first fit and of another in the same process.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.mixed published FOLDER [NAME ...]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.mixed scenarios FOLDER [REPLICATES [TOOL ...]]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.mixed mixedbench FOLDER
    python -m tests.benchmarks.mixed table FOLDER
    python -m tests.benchmarks.mixed coverage FOLDER
    OMP_NUM_THREADS=1 python -m tests.benchmarks.mixed fit FOLDER lgmdsl|integrate NAME ...

LGM_PEER_PYTHON names a Python with `glmm gpboost mixedlm mixedbench pandas`; without it R alone is
the peer. R reads the formulas (`peers/mixed.R`), so that all fit the same columns. Results are
lines of FOLDER/results.jsonl, which `table` and `coverage` print. Scenarios cross three families,
10 and 50 groups, 5 and 20 rows for each, with and without a slope for each group (after Li and
Signorelli 2026).
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray
from tests.benchmarks.r_peers import SCRIPTS

Record = dict[str, Any]
TOOLS = ("lgmdsl", "integrate", "lme4", "glmmTMB", "glmm")  # of scenarios
PACKAGES = ("lme4", "nlme", "MASS", "glmmTMB", "mgcv", "mlmRev", "lattice", "boot", "datasets")
LAWS = {
    "gaussian": ("real", "normal(mean = eta, sd = e)", "hyper e : positive"),
    "poisson": ("count", "poisson(log_rate = eta)", ""),
    "binomial": ("binary", "bernoulli(logit = eta)", ""),
    "trials": ("count", "binomial(n = n, logit = eta)", ""),
    "nbinom2": ("count", "negbinomial(log_mean = eta, size = k)", "hyper k : positive"),
    "Gamma": ("positive", "gamma(log_mean = eta, shape = k)", "hyper k : positive"),
    "ordinal": ("score", "ordinal(logit = eta, cuts = k)", "hyper k[cut] : ordered"),
}
LIMIT = 300.0  # wall seconds for a fit by a peer
SLOPE, SDS = 0.5, {"intercept": 0.7, "slope": 0.4}  # of the scenarios, as in mixed.R


def fixed(meta: Record) -> list[int]:
    """Columns of fixed effects, from 1. Cuts stand for an intercept."""
    absent = "(Intercept)" if meta["family"] == "ordinal" else None
    return [k for k, column in enumerate(meta["columns"], 1) if column != absent]


def text(meta: Record, integrated: bool = False) -> str:
    """A model: all flat for a maximum of the likelihood, or with the manual's priors."""
    kind, law, parameter = LAWS[meta["family"]]
    prior = {True: "pc_sd(u = 1, alpha = 0.05)", False: "flat"}[integrated]
    lines = ["lgm 1", "index obs", "index column"]
    if kind == "score":
        lines += ['index score = {"1", "2", "3", "4"}', "index cut = head(score)"]
    lines += [f"data y[obs] : {kind}", "data X[obs, column] : real", "data o[obs] : real"]
    lines += ["data n[obs] : count"] if meta["family"] == "trials" else []
    lines += [f"{parameter} ~ {prior}"] if parameter else []
    lines.append(
        "latent b[column] ~ normal(sd = 5)" if integrated else "hyper b[column] : real ~ flat"
    )
    eta = "o + X @ b"
    for k, columns in enumerate(meta["terms"], 1):
        lines += [f"index g{k}", f"data w{k}[obs] : g{k}"]
        if len(columns) == 1:
            lines += [f"hyper s{k} : positive ~ {prior}", f"latent u{k}[g{k}] ~ normal(sd = s{k})"]
            lines += [] if columns == ["(Intercept)"] else [f"data z{k}[obs] : real"]
            eta += f" + u{k}[w{k}]" if columns == ["(Intercept)"] else f" + z{k} * u{k}[w{k}]"
        else:
            both = "lkj_cov(eta = 2, u = 1, alpha = 0.05)" if integrated else "flat"
            lines += [f"index t{k}", f"data z{k}[obs, t{k}] : real"]
            lines += [f"hyper S{k}[t{k}, t{k}] : covariance ~ {both}"]
            lines += [f"latent u{k}[g{k}, t{k}] ~ iid * dense(cov = S{k})"]
            eta += f" + sum(z{k} * u{k}[w{k}, t{k}], t{k})"
    return "\n".join([*lines, f"let eta[obs] = {eta}", f"observe y ~ {law}"]) + "\n"


def data(meta: Record, path: Path) -> dict[str, AnyArray]:
    """Columns of the model."""
    d = np.genfromtxt(path, delimiter=",", names=True)
    out: dict[str, AnyArray] = {"y": d["y"], "o": d["o"], "n": d["n"]}
    if meta["family"] == "ordinal":
        out["y"] = np.array(list("01234"))[d["y"].astype(int)]
    out["X"] = np.column_stack([d[f"x{k}"] for k in fixed(meta)])
    for k, columns in enumerate(meta["terms"], 1):
        z = np.column_stack([d[f"z{k}_{j + 1}"] for j in range(len(columns))])
        out |= {f"w{k}": d[f"g{k}"].astype(int), f"z{k}": z if len(columns) > 1 else z[:, 0]}
    model = text(meta)
    return {name: values for name, values in out.items() if f"data {name}[" in model}


def roots(meta: Record, fit: Any) -> list[AnyArray]:
    """Covariances of each term."""
    found = []
    for k, columns in enumerate(meta["terms"], 1):
        at = np.asarray(fit.mean(f"S{k}" if len(columns) > 1 else f"s{k}"))
        found.append(at if len(columns) > 1 else at.reshape(1, 1) ** 2)
    return found


def ours(folder: Path, name: str, integrated: bool, runs: int = 2) -> Record:
    """A fit, as the peers' scripts tell theirs."""
    meta = json.loads((folder / f"{name}.json").read_text())
    columns, spent = data(meta, folder / f"{name}.csv"), []
    given: dict[str, Any] = {} if integrated else {"method": "laplace", "hyper": "map"}
    tool = "integrate" if integrated else "lgmdsl"
    try:
        for _ in range(runs):
            began = time.process_time()
            fit = lgm.fit(lgm.loads(text(meta, integrated)), columns, **given)
            spent.append(time.process_time() - began)
        scale = float(fit.mean("e")) if meta["family"] == "gaussian" else 1.0
        covariances = roots(meta, fit)
        sd = [float(s) for c in covariances for s in np.sqrt(np.diag(c))]
        least = min(_least(c) for c in covariances) / scale
        beta, se = np.asarray(fit.mean("b")), np.asarray(fit.sd("b"))
        low, high = (np.asarray(fit.quantile("b", [p])).reshape(-1) for p in (0.025, 0.975))
        learning, edge = fit.learning, any(w.code == "W605" for w in fit.warnings)
        return {
            "name": name, "tool": tool, "first": spent[0], "warm": spent[-1],
            "loglik": fit.log_evidence, "converged": bool(fit.converged),
            "singular": least < 1e-4 or edge, "method": fit.method,
            "beta": beta.tolist(), "se": se.tolist(), "low": low.tolist(), "high": high.tolist(),
            "sd": sd, "evaluations": learning.fits if learning else 1, "share": _share(fit),
            "message": "; ".join(f"{w.code} {w.message}" for w in fit.warnings),
            "engine": fit.engine, "status": fit.status.name,
        }  # fmt: skip
    except lgm.LgmError as error:  # a failure is a result
        said = f"{type(error).__name__}: {error}"[:600]
        return {"name": name, "tool": tool, "converged": False, "message": said}


def _share(fit: Any) -> float:
    """What the estimate of errors takes of a fit's wall seconds."""
    spent = {stage.name: stage.seconds for stage in fit.stages}
    return float(spent.get("assess", 0.0) / sum(spent.values()))


def _least(covariance: AnyArray) -> float:
    """The smallest diagonal entry of the Cholesky factor: lme4's sign of a singular fit."""
    values = np.linalg.qr(_root(covariance).T, mode="r")
    return float(np.abs(np.diag(values)).min())


def _root(covariance: AnyArray) -> AnyArray:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def commands(
    folder: Path, names: list[str], tools: tuple[str, ...]
) -> Iterator[tuple[str, list[str]]]:
    """Processes that fit these models by these tools."""
    python, at = os.environ.get("LGM_PEER_PYTHON", ""), str(folder.resolve())
    for tool in tools:
        if tool in ("lgmdsl", "integrate"):
            yield tool, [sys.executable, "-m", "tests.benchmarks.mixed", "fit", at, tool, *names]
        elif tool in ("lme4", "glmmTMB"):
            yield tool, ["Rscript", str(SCRIPTS / "mixed.R"), "fit", at, tool, *names]
        elif python:
            yield tool, [python, str(SCRIPTS / "mixed_peers.py"), tool, at, *names]


def run(folder: Path, names: list[str], tools: tuple[str, ...], limit: float) -> None:
    """Append to the results."""
    for tool, command in commands(folder, names, tools):
        try:
            ended = subprocess.run(
                command, check=False, text=True, capture_output=True, timeout=limit
            )
            lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
            said = f"ended by {ended.returncode}: {ended.stderr[-200:]}"
        except subprocess.TimeoutExpired:
            lines, said = [], f"not within {limit:.0f} s"
        done = {json.loads(line)["name"] for line in lines}
        lost = [{"name": n, "tool": tool, "converged": False, "message": said} for n in names]
        lines += [json.dumps(record) for record in lost if record["name"] not in done]
        with (folder / "results.jsonl").open("a") as file:
            file.writelines(line + "\n" for line in lines)


def written(folder: Path, *arguments: str) -> list[Record]:
    """Models that R writes to the folder, and what it says of them."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["Rscript", str(SCRIPTS / "mixed.R"), arguments[0], str(folder), *arguments[1:]]
    ended = subprocess.run(command, check=True, text=True, capture_output=True)
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def published(folder: Path, names: list[str]) -> None:
    """Each model by each tool, a process for each."""
    written(folder, "published")
    for name in names or sorted(path.stem for path in folder.glob("*.json")):
        run(folder, [name], ("lgmdsl", "glmm", "gpboost", "mixedlm", "lme4", "glmmTMB"), LIMIT)


def scenarios(folder: Path, replicates: int, tools: tuple[str, ...]) -> None:
    """Every scenario by each tool, which fits all of its replicates in one process; what there are
    results of is not run again."""
    done = results(folder) if (folder / "results.jsonl").exists() else {}
    families = ("gaussian", "poisson", "binomial")
    for family, groups, size, random in product(families, (10, 50), (5, 20), SDS):
        name = f"{family} {groups} x {size} {random}"
        slope = "slope" if random == "slope" else "none"
        written(folder, "scenario", name, family, str(groups), str(size), slope, str(replicates))
        names = [f"{name}-{r + 1}" for r in range(replicates)]
        left = tuple(t for t in tools if any(t not in done.get(n, {}) for n in names))
        run(folder, names, left, 60.0 * replicates)


def mixedbench(folder: Path) -> None:
    """Rows of the registry whose tables ship with Debian's R packages, by lme4 and here."""
    script = "from mixedbench.registry import path; print(path())"
    python = os.environ["LGM_PEER_PYTHON"]
    found = subprocess.run([python, "-c", script], check=True, text=True, capture_output=True)
    at, folder = Path(found.stdout.strip()), folder.resolve()
    fits: dict[str, Record] = {}
    for file in ("registry.csv", "fits.csv"):
        for row in csv.DictReader((at / file).open()):
            if row["source"] in PACKAGES:
                key = "/".join(row[k] for k in ("source", "object", "model_index"))
                fits[key] = {**fits.get(key, {}), **row}
    folder.mkdir(parents=True, exist_ok=True)
    names = {key: key.replace("/", " ") for key, row in fits.items() if "status" in row}
    with (folder / "rows.csv").open("w", newline="") as out:
        kept = ("name", "source", "object", "formula", "family", "types", "status", "seconds")
        writer = csv.DictWriter(out, kept, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**fits[key], "name": name} for key, name in names.items())
    refused = {r["name"]: r["message"] for r in written(folder, "rows", str(folder / "rows.csv"))}
    with (folder / "results.jsonl").open("a") as lines:
        for key, name in names.items():
            said = fits[key]["message"] or refused.get(name, "")
            record = {"name": name, "tool": "registry", "message": said}
            lines.write(json.dumps({**record, "status": fits[key]["status"]}) + "\n")
    fitted = [name for name in names.values() if name not in refused]
    run(folder, fitted, ("lgmdsl", "glmm", "lme4", "glmmTMB"), LIMIT * len(fitted))


def results(folder: Path) -> dict[str, dict[str, Record]]:
    """The last of each model and tool."""
    found: dict[str, dict[str, Record]] = {}
    for line in (folder / "results.jsonl").read_text().splitlines():
        record = json.loads(line)
        found.setdefault(record["name"], {})[record["tool"]] = record
    return found


def table(folder: Path) -> None:
    """A row for each model: CPU seconds, and how far ours is above each peer's likelihood."""
    for name, by in results(folder).items():
        own = by.get("lgmdsl", {})
        at = own.get("loglik") or np.nan
        cells = [f"{at:.6f} by {own.get('evaluations', '')} fits"]
        cells += [f"{t}: {_cell(r, at)}" for t, r in by.items() if t != "registry"]
        cells += [f"registry: {by['registry']['status']}"] if "registry" in by else []
        print(f"| {name} | {' | '.join(cells)} | {own.get('message', '')}")


def _cell(record: Record, at: float) -> str:
    if record.get("loglik") is None:
        return f"failed ({record.get('message', '')[:60]})"
    marks = "" if record["converged"] else " not converged"
    marks += " singular" if record.get("singular") else ""
    return f"{record['first']:.3g}, {record['warm']:.3g} s, {at - record['loglik']:+.1e}{marks}"


def coverage(folder: Path) -> None:
    """A row for each scenario, a number for each of TOOLS: how many converged and are singular,
    bias of the slope and of the sds, coverage of 95 % intervals of the slope, median CPU ms."""
    by: dict[str, dict[str, list[Record]]] = {}
    for name, tools in results(folder).items():
        for tool, record in tools.items():
            by.setdefault(name.rsplit("-", 1)[0], {}).setdefault(tool, []).append(record)
    for name, fits in by.items():
        columns = [_told(fits[tool]) for tool in TOOLS if tool in fits]
        print(f"| {name} | {' | '.join(', '.join(cell) for cell in zip(*columns, strict=True))} |")


def _told(records: list[Record]) -> list[str]:
    """Cells of `coverage`."""
    kept = [r for r in records if r.get("beta") and None not in r["se"]]
    low, high = np.array([_interval(r) for r in kept]).T
    sds = np.array([r["sd"] for r in kept], dtype=float)
    true = np.array([SDS["intercept"], SDS["slope"]][: sds.shape[1]])
    return [
        str(sum(bool(r["converged"]) for r in records)),
        str(sum(bool(r.get("singular")) for r in records)),
        f"{np.mean([r['beta'][1] for r in kept]) - SLOPE:+.2f}",
        "/".join(f"{v:+.2f}" for v in np.mean(sds - true, axis=0)),
        f"{np.mean((low <= SLOPE) & (high >= SLOPE)):.2f}",
        f"{1e3 * np.median([r['warm'] for r in kept]):.3g}",
    ]


def _interval(record: Record) -> tuple[float, float]:
    """95 % for the slope: quantiles here, Wald's elsewhere."""
    if "low" in record:
        return record["low"][1], record["high"][1]
    half = 1.959964 * record["se"][1]
    return record["beta"][1] - half, record["beta"][1] + half


def main(arguments: list[str]) -> None:
    """See the module."""
    work, folder = arguments[0], Path(arguments[1])
    if work == "fit":
        tool, names = arguments[2], arguments[3:]
        for name in names:
            runs = 1 if len(names) > 1 else 2
            print(json.dumps(ours(folder, name, tool == "integrate", runs)), flush=True)
    elif work == "published":
        published(folder, arguments[2:])
    elif work == "scenarios":
        replicates = int(arguments[2]) if len(arguments) > 2 else 20
        scenarios(folder, replicates, tuple(arguments[3:]) or TOOLS)
    else:
        {"mixedbench": mixedbench, "table": table, "coverage": coverage}[work](folder)


if __name__ == "__main__":
    main(sys.argv[1:])
