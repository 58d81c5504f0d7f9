"""Makes the parser's tables of the grammar: `python -m lgmdsl.language.parse.tables`.

The tables are kept in `grammars/lgm.json` and ship with the package, so that no process that reads
a model analyses the grammar or imports lark. A test compares the file with the grammar.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from lgmdsl import files
from lgmdsl.language.parse.grammar import OPENERS, grammar_folder, tables_file
from lgmdsl.language.tree.statements import STATEMENTS

if TYPE_CHECKING:
    from lark import Lark
    from lark.lexer import TerminalDef


def grammar() -> str:
    """The whole grammar: the file's, and for each statement its rule and its opening word."""
    rules = [f"{s.word}: {s.terminal} {s.rule} [STRING]" for s in STATEMENTS]
    words = [f'{s.terminal}: "{s.word}"' for s in STATEMENTS]
    shared = (grammar_folder() / "lgm.lark").read_text(encoding="utf-8")
    return "\n".join([shared, *rules, *words, ""])


def lark_parser() -> Lark:
    """lark's parser of the grammar: LALR(1) with a basic lexer; each statement's rule is a start
    symbol."""
    from lark import Lark

    return Lark(
        grammar(),
        source_path=str(grammar_folder() / "lgm.lark"),
        parser="lalr",
        lexer="basic",
        start=["header", "aside", *OPENERS.values()],
        propagate_positions=True,
        maybe_placeholders=False,
    )


def text_of_tables() -> str:
    """The content of `grammars/lgm.json` for the current grammar, one state to a line."""
    tables = _tables(lark_parser())
    parts = [f"{json.dumps(name)}: {_lines(value)}" for name, value in tables.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write() -> None:
    """Rewrite the tables."""
    files.write(tables_file(), text_of_tables().encode())


def _lines(value: Any) -> str:
    if not isinstance(value, list):
        return json.dumps(value, sort_keys=True)
    return "[\n " + ",\n ".join(json.dumps(v) for v in value) + "\n]"


def _tables(parser: Lark) -> dict[str, Any]:
    terminals = sorted(
        parser.terminals,
        key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name),
    )
    words = {str(t.pattern.value): str(t.name) for t in terminals if _is_word(t)}
    table = parser.parser.parser._parse_table
    order, rules = _numbered(table)
    states = [
        {
            symbol: order[arg] if action.name == "Shift" else ~rules[arg]
            for symbol, (action, arg) in sorted(table.states[state].items())
        }
        for state in order
    ]
    return {
        "words": words,
        "ignored": sorted(map(str, parser.ignore_tokens)),
        "terminals": [[str(t.name), t.pattern.to_regexp()] for t in terminals if not _is_word(t)],
        "rules": [[str(r.origin.name), len(r.expansion), _name(r)] for r in rules],
        "starts": {start: order[state] for start, state in table.start_states.items()},
        "ends": {start: order[state] for start, state in table.end_states.items()},
        "states": states,
    }


def _numbered(table: Any) -> tuple[dict[int, int], dict[Any, int]]:
    """States and rules in an order that depends on the grammar alone: that in which they are
    reached, over sorted symbols. (lark's own numbers change with the seed of the hash.)"""
    order: dict[int, int] = {}
    rules: dict[Any, int] = {}
    waiting = [state for _, state in sorted(table.start_states.items(), reverse=True)]
    while waiting:
        state = waiting.pop()
        if state in order:
            continue
        order[state] = len(order)
        for _, (action, arg) in sorted(table.states[state].items(), reverse=True):
            if action.name == "Shift":
                waiting.append(arg)
    for state in order:
        for _, (action, arg) in sorted(table.states[state].items()):
            if action.name != "Shift":
                rules.setdefault(arg, len(rules))
    return order, rules


def _is_word(terminal: TerminalDef) -> bool:
    """A reserved word: the scanner reads it as a name first."""
    return re.fullmatch(r"[A-Za-z]+", terminal.pattern.value) is not None


def _name(rule: Any) -> str:
    name = str(rule.alias or rule.origin.name)
    return "" if name.startswith("_") else name


if __name__ == "__main__":
    write()
