"""The checker on trees made by hypothesis: verdicts that must not change, and no other error."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lgmdsl.errors import LgmError, ModelError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.language.check.check import check
from lgmdsl.language.parse.parse import parse
from lgmdsl.language.tree import ast
from lgmdsl.testing.trees import trees

GOOD = (Path(__file__).parent / "good.lgm").read_text(encoding="utf-8")


def codes(text: str) -> tuple[str, ...]:
    try:
        check(parse(text))
    except ModelError as error:
        return error.codes
    return ()


@st.composite
def models(draw: st.DrawFn) -> tuple[list[str], list[str], str]:
    """Declarations, terms of a predictor, and the rest: a model that is right."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    head = ["index obs", "data y[obs] : count", "hyper s : positive ~ exponential(rate = 1)"]
    terms = ["b0"]
    tail = ["latent b0 ~ normal(sd = s)"]
    for k, size in enumerate(sizes):
        structure = draw(
            st.sampled_from(
                [
                    "normal(sd = s)",
                    "iid",
                    "rw1(sd = s)",
                    "ar1(sd = s, rho = 0.5)",
                    "seasonal(sd = s, period = 4)",
                    "flat",
                ]
            )
        )
        head.append(f"index g{k} = {size}")
        kind = draw(st.sampled_from(["map", "design", "pick", "sum"]))
        tail.append(f"latent u{k}[g{k}] ~ {structure}")
        if kind == "map":
            head.append(f"data m{k}[obs] : g{k}")
            terms.append(f"u{k}[m{k}]")
        elif kind == "design":
            head.append(f"data X{k}[obs, g{k}] : real")
            terms.append(draw(st.sampled_from([f"X{k} @ u{k}", f"sum(X{k} * u{k}, g{k})"])))
        elif kind == "pick":
            terms.append(f"{draw(st.integers(1, 9))} * u{k}[{draw(st.integers(0, size - 1))}]")
        else:
            terms.append(f"sum(u{k}, g{k})")
    return head + tail, terms, "observe y ~ poisson(log_rate = eta)"


def program(declarations: list[str], terms: list[str], rest: str) -> str:
    return "\n".join(["lgm 1", *declarations, f"let eta[obs] = {' + '.join(terms)}", rest, ""])


@given(models(), st.randoms())
def test_right_models_are_right_in_any_order_of_terms(model: Any, random: Any) -> None:
    declarations, terms, rest = model
    one = check(parse(program(declarations, terms, rest)))
    assert warnings_of(model_graph(one)) == ()
    random.shuffle(terms)
    two = check(parse(program(declarations, terms, rest)))
    assert two.symbols["eta"].degree == one.symbols["eta"].degree == "affine"


@given(models(), st.data())
def test_renaming_keeps_the_verdict(model: Any, data: Any) -> None:
    declarations, terms, rest = model
    text = program(declarations, terms, rest)
    broken = data.draw(st.sampled_from(["", "u0", "eta", "obs]"]))
    if broken:
        text = text.replace(broken, "obs, obs]" if broken == "obs]" else "qq", 1)
    verdict = codes(text)
    assert codes(text.replace("u0", "zebra").replace("g0", "herd").replace("m0", "of")) == verdict


@given(models(), st.data())
def test_a_declaration_below_its_use_is_found(model: Any, data: Any) -> None:
    declarations, terms, rest = model
    used = [d for d in declarations if d.startswith("latent")]
    moved = data.draw(st.sampled_from(used))
    kept = [d for d in declarations if d != moved]
    assert codes(program(kept, terms, f"{moved}\n{rest}")) == ("E107",)
    assert codes(program(kept, terms, rest)) == ("E103",)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(trees)
def test_no_tree_raises_anything_but_a_model_error(tree: ast.Ast) -> None:
    try:
        check(tree)
    except LgmError as error:
        assert str(error)
        assert all(d.help or d.label for d in error.diagnostics)


@given(st.data())
def test_no_edit_of_a_right_model_raises_anything_but_a_model_error(data: st.DataObject) -> None:
    lines = GOOD.splitlines()
    words = sorted(set(GOOD.replace("[", " ").replace("]", " ").replace(",", " ").split()))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(1, len(lines) - 1))
        parts = lines[place].split(" ")
        parts[data.draw(st.integers(0, len(parts) - 1))] = data.draw(st.sampled_from(words))
        lines[place] = " ".join(parts)
    codes_or_syntax("\n".join(lines))


def codes_or_syntax(text: str) -> None:
    try:
        check(parse(text))
    except LgmError as error:
        assert str(error)


def test_the_work_grows_with_the_statements_alone() -> None:
    """Counted in calls, not in seconds: three times the statements, three times the calls."""

    def calls(count: int) -> int:
        name, index = ast.Name, ast.Name("obs")
        one = ast.Number(1.0)
        body: list[ast.AnyStatement] = [ast.Index(index)]
        for k in range(count):
            body.append(ast.Latent(name(f"u{k}"), (index,), (ast.Dist(name("iid")),)))
            body.append(ast.Let(name(f"e{k}"), (index,), ast.Binary("+", name(f"u{k}"), one)))
            body.append(ast.Let(name(f"w{k}"), (index,), name(f"missing{k}")))
        made = 0

        def counted(*_: object) -> None:
            nonlocal made
            made += 1

        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            with pytest.raises(ModelError):
                check(ast.Ast(tuple(body)))
        finally:
            sys.setprofile(before)
        return made

    calls(30)
    assert calls(900) < 4 * calls(300)
