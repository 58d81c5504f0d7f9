"""Each statement's descriptor: its rule, node, layout and words say the same."""

from __future__ import annotations

import ast as syntax
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from lgmdsl.errors import ModelError
from lgmdsl.language.builder import Model
from lgmdsl.language.check.check import CHECKS
from lgmdsl.language.checked import Kind
from lgmdsl.language.parse.grammar import OPENERS, RESERVED, grammar, parser
from lgmdsl.language.parse.parse import parse
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_model import print_model, print_statement
from lgmdsl.language.tree.statements import STATEMENTS, StatementDescriptor, described

each = pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.word)


def test_every_node_has_one_descriptor_and_one_check() -> None:
    nodes = [s.node for s in STATEMENTS]
    assert len(set(nodes)) == len(nodes)
    assert set(nodes) == set(get_args(ast.AnyStatement)) == set(CHECKS)


def test_kinds_of_symbols_are_the_statements_that_declare() -> None:
    assert set(get_args(Kind)) == {s.word for s in STATEMENTS if s.declares}


@each
def test_the_example_is_read_as_its_node_and_written_unchanged(
    statement: StatementDescriptor,
) -> None:
    (read,) = parse(f"lgm 1\n{statement.example}\n").statements
    assert type(read) is statement.node
    assert described(read) is statement
    doc = f'  "{read.doc}"' if read.doc is not None else ""
    assert print_statement(read) + doc == statement.example


@each
def test_a_description_a_comment_and_a_place_are_kept(statement: StatementDescriptor) -> None:
    bare = statement.example.partition('  "')[0]
    text = f'lgm 1\n\n# above\n{bare}  "about it"  # behind\n'
    tree = parse(text)
    (read,) = tree.statements
    assert (read.doc, read.comments, read.trailing) == ("about it", ("# above",), "# behind")
    assert text[read.span.start : read.span.end] == f'{bare}  "about it"'
    assert print_model(tree) == text


@each
def test_the_words_are_whole(statement: StatementDescriptor) -> None:
    assert statement.syntax.startswith(statement.word + " ")
    assert statement.summary.endswith(".") and "\n" not in statement.summary
    assert statement.heading
    assert bool(statement.categories) == bool(statement.distribution)
    assert ("dist" in statement.rule) == bool(statement.categories)
    assert statement.indexed == ("[dims]" in statement.rule)
    signs = {"~": "TILDE", "=": "EQUAL", ":": "COLON"}
    if statement.introduces is not None:
        assert signs[statement.introduces[1]] in statement.rule
    assert statement.group in {"", *(s.word for s in STATEMENTS if not s.group)}


@each
def test_a_name_stands_where_the_node_has_one(statement: StatementDescriptor) -> None:
    assert statement.named == ("name" in {f.name for f in fields(statement.node)})
    assert statement.named or not statement.declares


@each
def test_the_word_is_reserved_and_opens_a_start_symbol(statement: StatementDescriptor) -> None:
    assert statement.word in RESERVED and OPENERS[statement.terminal] == statement.word
    assert statement.word in parser().options.start
    assert f"{statement.word}: {statement.terminal} {statement.rule} [STRING]" in grammar()
    with pytest.raises(ModelError, match="has nothing after it"):
        parse(f"lgm 1\n{statement.word}\n")


@each
def test_the_builder_has_a_method_of_that_name(statement: StatementDescriptor) -> None:
    assert callable(getattr(Model, statement.word))


WORDS = {s.word for s in STATEMENTS} | {s.terminal for s in STATEMENTS}


def listed(node: syntax.AST) -> set[str]:
    """The opening words that a list, tuple, set or dictionary of the source holds."""
    if isinstance(node, syntax.Dict):
        inside = [k for k in node.keys if k is not None]
    elif isinstance(node, syntax.List | syntax.Tuple | syntax.Set):
        inside = node.elts
    else:
        return set()
    return WORDS & {n.value for n in inside if isinstance(n, syntax.Constant)}


def test_no_other_file_lists_the_statements(root: Path) -> None:
    """But for the types of symbols and graph nodes, which mypy wants written out, and the looks of
    the latter in a drawing."""
    exceptions = {"checked.py", "model_graph.py", "styles.py"}
    for file in sorted((root / "lgmdsl").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if sum(word in text for word in WORDS) < 5:
            continue
        tree = syntax.parse(text)
        longest = max((listed(node) for node in syntax.walk(tree)), key=len)
        assert len(longest) < 5 or file.name in exceptions, (file, longest)


TERMINALS = {"COLON": '":"', "TILDE": '"~"', "EQUAL": '"="', "STAR": '"*"', "_expr": "expr"}
DEFINITIONS = {
    "size": "NUMBER",
    "range": 'NUMBER ".." NUMBER',
    "labels": '"{" STRING {"," STRING} "}"',
    "head": '"head" "(" NAME ")"',
}


def in_ebnf(rule: str) -> str:
    """A rule of the grammar as the manual writes it."""
    for name, written in {**TERMINALS, **DEFINITIONS}.items():
        rule = re.sub(rf"(?<![\w\"]){name}\b", written, rule)
    rule = re.sub(r"(?<!\")\(([^()]*(?:\"\(\"[^()]*\"\)\"[^()]*)?)\)(?!\")", r"( \1 )", rule)
    return re.sub(r"\( ([^()]*) \)\*", r"{ \1 }", rule)


def test_the_grammar_of_the_manual_is_that_of_the_statements(root: Path) -> None:
    page = (root / "docs" / "reference" / "grammar.md").read_text(encoding="utf-8")
    lines = {name.strip(): rest.strip() for name, _, rest in (
        line.partition(" = ") for line in page.splitlines() if " = " in line)}  # fmt: skip
    assert lines["statement"].split(" | ") == [s.word for s in STATEMENTS]
    for s in STATEMENTS:
        assert lines[s.word] == f'"{s.word}" {in_ebnf(s.rule)} [STRING]'
