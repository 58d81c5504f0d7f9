"""From a raw text to the `Source` that all positions refer to."""

from __future__ import annotations

from lgmdsl.errors import Diagnostic, ModelError, Source
from lgmdsl.language.limits import MAX_CHARACTERS


def as_source(text: str, name: str = "<text>") -> Source:
    """A text with its byte-order mark dropped and its line ends made `\\n`.

    Lone surrogates (undecodable bytes that Python smuggled in) become U+FFFD, so that every later
    message can be printed. Raises ModelError (E109) for a text over a million characters, or for
    something that is no text.
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
    return Source(name, text)
