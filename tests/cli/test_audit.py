"""`--audit` of fit, compare and summary: the page, JSON, files, exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from lgmdsl.accuracy import tails as pareto
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl_backends.laplace import Laplace
from tests.cli.conftest import Run

SMALL = ("--set", "s=2", "--method", "laplace", "--audit", "--draws", "300")


@pytest.mark.thorough
def test_fit(run: Run, model: Path, data: Path) -> None:
    done = run("fit", model, data, *SMALL)
    assert done.status == 0 and done.err.startswith("warning[W609]")
    page = done.out[done.out.index("\naudit\n") :]
    assert max(map(len, done.out.splitlines())) <= 80
    assert "300 from a" in page and "verdict" in page
    plain = run("fit", model, data, *SMALL[:4])
    assert plain.out.splitlines()[4:] == done.out[: done.out.index("\naudit\n")].splitlines()[4:]


@pytest.mark.thorough
def test_json_and_file(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.nc"
    found = run("fit", model, data, *SMALL, "--json", "-o", out).json
    audit = found["audit"]
    assert {"k_hat", "ess", "log_evidence", "log_evidence_se", "verdict"} <= set(audit)
    assert audit["draws"] == 300 and audit["corrected"]["w"]["dims"] == ["feat"]
    assert len(audit["corrected"]["w"]["mean"]) == 3
    assert run("summary", out, "--json").json == found
    assert "\naudit\n" in run("summary", out).out
    assert "audit" not in run("fit", model, data, *SMALL[:4], "--json").json


def test_summary_audits_with_the_data(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.nc"
    run("fit", model, data, *SMALL[:4], "-o", out)
    done = run("summary", out, "--audit")
    assert done.status == 1 and "E305" in done.err and "--data DATA" in done.err
    found = run("summary", out, "--audit", "--draws", "300", "--data", data, "--json").json
    own = run("fit", model, data, *SMALL, "--json").json
    assert found["audit"]["verdict"] == own["audit"]["verdict"]
    assert found["audit"]["log_evidence"] == pytest.approx(own["audit"]["log_evidence"], abs=1e-9)
    assert run("summary", out, "--data", data).status == 2


def test_compare(run: Run, model: Path, data: Path) -> None:
    asked = ("--set", "s=2", "--method", "laplace", "--method", "natural-gradient")
    done = run("compare", model, data, *asked, "--audit", "--draws", "300")
    assert done.status == 0 and "audit: 300 draws" in done.out
    found = run("compare", model, data, *asked, "--audit", "--draws", "300", "--json").json
    assert {"trust", "shifted", "undecided"} >= {m["audit"]["outcome"] for m in found["methods"]}


def test_without_arviz_nothing_is_fitted(
    run: Run, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pareto, "find_spec", lambda name: None)
    for command in ("fit", "compare"):
        done = run(command, model, data, "--set", "s=2", "--audit")
        assert done.status == 1 and "lgmdsl[arviz]" in done.err and done.out == ""


def test_a_failed_audit_does_not_lose_the_fit(
    run: Run, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> object:
        raise NumericalError(Diagnostic("E601", "the posterior cannot be drawn from: rounding"))

    monkeypatch.setattr("lgmdsl.api.assess.audit.audit_draws", failing)
    out = tmp_path / "o.nc"
    done = run("fit", model, data, *SMALL, "-o", out)
    assert done.status == 1 and "E601" in done.err and "w[feat]" in done.out and out.is_file()
    done = run("fit", model, data, *SMALL, "--json")
    assert done.status == 1 and done.json["audit"]["errors"][0]["code"] == "E601"
    assert done.json["status"] == "converged"
    done = run("compare", model, data, *SMALL[:4], "--audit")
    assert done.status == 0 and "laplace: no audit: the posterior cannot" in done.out


def test_interrupted_fits_are_not_audited(
    run: Run, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Laplace, "step", interrupted)
    done = run("fit", model, data, *SMALL)
    assert done.status == 130 and "interrupted" in done.out and "\naudit\n" not in done.out


def test_too_few_draws_are_wrong_usage(run: Run, model: Path, data: Path) -> None:
    done = run("fit", model, data, "--set", "s=2", "--audit", "--draws", "10")
    assert done.status == 2 and "--draws" in done.err


def test_draws_without_an_audit_are_wrong_usage(
    run: Run, model: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "o.nc"
    assert run("fit", model, data, *SMALL[:4], "-o", out).status == 0
    for given in (("fit", model, data), ("compare", model, data), ("summary", out)):
        done = run(*given, "--draws", "500")
        assert done.status == 2 and "write --audit --draws 500" in done.err and done.out == ""


@pytest.mark.thorough
def test_the_exact_sampler(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.nc"
    done = run("fit", model, data, *SMALL, "--audit-sampler", "-o", out)
    assert done.status == 0 and "from an exact sampler" in done.out and "R-hat 1.0" in done.out
    again = run("summary", out, "--audit", "--draws", "300", "--audit-sampler", "--data", data)
    assert again.status == 0 and "exact sampler" in again.out
    asked = ("--set", "s=2", "--method", "laplace", "--audit", "--audit-sampler", "--draws", "300")
    table = run("compare", model, data, *asked, "--json").json
    assert table["methods"][0]["audit"]["proposal"] == "exact sampler"
    alone = run("fit", model, data, *SMALL[:4], "--audit-sampler")
    assert alone.status == 2 and "write --audit --audit-sampler" in alone.err
