"""The builder's words: signatures, docstrings and types, made from the declarations."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import pydoc
import subprocess
import sys
from dataclasses import replace
from typing import assert_type

import pytest

import lgmdsl as lgm
from lgmdsl.api.help import stubs
from lgmdsl.language.constructors import constructor, constructor_names
from lgmdsl.language.expressions import Distribution, Expression
from lgmdsl.vocabulary.lookup import CATEGORIES, lookup, register, shipped, unregister
from lgmdsl.vocabulary.python_call import python_call
from lgmdsl.vocabulary.signature import Parameter, Signature

WORDS = tuple(dict.fromkeys(s.name for c in CATEGORIES for s in shipped(c)))


@pytest.mark.parametrize("word", WORDS)
def test_a_word_has_a_signature_and_its_page(word: str) -> None:
    made = constructor(word)
    taken = set(inspect.signature(made).parameters)  # type: ignore[arg-type]
    declared = [s for c in CATEGORIES for s in shipped(c) if s.name == word]
    forms = [f for s in declared for f in (s, s.other) if f]
    assert taken == {p.name for f in forms for p in f.accepted}
    text = made.__doc__
    assert text is not None and len(text) > 100
    assert all(s.summary in " ".join(text.split()) for s in declared)
    assert inspect.getdoc(made) == inspect.cleandoc(text)


def test_signatures() -> None:
    rw2 = inspect.signature(lgm.rw2)
    assert rw2.parameters["sd"].default is None  # another factor of a product may carry it
    assert rw2.parameters["cyclic"].default is False
    assert rw2.parameters["at"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.signature(lgm.pc_sd).parameters["u"].default is inspect.Parameter.empty
    total = inspect.signature(lgm.sum).parameters
    assert total["expr"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert inspect.signature(lgm.bernoulli).parameters["logit"].default is None


CENSORING = ("event", "lower", "upper")


def test_a_word_with_several_roles_takes_the_arguments_of_each() -> None:
    normal = inspect.signature(lgm.normal).parameters
    assert set(normal) == {
        "mean",
        "sd",
        "log_sd",
        "residual",
        "log_var",
        *CENSORING,
        "group",
        "weight",
    }
    assert all(p.default is None for p in normal.values())
    gamma = inspect.signature(lgm.gamma).parameters
    assert {"log_mean", "shape", "rate"} <= set(gamma)
    assert gamma["shape"].default is None  # a predictor may stand in its place
    assert gamma["rate"].default is None
    binomial = inspect.signature(lgm.binomial).parameters
    assert binomial["n"].default is inspect.Parameter.empty


def test_none_leaves_an_argument_out() -> None:
    assert repr(lgm.rw1(sd=1, at=None)) == "rw1(sd = 1)"
    assert repr(lgm.bernoulli(logit=0, probit=None)) == "bernoulli(logit = 0)"
    unknown: dict[str, None] = {"no_such": None}
    with pytest.raises(lgm.ModelError, match="NoneType"):
        lgm.normal(sd=1, **unknown)


def test_words_are_values() -> None:
    for word in (lgm.flat, lgm.rw2, lgm.exp):
        assert pickle.loads(pickle.dumps(word)) == word == copy.deepcopy(word)
    assert lgm.flat == constructor("flat") and lgm.flat != lgm.iid
    assert isinstance(lgm.flat, Distribution)
    assert repr(lgm.iid * lgm.rw1(sd=1)) == "iid * rw1(sd = 1)"


def test_help_shows_the_page() -> None:
    text = pydoc.plain(pydoc.render_doc(lgm.rw2))
    assert "class rw2(" in text and "random walk of order 2" in text and "cyclic" in text


def test_a_word_follows_its_declaration() -> None:
    first = Signature("acme_word", "prior", (Parameter("a", "positive"),), observed=("positive",))
    try:
        register(replace(first, summary="the first"))
        assert "the first" in (lgm.acme_word.__doc__ or "")
        assert list(inspect.signature(lgm.acme_word).parameters) == ["a"]
        unregister("prior", "acme_word")
        other = replace(first, parameters=(Parameter("b", "positive"),), summary="the second")
        register(other)
        assert "the second" in (lgm.acme_word.__doc__ or "")
        assert list(inspect.signature(lgm.acme_word).parameters) == ["b"]
    finally:
        unregister("prior", "acme_word")
    with pytest.raises(AttributeError):
        _ = lgm.acme_word


def test_a_choice_is_a_literal() -> None:
    diff = lookup("operator", "diff")
    assert diff is not None
    by_name = {a.name: a for a in python_call([diff])}
    assert by_name["boundary"].annotation == "Literal['none', 'circular', 'zero', 'reflect']"
    assert by_name["order"].default == 1.0 and not by_name["order"].required


# ---- the types that checkers see -------------------------------------------------------------


def test_stubs_are_up_to_date(request: pytest.FixtureRequest) -> None:
    """They are what is kept of all names, arguments and defaults: a diff shows what changed."""
    if request.config.getoption("--update-golden", default=False):
        stubs.PLACE.write_text(stubs.stubs(), encoding="utf-8")
    assert stubs.PLACE.read_text(encoding="utf-8") == stubs.stubs(), (
        "run python -m lgmdsl.api.help.stubs, or pytest with --update-golden"
    )


def test_stubs_have_every_public_name_with_a_type() -> None:
    tree = ast.parse(stubs.stubs())
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    annotated = {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign)}
    imported = {
        a.asname for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names if a.asname
    }
    assert set(constructor_names()) <= {*functions, *annotated}
    assert {n for n in dir(lgm) if not n.startswith("_")} <= {*functions, *annotated, *imported}
    for word in set(WORDS) & set(functions):
        returned = functions[word].returns
        assert isinstance(returned, ast.Name) and returned.id in ("Distribution", "Expression")
        every = [*functions[word].args.args, *functions[word].args.kwonlyargs]
        assert all(a.annotation is not None for a in every)
        assert "Any" not in ast.unparse(functions[word])


def test_types() -> None:
    """Checked by mypy: none of these is Any."""
    assert_type(lgm.rw2(sd=1), Distribution)
    assert_type(lgm.normal(mean=0, sd=1), Distribution)
    assert_type(lgm.flat(), Distribution)
    assert_type(lgm.se(sd=1, length=2) + lgm.white(sd=0.1), Expression)
    assert_type(lgm.exp(2), Expression)
    assert_type(lgm.const(2), Expression)


def test_the_namespace_holds_public_names_only() -> None:
    names = set(dir(lgm))
    assert not {"Any", "annotations", "import_module", "TYPE_CHECKING"} & names
    public = {n for n in names if not n.startswith("_")}
    assert public == {*lgm._HOMES, "const", "head", "sites", *constructor_names()}


def test_words_need_no_numpy() -> None:
    script = (
        "import sys, lgmdsl as lgm\n"
        "lgm.rw2(sd=1), lgm.pc_sd.__doc__, dir(lgm)\n"
        "assert not {'numpy', 'scipy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
