"""Pages of the models in `models/`: each is fitted and drawn when the build begins."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from sphinx.application import Sphinx

import lgmdsl as lgm

MODELS = Path(__file__).parents[2] / "models"
PICTURES = 3  # of a model at most


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}


def write(app: Sphinx) -> None:
    """A page for each model that is newer than its page, and the list of them."""
    folder = Path(app.srcdir) / "models" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for model in sorted(path.parent for path in MODELS.glob("*/model.lgm")):
        page = folder / f"{model.name}.md"
        newest = max(path.stat().st_mtime for path in model.iterdir())
        if not page.exists() or page.stat().st_mtime < newest:
            page.write_text(page_of(model, folder), encoding="utf-8")


def page_of(model: Path, folder: Path) -> str:
    """What the README says, the model, the page of its fit by the command that stands there,
    and pictures of it."""
    about = (model / "README.md").read_text(encoding="utf-8")
    text = (model / "model.lgm").read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        command = re.search(r"lgm fit \S+ \S+((?: --\w+ \S+)*)$", about, re.MULTILINE)
        chosen = dict(re.findall(r"--(method|hyper) (\S+)", command[1] if command else ""))
        fit = lgm.fit(lgm.load(model / "model.lgm"), model / "data.npz", **chosen)
        pictures = folder / model.name
        fit.plot(pictures, data=model / "data.npz")
    drawn = sorted(pictures.glob("*.png"))[:PICTURES]
    shown = "\n\n".join(f"![{path.stem}]({model.name}/{path.name})" for path in drawn)
    about = re.sub(r"\]\((?!http)[^)]*\)", "]", about)
    return (
        f"{about.rstrip()}\n\n## Model\n\n```lgm\n{text.rstrip()}\n```\n\n"
        f"## Fit\n\n```none\n{fit.summary().rstrip()}\n```\n\n{shown}\n"
    )
