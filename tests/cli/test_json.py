"""`--json` on every command: one object with its schema number on stdout, errors too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run

FIELDS = {
    "schema", "method", "status", "guarantee", "engine", "memory_budget", "log_evidence", "seconds",
    "steps", "hyper", "latent", "log_evidence_corrected", "accuracy", "marginals",
}  # fmt: skip


def test_fit(run: Run, model: Path, data: Path) -> None:
    done = run("fit", model, data, "--set", "s=2", "--method", "laplace", "--json")
    found = done.json
    assert done.status == 0 and set(found) == FIELDS and found["schema"] == 1
    assert found["hyper"] == {"s": {"mean": 2.0, "sd": 0.0}}
    assert found["latent"]["w"]["dims"] == ["feat"] and len(found["latent"]["w"]["mean"]) == 3
    assert found["status"] == "converged" and found["guarantee"] == "approximate"


def test_long_latents_only_with_full(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "long.lgm"
    model.write_text(
        "lgm 1\nindex obs\ndata y[obs] : real\nlatent u[obs] ~ normal(sd = 1)\n"
        "observe y ~ normal(mean = u, sd = 1)\n"
    )
    data = tmp_path / "long.npz"
    np.savez(data, y=np.zeros(1001))
    done = run("fit", model, data, "--json")
    assert done.json["latent"] == {} and "--full" in done.err
    assert len(run("fit", model, data, "--json", "--full").json["latent"]["u"]["mean"]) == 1001


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "m.lgm"),
        ("check", "m.lgm", "d.npz"),
        ("info", "m.lgm"),
        ("info", "m.lgm", "d.npz"),
        ("explain", "m.lgm"),
        ("explain", "m.lgm", "d.npz"),
        ("graph", "m.lgm"),
        ("methods",),
        ("methods", "m.lgm"),
        ("help", "E203"),
        ("help",),
        ("fmt", "--check", "m.lgm"),
        ("simulate", "m.lgm", "--sizes", "obs=4,feat=2", "--set", "s=1"),
    ],
)
def test_every_command(
    run: Run, model: Path, data: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    done = run(*arguments, "--json")
    assert done.status == 0 and done.json["schema"] == 1


@pytest.mark.thorough
def test_saved_fit(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.nc"
    fitted = run("fit", model, data, "--set", "s=2", "--json", "-o", out).json
    assert run("summary", out, "--json").json == fitted
    found = run("predict", out, data, "--json").json
    assert found["schema"] == 1 and len(found["values"]["p_mean"]["values"]) == 40
    assert found["values"]["p_mean"]["dims"] == ["obs"] and len(found["labels"]["obs"]) == 40


def test_errors(run: Run, tmp_path: Path, model: Path) -> None:
    bad = tmp_path / "bad.lgm"
    bad.write_text("lgm 1\nindex a\nlatent u[a] = normal(sd = 1)\nlatent v ~ nrmal(sd = 1)\n")
    done = run("check", bad, "--json")
    assert done.status == 1 and done.err == "" and done.json["ok"] is False
    codes = [e["code"] for e in done.json["errors"]]
    assert "E101" in codes and "E103" in codes
    assert done.json["errors"][0]["range"]["start"] == {"line": 3, "column": 13}
    done = run("fit", bad, "d.npz", "--json")
    assert done.status == 1 and done.json["errors"][0]["code"] == "E101"
    done = run("fit", model, "--json")
    assert done.status == 2 and done.json["errors"][0]["code"] == "usage"
    done = run("fmt", bad, "--json")
    assert done.status == 1 and done.json["files"][0]["errors"][0]["code"] == "E101"


def test_what_json_lacks_is_null() -> None:
    from lgmdsl.cli.output import plain

    given = {"a": np.array([1.0, np.nan]), "b": float("inf"), "c": (1, "x"), "d": np.int64(3)}
    assert plain(given) == {"a": [1.0, None], "b": None, "c": [1, "x"], "d": 3}


def test_help_of_a_name(run: Run) -> None:
    """What a name stands for, in each of its categories."""
    text = run("help", "normal", "--json").json["text"]
    for word in ("structure", "observation family", "potential", "hyperprior"):
        assert f"{word} `normal`: " in text
    assert "y ~ N(mean, exp(s))" in text and "standard deviation of each entry" in text
    assert "did you mean besag or beta?" in run("help", "bessag").err


def test_help_of_a_command(run: Run) -> None:
    assert "lgm fit" in run("help", "fit", "--json").json["text"]
