"""The manual's table of methods, computed from the declarations of sites, bounds and back ends.

python tests/architecture/methods_table.py      # rewrites the table in docs/choosing/methods.md
"""

from __future__ import annotations

from pathlib import Path

from lgmdsl.inference.routes import Refusal, Route, table
from lgmdsl.sites.catalogue import SITES
from lgmdsl_backends.catalogue import BACKENDS

START, END = "<!-- methods: computed -->", "<!-- end of methods -->"


def markdown() -> str:
    """A row for each site family, a column for each back end."""
    methods = BACKENDS.shipped()
    families = SITES.shipped()
    cells = table(families, methods)
    names = [m.spec.name for m in methods]
    lines = ["| site | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for site in families:
        shown = [_cell(cells[site.spec.name, name]) for name in names]
        kind = f"`{site.spec.name}`" + (" (potential)" if site.spec.potential else "")
        lines.append(f"| {kind} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _cell(found: Route | Refusal) -> str:
    if isinstance(found, Refusal):
        return f"no ({found.code})"
    return "yes" if found.bound is None else f"yes, {found}"


def rewrite(page: Path) -> None:
    """Put the computed table between the marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{START}\n{markdown()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    rewrite(Path(__file__).resolve().parents[2] / "docs/choosing/methods.md")
