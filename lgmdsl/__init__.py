"""lgmdsl: inference in latent Gaussian models, from a text file.

    import lgmdsl as lgm
    fit = lgm.fit(lgm.load("model.lgm"), "data.npz")

Every name is imported when first used, so that `import lgmdsl` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# name -> module that defines it; nouns of the builder come from lgmdsl.language.constructors.
_HOMES = {
    "Model": "lgmdsl.language.builder",
    "load": "lgmdsl.language.load",
    "loads": "lgmdsl.language.load",
    "fit": "lgmdsl.api.fit.fitting",
    "Fit": "lgmdsl.api.fit.fit",
    "load_fit": "lgmdsl.api.fit.restore",
    "compare": "lgmdsl.api.compare.compare",
    "Comparison": "lgmdsl.api.compare.comparison",
    "PredictionWarning": "lgmdsl.api.predict.requested",
    "simulate": "lgmdsl.api.simulate.simulate",
    "calibrate": "lgmdsl.api.calibrate.calibrate",
    "Calibration": "lgmdsl.api.calibrate.calibrate",
    "design": "lgmdsl.api.design.design",
    "Design": "lgmdsl.api.design.design",
    "explain": "lgmdsl.api.explain.explain",
    "methods": "lgmdsl.api.explain.methods",
    "register": "lgmdsl.api.register",
    "mesh_matrices": "lgmdsl.structures.spatial.mesh",
    "grid_matrices": "lgmdsl.structures.spatial.mesh",
    "LgmError": "lgmdsl.errors",
    "ModelError": "lgmdsl.errors",
    "DataError": "lgmdsl.errors",
    "MethodError": "lgmdsl.errors",
    "NumericalError": "lgmdsl.errors",
}

if TYPE_CHECKING:
    from lgmdsl.api.calibrate.calibrate import Calibration as Calibration
    from lgmdsl.api.calibrate.calibrate import calibrate as calibrate
    from lgmdsl.api.compare.compare import compare as compare
    from lgmdsl.api.compare.comparison import Comparison as Comparison
    from lgmdsl.api.design.design import Design as Design
    from lgmdsl.api.design.design import design as design
    from lgmdsl.api.explain.explain import explain as explain
    from lgmdsl.api.explain.methods import methods as methods
    from lgmdsl.api.fit.fit import Fit as Fit
    from lgmdsl.api.fit.fitting import fit as fit
    from lgmdsl.api.fit.restore import load_fit as load_fit
    from lgmdsl.api.predict.requested import PredictionWarning as PredictionWarning
    from lgmdsl.api.register import register as register
    from lgmdsl.api.simulate.simulate import simulate as simulate
    from lgmdsl.errors import DataError as DataError
    from lgmdsl.errors import LgmError as LgmError
    from lgmdsl.errors import MethodError as MethodError
    from lgmdsl.errors import ModelError as ModelError
    from lgmdsl.errors import NumericalError as NumericalError
    from lgmdsl.language.builder import Model as Model
    from lgmdsl.language.load import load as load
    from lgmdsl.language.load import loads as loads
    from lgmdsl.structures.spatial.mesh import grid_matrices as grid_matrices
    from lgmdsl.structures.spatial.mesh import mesh_matrices as mesh_matrices


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name == "sites":
        return import_module("lgmdsl.sites")
    elif name in ("const", "head"):
        value = getattr(import_module("lgmdsl.language.constructors"), name)
    else:
        if name.startswith("_"):
            raise AttributeError(f"module 'lgmdsl' has no attribute {name!r}")
        value = import_module("lgmdsl.language.constructors").constructor(name)
        if value is None:
            raise AttributeError(f"module 'lgmdsl' has no attribute {name!r}")
        return value  # looked up each time: a registered family may add words
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    words: tuple[str, ...] = import_module("lgmdsl.language.constructors").constructor_names()
    return sorted({*globals(), *_HOMES, "const", "head", "sites", *words})
