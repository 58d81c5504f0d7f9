"""`lgm help`: words, codes and commands, as text and as data."""

from __future__ import annotations

import pytest

from lgmdsl.cli.group import COMMANDS
from lgmdsl.language.catalogue.codes import CATALOGUE
from lgmdsl.vocabulary.page import FIELDS
from tests.cli.conftest import Run

WORDS = (
    "rw2 pc_sd poisson gp matern sum invlogit observe index laplace bohning integrate converged "
    "lower sparse effort damping graph language indices data hyperparameters choosing-a-method "
    "piecewise-quadratic-20 head positive E203 W607 fit"
)

PLURALS = {"family": "families", "status": "statuses"}


@pytest.mark.few(5)
@pytest.mark.parametrize("word", WORDS.split())
def test_every_kind_of_word_is_explained(run: Run, word: str) -> None:
    done = run("help", word)
    assert done.status == 0 and len(done.out) > 200 and not done.err
    if word not in CATALOGUE and word not in ("fit", "piecewise-quadratic-20"):
        assert f"`{word}`: " in done.out


def test_a_word_and_a_command_of_one_name_are_both_shown(run: Run) -> None:
    out = run("help", "graph").out
    assert "type `graph`: " in out and "Usage: lgm graph" in out


def test_names_that_begin_with_what_was_asked_for_are_proposed(run: Run) -> None:
    done = run("help", "rw")
    assert done.status == 2 and not done.out
    assert "did you mean rw1, rw2 or rows?" in done.err
    assert "did you mean besag" in run("help", "bessag").err
    assert "structure" in run("help", "strukture").err.split("did you mean")[1]
    assert "E203" in run("help", "E2O3").err
    assert "lgm help lists them" in run("help", "qqqqqq").err


def test_the_list_has_every_kind_command_and_code(run: Run) -> None:
    out = run("help").out
    for kind in FIELDS:
        assert f"\n{kind}\n" in f"\n{out}"
    for word in ("rw2", "pc_sd", "converged", "choosing-a-method", *COMMANDS, *CATALOGUE):
        assert word in out


def test_fields_as_data(run: Run) -> None:
    done = run("help", "normal", "--json").json
    kinds = [p["kind"] for p in done["pages"]]
    assert kinds == ["observation family", "structure", "hyperprior", "potential"]
    for page in done["pages"]:
        assert page["name"] == "normal" and page["summary"] and page["example"]
        assert {a["name"] for a in page["arguments"]}
    listing = run("help", "--json").json
    assert set(listing) == {"schema", "words", "commands", "codes"}
    assert listing["words"]["structure"]["rw2"].startswith("random walk of order 2")


def test_every_role_of_a_word_is_shown(run: Run) -> None:
    out = run("help", "map").out
    assert "--map is the option `mapping`: lgm help mapping" in out
    assert "method `map`: " in out and "treatment of hyperparameters `map`: " in out


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", FIELDS)
def test_a_kind_in_the_plural_and_the_singular_lists_its_words(run: Run, kind: str) -> None:
    """Its whole name, and its last word: `observation families`, `families`."""
    first, _, last = kind.rpartition(" ")
    several = last if last.endswith("ters") else PLURALS.get(last, f"{last}s")
    listed = run("help", "--json").json["words"][kind]
    for asked in (kind, f"{first} {several}".strip(), several, last):
        done = run("help", *asked.split())
        assert done.status == 0 and f"words of the kind `{kind}`" in done.out, asked
        assert all(f"  {name}  " in done.out.replace("\n", "  ") for name in listed)
    assert run("help", *kind.split(), "--json").json["words"][kind] == listed


@pytest.mark.parametrize(
    ("asked", "found"), [("intercepts", "intercept"), ("matrns", ""), ("latents", "latent")]
)
def test_a_plural_finds_the_singular(run: Run, asked: str, found: str) -> None:
    done = run("help", asked)
    assert done.status == (0 if found else 2) and f"`{found}`" in done.out + "``"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("exposure", "exposure: positive = 1"),
        ("event", "weibull"),
        ("lower", "lower end of the interval"),
        ("trials", "`trials` of other software is the argument `n` here"),
        ("weights", "binomial(n = n)"),
        ("random effect", "concept `random-effect`"),
        ("Random-Effects", "`Random-Effects` is under `random-effect`"),
        ("frailty", "log frailty"),
        ("pc_prec", "`pc.prec` of R-INLA is `pc_sd` here\n"),
        ("iid", "`iid` of R-INLA is `normal` here: lgm help normal"),
        ("y ~ x + (1|g)", "concept `formula`"),
        ("--draws", "lgm fit --draws  Draws of --audit."),
        ("audit-sampler", "lgm summary --audit-sampler"),
    ],
)
def test_what_users_of_other_software_look_for(run: Run, words: str, said: str) -> None:
    done = run("help", *words.split()) if not words.startswith("-") else run("help", "--", words)
    assert done.status == 0 and said in done.out


def test_names_of_other_software_as_data(run: Run) -> None:
    done = run("help", "nbinom2", "--json").json
    assert done["elsewhere"] == [
        {"sentence": "`nbinom2` of glmmTMB is `negbinomial` here", "name": "negbinomial"}
    ]
    assert [p["name"] for p in done["pages"]] == ["negbinomial"]
    assert "nbinom2 (glmmTMB)" in done["pages"][0]["also_called"]
