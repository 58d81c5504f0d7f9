"""`lgm check` and `lgm explain` of a folder of shards, and what other commands say of one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.explain.of_shards import ShardsView
from lgmdsl.cli.main import main
from tests.shards.models import compiled, folder, passes_of, rows, text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = folder(tmp_path_factory.mktemp("shards") / "shards", rows("crossed"))
    made.with_suffix(".lgm").write_text(text("crossed"))
    return made


def test_what_a_folder_holds(place: Path) -> None:
    """Counts are those of the data; bytes are those that a question gets."""
    view = lgm.explain(lgm.loads(text("crossed")), place)
    assert isinstance(view, ShardsView)
    assert {n: size for n, size, _ in view.sizes} == {"obs": 240, "group": 15, "item": 5}
    assert view.eliminated == (("u", 15),) and view.shared == (("a", 1), ("b", 1), ("v", 5))
    assert (view.rows, view.groups, view.numbers) == (240, 15, 49)
    assert "p = 7" in str(view) and view.engine in str(view)
    canonical, planned = compiled(lgm.loads(text("crossed")), place)
    problem = planned.at(canonical.hypers.start({}))
    assert problem.engine.name == view.engine
    q = problem.engine.condition(
        tuple(np.eye(7)[None] for _ in problem.sites), problem.engine.prior_mean
    )
    assert not hasattr(q, "reason")
    passes = passes_of(canonical)
    before = passes.received
    (site,) = problem.sites
    site.pointwise(problem.engine.prior_mean[0], q.variance[0])  # type: ignore[attr-defined]
    assert passes.received - before == view.received


def test_vectors_of_groups_are_counted(tmp_path: Path) -> None:
    view = lgm.explain(lgm.loads(text("vectors")), folder(tmp_path / "s", rows("vectors")))
    assert isinstance(view, ShardsView) and view.eliminated == (("u", 30),)


def test_the_commands(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(place.with_suffix(".lgm"))
    for command in ("check", "explain"):
        assert main([command, model, str(place)]) == 0
        assert "u 15: each group in its shard" in capsys.readouterr().out
        assert main([command, model, str(place), "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["groups"] == 15 and len(said["shards"]) == 3
        assert said["shared"][2] == {"name": "v", "size": 5}
    assert said["eliminated"] == [{"name": "u", "size": 15}]
    for wrong in (["compare", model, str(place)], ["info", model, str(place)]):
        assert main(wrong) == 1
        err = capsys.readouterr().err
        assert "give the file that the shards were made of" in err and "E306" in err


def test_models_that_shards_do_not_take(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning of `check`, and no error of `explain`."""
    model = tmp_path / "m.lgm"
    flat = "u[group] ~ flat\nlatent v[item] ~ normal(sd = t)"
    model.write_text(text("crossed", latents=flat).replace("hyper s", "hyper q"))
    for command in ("check", "explain"):
        assert main([command, str(model), str(place)]) == 0
        said = capsys.readouterr()
        assert "is improper" in said.out + said.err
    model.write_text(text("crossed").replace("data x", "data z"))
    assert main(["check", str(model), str(place)]) == 1


def test_an_error_names_the_shard_in_a_note(tmp_path: Path) -> None:
    """And leaves its help as it is."""
    data = rows("poisson")
    data["x"] = np.where(np.arange(240) == 17, np.inf, data["x"])
    with pytest.raises(lgm.DataError) as caught:
        lgm.fit(lgm.loads(text("poisson")), folder(tmp_path / "s", data), fixed={"s": 0.5})
    found = caught.value.diagnostics[0]
    assert "in shard-0000" in found.note and "read by batches" in found.note
    assert "shard-" not in found.help and not any("shard-" in d for d in found.details)
