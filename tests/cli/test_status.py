"""Every exit status (`lgmdsl/cli/README.md`), and that what is said goes to the right stream."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from lgmdsl.cli.group import COMMANDS
from lgmdsl.contract.status import Status
from lgmdsl_backends.laplace import Laplace
from tests.cli.conftest import Run


def test_ok(run: Run, model: Path, data: Path) -> None:
    done = run("fit", model, data, "--set", "s=2")
    assert done.status == 0 and done.err == ""
    assert "log evidence" in done.out and "w[feat]" in done.out


def test_wrong_model(run: Run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.lgm"
    bad.write_text("lgm 1\nindex a\nlatent u[a] = normal(sd = 1)\n")
    done = run("check", bad)
    assert done.status == 1 and done.out == ""
    assert "error[E101]" in done.err and "help: latent u[a] ~ normal(sd = 1)" in done.err


def test_wrong_data(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    arrays = dict(np.load(data))
    np.savez(tmp_path / "shifted.npz", **{**arrays, "y": arrays["y"] + 1})
    done = run("check", model, tmp_path / "shifted.npz")
    assert done.status == 1 and "error[E303]" in done.err and "y - 1" in done.err


def test_hyper_without_a_value(run: Run, model: Path, data: Path) -> None:
    assert run("fit", model, data).status == 0  # it is learned
    done = run("fit", model, data, "--hyper", "fixed")
    assert done.status == 1 and "error[E503]" in done.err and "--set s=VALUE" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "laplce"), "did you mean `laplace`"),
        (("--option", "nothing=1"), "E104"),
        (("--bound", "nothing"), "E103"),
        (("--method", "laplace", "--bound", "jaakkola"), "E504"),
    ],
)
def test_method_that_cannot(
    run: Run, model: Path, data: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = run("fit", model, data, "--set", "s=1", *arguments)
    assert done.status == 1 and said in done.err and done.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "--no-such-option"),
        ("fit", "m.lgm"),
        ("nothing",),
        ("fmt",),
        ("graph", "m.lgm", "--to", "png"),
        ("fit", "m.lgm", "d.npz", "--set", "s"),
        ("fit", "m.lgm", "d.npz", "--set", "s=one"),
        ("fit", "m.lgm", "d.npz", "--set", "s=1", "--set", "s=2"),
        ("fit", "m.lgm", "d.npz", "--tol", "0"),
        ("simulate", "m.lgm", "--sizes", "obs"),
        ("simulate", "m.lgm", "--sizes", "obs=0"),
        ("simulate", "m.lgm", "--sizes", "obs=many"),
        ("methods", "m.lgm", "--markdown"),
        ("help", "E999"),
    ],
)
def test_wrong_usage(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.status == 2 and done.out == ""
    assert done.err.startswith("lgm") and "= help: " in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_usage_of_each_command_shows_the_usual_one(run: Run, command: str) -> None:
    done = run(command, "--no-such-option")
    assert done.status == 2 and f"= help: lgm {command} " in done.err


def test_a_saved_fit_or_data_in_place_of_the_model(run: Run, model: Path, tmp_path: Path) -> None:
    done = run("impute", "m.fit.nc")
    assert done.status == 2
    assert "missing argument 'DATA', and `m.fit.nc` is no MODEL but data or a saved" in done.err
    assert "lgm impute model.lgm data.npz" in done.err
    assert "no MODEL" not in run("impute", "m.lgm").err
    rows = tmp_path / "rows.csv"
    rows.write_text("y,x\n1,2\n")
    done = run("fit", rows, model)
    assert done.status == 1 and "it holds data, by its name" in done.err
    assert "the model is the .lgm file, and comes before the data" in done.err


def test_flags_of_other_software(run: Run) -> None:
    said = run("fit", "m.lgm", "d.npz", "--iter", "100").err
    assert said.startswith("lgm fit: no such option '--iter'\n")
    assert "= help: `iter` of brms, Stan is `max_steps` here: --max-steps VALUE; lgm fit" in said
    assert "--option integration=VALUE" in run("fit", "m.lgm", "--int.strategy", "ccd").err
    assert "did you mean" in run("fit", "m.lgm", "--metod", "ep").err.lower()


def test_unknown_command_is_guessed(run: Run) -> None:
    assert "did you mean `lgm simulate`?" in run("simulat").err
    assert "lgm check m.lgm" in run("m.lgm").err


def test_not_converged(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.nc"
    done = run("fit", model, data, "--set", "s=2", "--max-steps", "1", "-o", out)
    assert done.status == 3 and out.is_file()
    assert "warning[W601]" in done.err and "step limit" in done.out
    again = run("summary", out, "--json")
    assert again.status == 0 and again.json["status"] == "iteration_limit"
    assert run("fit", model, data, "--set", "s=2", "--start-from", out).status == 0


def test_interrupted_fit_keeps_its_state(
    run: Run, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, step = [], Laplace.step

    def interrupted(self: Laplace, problem: object, state: object) -> object:
        taken.append(1)
        if len(taken) > 1:
            raise KeyboardInterrupt
        return step(self, problem, state)  # type: ignore[arg-type]

    monkeypatch.setattr(Laplace, "step", interrupted)
    out = tmp_path / "o.nc"
    done = run("fit", model, data, "--method", "laplace", "--set", "s=2", "-o", out)
    assert done.status == 130 and out.is_file()
    monkeypatch.undo()
    assert run("summary", out, "--json").json["status"] == str(Status.interrupted)


def test_interrupted_before_a_state(
    run: Run, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Laplace, "start", interrupted)
    done = run("fit", model, data, "--method", "laplace", "--set", "s=2")
    assert done.status == 130 and "before there was a result" in done.err


def test_defect(run: Run, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("a wire is loose")

    monkeypatch.setattr(Laplace, "start", broken)
    monkeypatch.delenv("LGM_TRACEBACK", raising=False)
    done = run("fit", model, data, "--method", "laplace", "--set", "s=2")
    assert done.status == 70 and "a wire is loose" in done.err and "report" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("LGM_TRACEBACK", "1")
    assert "Traceback" in run("fit", model, data, "--method", "laplace", "--set", "s=2").err
    done = run("fit", model, data, "--method", "laplace", "--set", "s=2", "--json")
    assert done.status == 70 and done.json["errors"][0]["code"] == "defect"


def test_places_are_checked_before_the_work(
    run: Run, model: Path, data: Path, tmp_path: Path
) -> None:
    for out in (tmp_path / "nowhere" / "o.nc", tmp_path / "o.txt", tmp_path):
        done = run("fit", model, data, "--set", "s=2", "-o", out)
        assert done.status == 1 and "E306" in done.err and done.out == ""


def test_version_and_help(run: Run) -> None:
    assert run("--version").out.startswith("lgm ")
    assert "simulate" in run("--help").out and "simulate" in run().out + run().err
    assert run("help", "fit").out == run("fit", "--help").out


def test_a_matrix_is_shown_how_to_pin(run: Run, root: Path) -> None:
    folder = root / "models" / "random_slopes"
    done = run("fit", folder / "model.lgm", folder / "data.npz", "--hyper", "fixed")
    assert done.status == 1 and "VALUE is a matrix, as in [[1, 0.3], [0.3, 2]]" in done.err


def test_no_command_is_answered_with_the_help(run: Run) -> None:
    done = run()
    assert done.status == 2 and done.err.startswith("Usage: lgm") and not done.out
    assert run("--json").json["errors"][0]["code"] == "usage"


@pytest.mark.parametrize(
    "setting", [("--tol", "nan"), ("--tol", "inf"), ("--set", "s=1_0"), ("--set", "s=" + "(" * 500)]
)
def test_numbers_that_are_none(run: Run, model: Path, data: Path, setting: tuple[str, ...]) -> None:
    done = run("fit", model, data, *setting)
    assert done.status == 2 and len(done.err) < 400


def test_damaged_result_files(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    place = tmp_path / "m.fit.nc"
    assert run("fit", model, data, "--set", "s=1", "-o", place).status == 0
    whole = place.read_bytes()
    for content in (whole[:3000], whole[:20] + bytes(4000), b"", b"x"):
        place.write_bytes(content)
        done = run("summary", place)
        assert done.status == 1 and "E306" in done.err and done.err.count("\n") < 4
        foreign = content == b"x"
        assert ("copy it again" in done.err) != foreign and (
            "fit.save wrote" in done.err
        ) == foreign
    place.write_bytes(whole[:3000])
    assert f"it has 3,000 of {len(whole):,} bytes" in run("summary", place).err
    stored = np.float64(run_log_evidence(run, model, data)).tobytes()
    at = whole.find(stored)
    place.write_bytes(whole[:at] + np.float64(0.5).tobytes() + whole[at + 8 :])
    done = run("summary", place)
    assert at > 0 and done.status == 1 and "is damaged" in done.err
    assert "copy it again" in done.err and "fit again" in done.err
    assert run("summary", tmp_path).err.count("is a folder") == 1


def run_log_evidence(run: Run, model: Path, data: Path) -> float:
    return float(run("fit", model, data, "--set", "s=1", "--json").json["log_evidence"])


def test_a_name_with_bytes_that_are_no_characters(
    run: Run, model: Path, data: Path, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"m\xff.lgm")
    odd.write_bytes(model.read_bytes())
    assert run("fit", odd, data, "--set", "s=1", "-o", tmp_path / "m.nc").status == 0
    assert run("summary", tmp_path / "m.nc").status == 0


def test_a_file_that_is_not_there_is_guessed(run: Run, model: Path, data: Path) -> None:
    done = run("fit", model, data.with_name("dat.npz"))
    assert done.status == 1 and f"did you mean `{data}`?" in done.err
    assert "= help: `" in run("summary", data.with_name("f.nc")).err or "check the path" in (
        run("summary", data.with_name("f.nc")).err
    )
    done = run("fit", "y ~ x + (1 | g)", data)
    assert "not a formula: `lgm help formula`" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--method", "inla"),
            "`inla` of R-INLA is `laplace` here, with --hyper integrate; methods",
        ),
        (("--method", "nuts"), "`nuts` of Stan, PyMC is `correction` here"),
        (("--method", "advi"), "`advi` of Stan, PyMC is `natural-gradient` here"),
        (("--hyper", "reml"), "`reml` of R is `map` here, under flat priors; there are: auto"),
        (("--hyper", "integrat"), "did you mean `integrate`?"),
    ],
)
def test_methods_and_treatments_of_other_software(
    run: Run, model: Path, data: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = run("fit", model, data, *arguments)
    assert done.status == 1 and "error[E103]" in done.err and said in " ".join(done.err.split())
    if "did you mean" not in said:
        assert said.split(";")[0] in " ".join(run("help", arguments[1]).out.split())
