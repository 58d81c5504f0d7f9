"""From a raw text to the `Source` that all positions refer to."""

from __future__ import annotations

import re
import unicodedata

from lgmdsl.errors import Diagnostic, ModelError, Source, Span
from lgmdsl.language.limits import MAX_CHARACTERS
from lgmdsl.visible import BIDIRECTIONAL

_TURNED = re.compile(f"[{BIDIRECTIONAL}]")


def as_source(text: str, name: str = "<text>") -> Source:
    """A text with its byte-order mark dropped and its line ends made `\\n`.

    Lone surrogates (undecodable bytes that Python smuggled in) become U+FFFD, so that every later
    message can be printed. Raises ModelError (E109) for a text over a million characters, for
    bidirectional overrides, embeddings and isolates, and for something that is no text.
    """
    if not isinstance(text, str):
        raise ModelError(
            Diagnostic(
                "E109",
                f"a model is a text (str), not {type(text).__name__}",
                help="lgm.load(path) reads a file, lgm.loads(text) a text",
            )
        )
    if len(text) > MAX_CHARACTERS:
        raise ModelError(
            Diagnostic(
                "E109",
                f"the text has {len(text):,} characters; a model has at most {MAX_CHARACTERS:,}",
                help="data do not belong in the model file: they bind by name when it is fitted",
            )
        )
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if any("\ud800" <= c <= "\udfff" for c in text) if not text.isascii() else False:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    source = Source(name, text)
    turned = None if text.isascii() else _TURNED.search(text)
    if turned is not None:
        raise ModelError(
            Diagnostic(
                "E109",
                f"a character that reorders what is shown ({unicodedata.name(turned[0])}) is here",
                Span(source, *turned.span()),
                "leave this out",
                help="delete it: the text is read in the order of its characters, in comments and "
                "labels too",
            )
        )
    return source
