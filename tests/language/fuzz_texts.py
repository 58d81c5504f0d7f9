"""Many texts that are almost models, each within a second and never outside LgmError.

`python tests/language/fuzz_texts.py 20000` tries that many and prints the count and the worst time.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lgmdsl.errors import LgmError
from lgmdsl.language.load import loads
from lgmdsl.testing.texts import MODEL, TOKENS


def texts(count: int, seed: int, sources: list[str]) -> Iterator[str]:
    """Token soups, mutated and shuffled models, random characters; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        kind = chance.randrange(6)
        if kind == 0:
            yield " ".join(chance.choices(TOKENS, k=chance.randrange(80)))
        elif kind == 1:
            yield "lgm 1\n" + "".join(chance.choices(TOKENS, k=chance.randrange(80)))
        elif kind == 2:
            yield "".join(chr(chance.randrange(0x3000)) for _ in range(chance.randrange(200)))
        elif kind == 3:
            lines = chance.choice(sources).splitlines()
            chance.shuffle(lines)
            yield "\n".join(["lgm 1", *lines[: chance.randrange(len(lines) + 1)]])
        else:
            text = chance.choice(sources)
            for _ in range(chance.randrange(1, 6)):
                at, length = chance.randrange(len(text) + 1), chance.randrange(10)
                new = chance.choice(["", *TOKENS, text[at : at + 30], chr(chance.randrange(0x500))])
                text = text[:at] + new + text[at + length :]
            yield text


def outcome(text: str) -> tuple[str, float]:
    """`model`, or the codes of the error, and the seconds it took."""
    start = time.perf_counter()
    try:
        loads(text)
        said = "model"
    except LgmError as error:
        said = "error"
        for found in error.diagnostics:
            assert found.message and found.code, text
    return said, time.perf_counter() - start


def main(count: int) -> None:
    """Run and report."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "examples"
    sources = [MODEL, *(p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.lgm")))]
    loads(MODEL)
    tally: Counter[str] = Counter()
    worst, slowest = 0.0, ""
    for text in texts(count, 1, sources):
        said, seconds = outcome(text)
        tally[said] += 1
        if seconds > worst:
            worst, slowest = seconds, text
    print(f"{count} texts: {dict(tally)}")
    print(f"worst {worst:.3f} s on a text of {len(slowest)} characters")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
