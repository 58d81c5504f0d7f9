"""The order of the gallery: published data and common analyses first."""

from __future__ import annotations

FIRST = (
    "published_rats",
    "published_coal",
    "published_beetles",
    "published_dyes",
    "mixed_model",
    "smooth",
    "disease_map",
    "survival",
    "ordinal",
    "choice",
    "forecast",
    "space_time",
    "gp_classification",
    "volatility",
    "factor_analysis",
    "topics",
    "sparse_regression",
    "deconvolution",
    "active_learning",
)


class Order:
    """Key of an example's file name; one that is not listed comes last."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        stem = name.removeprefix("plot_").removesuffix(".py")
        return (FIRST.index(stem) if stem in FIRST else len(FIRST), stem)
