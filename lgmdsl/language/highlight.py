"""A model's text with its words marked up, for pages that show it."""

from __future__ import annotations

import re

from lgmdsl.html import Html
from lgmdsl.language.parse.grammar import RESERVED
from lgmdsl.vocabulary.page import every_name

_TOKEN = re.compile(
    r'(?P<c>#[^\n]*)|(?P<s>"[^"\n]*")|'
    r"(?P<n>\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<w>[A-Za-z]\w*)"
)


def highlighted(text: str) -> Html:
    """Comments, strings, numbers, statements and the vocabulary's names, each in a colour."""
    names = frozenset(every_name())
    out, end = [], 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        word = match.group()
        if kind == "w":
            called = text[match.end() : match.end() + 1] == "("
            kind = "k" if word in RESERVED else "f" if called and word in names else ""
        out.append(Html.of(text[end : match.start()]).text)
        shown = Html.of(word).text
        out.append(f'<span class="{kind}">{shown}</span>' if kind else shown)
        end = match.end()
    out.append(Html.of(text[end:]).text)
    return Html(f"<pre>{''.join(out)}</pre>")
