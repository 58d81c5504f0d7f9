"""Runs the tables that `tables` makes of the grammar: text to tokens, tokens to a parse tree.

An LALR(1) automaton (DeRemer and Pennello, 1982) with one state stack. Rules whose name begins with
an underscore hand their children to the rule above.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

END = "$END"


class Token(str):
    """A word or a sign of the text: a `str` with its terminal and its place."""

    type: str
    start_pos: int
    end_pos: int

    __slots__ = ("end_pos", "start_pos", "type")

    def __new__(cls, type: str, text: str, start_pos: int, end_pos: int) -> Token:
        token = super().__new__(cls, text)
        token.type, token.start_pos, token.end_pos = type, start_pos, end_pos
        return token

    def retyped(self, type: str, text: str) -> Token:
        """Another token at the place of this one."""
        return Token(type, text, self.start_pos, self.end_pos)


@dataclass(eq=False, slots=True)
class Tree:
    """What a rule matched: its name (or alias), and the tokens and trees in it."""

    data: str
    children: list[Token | Tree]

    @property
    def start_pos(self) -> int:
        """Where its first token starts."""
        return self.children[0].start_pos

    @property
    def end_pos(self) -> int:
        """Where its last token ends."""
        return self.children[-1].end_pos

    def bottom_up(self) -> Iterator[Tree]:
        """All trees, each after those in it."""
        rows = [self]
        for tree in rows:
            rows += [child for child in reversed(tree.children) if isinstance(child, Tree)]
        return reversed(rows)


@dataclass(frozen=True, slots=True)
class Rule:
    """`origin` becomes a tree called `name` of the last `length` entries; no tree where `name`
    is empty."""

    origin: str
    length: int
    name: str


@dataclass(frozen=True)
class Tables:
    """`states[state][symbol]` is the next state, or ~r where rule r ends there; `starts` and `ends`
    are the states in which a start symbol's text begins and is complete; `words` are the reserved
    words with their terminals, `scanner` matches the next token."""

    scanner: re.Pattern[str]
    words: Mapping[str, str]
    ignored: frozenset[str]
    rules: tuple[Rule, ...]
    states: tuple[Mapping[str, int], ...]
    starts: Mapping[str, int]
    ends: Mapping[str, int]

    @classmethod
    def read(cls, path: Path) -> Tables:
        """The tables of a file that `tables.write` made."""
        stored = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in stored["terminals"])),
            stored["words"],
            frozenset(stored["ignored"]),
            tuple(Rule(*rule) for rule in stored["rules"]),
            tuple(stored["states"]),
            stored["starts"],
            stored["ends"],
        )

    def lex(self, text: str) -> Iterator[Token]:
        """The tokens of a text; the grammar has a terminal for every character."""
        offset = 0
        while offset < len(text):
            match = self.scanner.match(text, offset)
            if match is None or match.end() == offset:
                raise AssertionError(f"no terminal for {text[offset]!r}")
            type = match.lastgroup or ""
            if type not in self.ignored:
                word = match.group()
                if type == "NAME":
                    type = self.words.get(word, type)
                yield Token(type, word, offset, match.end())
            offset = match.end()

    def parse(self, start: str, tokens: Sequence[Token]) -> Tree | Stop:
        """The tree of a whole sequence of tokens, or where it stopped making sense."""
        stack = [self.starts[start]]
        values: list[list[Token | Tree]] = []
        end = self.ends[start]
        for position, token in enumerate([*tokens, Token(END, "", 0, 0)]):
            before = tuple(stack)
            if not self._reduce(token.type, stack, end, values):
                return Stop(position, self._accepted(before, end))
            values.append([token])
        tree = values[0][0]
        assert isinstance(tree, Tree)
        return tree

    def _reduce(
        self,
        type: str,
        stack: list[int],
        end: int,
        values: list[list[Token | Tree]] | None = None,
    ) -> bool:
        """Every reduction that a token brings about, then the step to the state behind it; whether
        it fits. At the end the start symbol's own state is reached in place of that step."""
        while True:
            action = self.states[stack[-1]].get(type)
            if action is None:
                return False
            if action >= 0:
                stack.append(action)
                return True
            rule = self.rules[~action]
            del stack[-rule.length :]
            stack.append(self.states[stack[-1]][rule.origin])
            if values is not None:
                children = [c for group in values[-rule.length :] for c in group]
                values[-rule.length :] = [[Tree(rule.name, children)] if rule.name else children]
            if type == END and stack[-1] == end:
                return True

    def _accepted(self, stack: Iterable[int], end: int) -> frozenset[str]:
        """The terminals that fit after these states."""
        states = [*stack]
        candidates = [s for s in self.states[states[-1]] if s.isupper()]
        return frozenset(s for s in candidates if self._reduce(s, [*states], end))


@dataclass(frozen=True)
class Stop:
    """Tokens could be read up to `position`, where only `accepts` (names of terminals) fit."""

    position: int
    accepts: frozenset[str]
