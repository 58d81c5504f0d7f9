"""The page that `lgm explain` prints."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from lgmdsl.api.page import columns, counted, wrapped
from lgmdsl.memory import size_text

if TYPE_CHECKING:
    from lgmdsl.api.explain.views import Explanation, SiteView


def page(explanation: Explanation) -> str:
    """The explanation as text in 80 columns."""
    name = os.path.basename(explanation.model)
    title = f"{name} with {explanation.data}" if explanation.data else f"{name} (no data given)"
    parts = [title, ""]
    parts += _section("indices", _sizes(explanation))
    parts += _section("hyperparameters", _hypers(explanation))
    parts += _section("priors", _priors(explanation))
    parts += _section("sites", [row for site in explanation.sites for row in _site(site)])
    parts += _section(
        "constraints", [row for c in explanation.constraints for row in wrapped(c, 2, 4)]
    )
    rewrites = [
        row for block, text in explanation.rewrites for row in wrapped(f"{block}: {text}", 2, 4)
    ]
    parts += _section("rewrites", rewrites or ["  none"])
    parts += _section("rows", [row for text in explanation.batches for row in wrapped(text, 2, 4)])
    parts += _section("not available in this version", _refused(explanation))
    parts += _section("engine", _engine(explanation))
    parts += _section("methods", ["  " + line for line in str(explanation.methods).split("\n")])
    return "\n".join(parts).rstrip("\n")


def _section(title: str, rows: list[str]) -> list[str]:
    return [title, *rows, ""] if rows else []


def _sizes(explanation: Explanation) -> list[str]:
    rows = [(n, "" if s is None else f"{s:,}", origin) for n, s, origin in explanation.sizes]
    return columns(rows, 2, right=(1,))


def _hypers(explanation: Explanation) -> list[str]:
    rows, unset = [], []
    for h in explanation.hypers:
        if not h.value:
            unset.append(h.name.partition("[")[0])
        state = f"= {h.value}" if h.value not in ("", "computed") else ""
        rows.append((h.name, h.type, h.declared, state))
    lines = columns(rows, 2)
    if unset:
        pins = " ".join(f"--set {name}=VALUE" for name in unset)
        lines += wrapped(
            f"without a value: {', '.join(unset)}. A fit learns them; to pin: {pins}", 2, 4
        )
    return lines


def _priors(explanation: Explanation) -> list[str]:
    rows = []
    for v in explanation.latents:
        size = "" if v.size is None else f"{v.size:,}"
        rows.append((v.name, size, v.structure, "" if v.proper else "improper"))
    lines = [row for line in columns(rows, 2, right=(1,)) for row in wrapped(line.strip(), 2, 10)]
    known = [v.size for v in explanation.latents if v.size is not None]
    if len(known) == len(explanation.latents):
        blocks = counted(len(known), "block")
        lines.append(f"  {counted(sum(known), 'latent')} in {blocks}")
    if len(explanation.groups) > 1:
        groups = "; ".join(", ".join(g) for g in explanation.groups)
        lines += wrapped(f"independent of one another: {groups}", 2, 4)
    for p in explanation.plates:
        condition = f", given {', '.join(p.shared)}" if p.shared else ""
        lines += wrapped(f"independent over {p.index}{condition}: {', '.join(p.latents)}", 2, 4)
    return lines


def _site(site: SiteView) -> list[str]:
    arguments = f"({site.arguments})" if site.arguments else ""
    head = f"{site.name} ~ {site.family}{arguments}"
    if site.seen_as != site.family:
        head += f", seen as {site.seen_as}"
    if site.count is not None:
        head += f": {counted(site.count, 'site')}"
        if site.missing:
            head += f", {counted(site.missing, 'entry', 'entries')} missing"
    lines = wrapped(head, 2, 6)
    for k, term in enumerate(site.predictor):
        minus = term.startswith("- ")
        sign = ("s = -" if minus else "s =") if k == 0 else "  -" if minus else "  +"
        lines += wrapped(f"{sign} {term.removeprefix('- ')}", 4, 10)
    rows = []
    for op in site.operators:
        if op.sparse:
            share = op.stored / max(op.rows * op.columns, 1)
            kind = f"sparse, {op.stored:,} non-zeros ({share:.2g})"
        else:
            kind = "dense"
        rows.append((op.latent, f"{op.rows:,} x {op.columns:,}", kind))
    return lines + columns(rows, 6, right=(1,))


def _refused(explanation: Explanation) -> list[str]:
    lines = []
    for d in explanation.refused:
        where = f"line {d.span.line}: " if d.span.known else ""
        lines += wrapped(f"{where}{d.message} ({d.code})", 2, 4)
    return lines


def _engine(explanation: Explanation) -> list[str]:
    lines = wrapped(explanation.engine_reason, 2, 4) if explanation.engine_reason else []
    for e in explanation.engines:
        if e.refusal:
            text = f"{e.name}: cannot, {e.refusal}"
        else:
            text = f"{e.name}: {e.flops:.2g} flops for one conditioning"
            text += "" if e.exact else ", variances and evidence by estimates"
            text += "; chosen" if e.chosen else ""
        lines += wrapped(text, 2, 4)
    if explanation.parts:
        parts = [
            f"{', '.join(p.latents)} {p.flops:.2g} ({p.engine})"
            if p.engine
            else f"{', '.join(p.latents)} nothing"
            for p in explanation.parts
        ]
        whole = sum(p.flops for p in explanation.parts)
        text = f"parts that do not interact would take {whole:.2g} flops as separate models"
        lines += wrapped(f"{text}: {'; '.join(parts)}; their evidences add", 2, 4)
    if explanation.engines:
        size = size_text(explanation.memory_budget)
        lines.append(f"  memory budget {size}; another that can: --option engine=NAME")
    if explanation.engine_note:
        lines += wrapped(explanation.engine_note, 2, 4)
    return lines
