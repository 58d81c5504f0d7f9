"""What a help line proposes, written into the text that it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lgmdsl.errors import Diagnostic
from lgmdsl.language.tree.statements import STATEMENTS

OPENERS = "|".join(s.word for s in STATEMENTS)
STATEMENT = re.compile(
    rf"(?:^|: |, |e\.g\. |declare |write )((?:{OPENERS}) (?!or )[a-zA-Z]\w*(?:[\[( =].*?)?)"
    r"(?:[;,] (?:then|or|and) .*|; .*)?$"
)
# Words of a pattern that the reader fills in, and of prose after `write`.
BLANKS = re.compile(r"\.\.\.|\b(?:[A-Z]{4,})\b")
PROSE = re.compile(r"^(?:a|an|the|one|such) |`")
WRITE = re.compile(r"^(?:.*?: )?write ([^`].*?)(?:,? (?:or|for|in place|with) .*)?$")
MEANT = re.compile(r"did you mean [`\"](.*?)[`\"]\?(?: ([a-z_0-9]+\(.*\)))?")
CALL = re.compile(r"^(?:[^:(]*: )?([a-z_0-9]+\(.*?\))(?:, or .*| with .*| for .*)?$")
TYPE = re.compile(r"declare `(?:data )?(\w+)(?:\[.*?\])?(?: :|` as) `?(\w+\??)`?")
LEAVE_OUT = re.compile(r"^leave out `(\w+)`(?: or `(\w+)`)?$")
HEAD = re.compile(r"[^~=]*")


def statements(text: str) -> list[tuple[int, int]]:
    """Where each statement begins and ends, what stands after it with it."""
    starts = [m.start(1) for m in re.finditer(rf"^\s*?({OPENERS})\b", text, re.M)]
    return [*zip(starts, [*starts[1:], len(text)] if starts else [], strict=True)]


def followed(text: str, found: Diagnostic) -> Iterator[str]:
    """The texts that a reader of the help may write; none where it proposes none."""
    begin, end, help = found.span.start, found.span.end, found.help
    place = next(((a, b) for a, b in statements(text) if a <= begin < b), (begin, end))
    proposed = STATEMENT.search(help)
    if proposed and not BLANKS.search(proposed[1]):
        yield from with_statement(text, proposed[1], place)
    parts = [m[1] for m in (WRITE.match(help), CALL.match(help)) if m]
    meant = MEANT.search(help)
    if meant:
        parts += [meant[1], f'"{meant[1]}"', *filter(None, [meant[2]])]
    for new in parts:
        if not BLANKS.search(new) and not PROSE.match(new):
            for a, b in spans(text, begin, end, place):
                yield text[:a] + new + text[b:]
                yield text.replace(text[a:b], new)
    kind = TYPE.search(help)
    if kind:
        yield retyped(text, kind[1], kind[2])
    leave = LEAVE_OUT.match(help)
    for name in filter(None, leave.groups() if leave else ()):
        body = re.sub(rf",?\s*\b{name}\s*=\s*[^,()]+", "", text[slice(*place)])
        yield text[: place[0]] + body.replace("(, ", "(") + text[place[1] :]


def retyped(text: str, name: str, kind: str) -> str:
    """A datum or hyper declared with another type."""
    declared = rf"^(\s*(?:data|hyper)\s+{name}\b[^:\n]*:\s*)\w+\??"
    return re.sub(declared, rf"\g<1>{kind}", text, flags=re.M)


def with_statement(text: str, new: str, place: tuple[int, int]) -> Iterator[str]:
    """In place of the statement at `place`, before it, or as the head of that of its name."""
    first = "\n" if text[: place[0]].strip() else ""
    yield text[: place[0]] + new + "\n" + text[place[1] :]
    yield text[: place[0]] + first + new + "\n" + text[place[0] :]
    subject = re.match(rf"(?:{OPENERS}) \w+", new)
    assert subject is not None
    for a, b in statements(text):
        if re.match(rf"{subject[0]}\b", re.sub(r"\s+", " ", text[a:b])):
            yield text[:a] + new + "\n" + text[b:]
            head = HEAD.match(text, a, b)
            assert head is not None
            yield text[:a] + new + " " + text[head.end() :]


def spans(text: str, begin: int, end: int, place: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The span, and what it stands in or begins: an argument, a call, an entry `u[...]`, a word."""
    yield begin, end
    for opener, closer in ("()", "[]"):
        calls = [*re.finditer(rf"[A-Za-z_.][\w.]*\s*\{opener}", text[: place[1]])]
        for m in reversed(calls):
            close = closing(text, m.end(), opener, closer)
            if m.start() <= begin and close >= min(end, begin + 1):
                yield m.start(), close
    for m in re.finditer(r"\w+\s*=\s*[^,()\n]+", text):
        if m.start() <= begin < m.end():
            yield m.span()
    word = re.compile(r"[\w.']+").match(text, begin)
    if word:
        yield word.span()


def closing(text: str, start: int, opener: str, closer: str) -> int:
    """Behind the bracket that closes what opens before `start`."""
    depth = 1
    for k in range(start, len(text)):
        depth += {opener: 1, closer: -1}.get(text[k], 0)
        if not depth:
            return k + 1
    return len(text)
