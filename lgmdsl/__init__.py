"""lgmdsl: inference in latent Gaussian models, from a text file.

    import lgmdsl as lgm
    fit = lgm.fit(lgm.load("model.lgm"), "data.npz")

Every name is imported when first used, so that `import lgmdsl` costs next to nothing. The types
that checkers and editors see are in `__init__.pyi`, which `python -m lgmdsl.api.help.stubs` writes
from `_HOMES` and the declarations of the language's words.
"""

from importlib import import_module as _import_module

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
    "compare_models": "lgmdsl.api.compare.models",
    "ModelComparison": "lgmdsl.api.compare.models",
    "PredictionWarning": "lgmdsl.api.predict.requested",
    "simulate": "lgmdsl.api.simulate.simulate",
    "SimulationWarning": "lgmdsl.posterior.prior_draws",
    "calibrate": "lgmdsl.api.calibrate.calibrate",
    "Calibration": "lgmdsl.api.calibrate.calibrate",
    "design": "lgmdsl.api.design.design",
    "Design": "lgmdsl.api.design.design",
    "design_measurements": "lgmdsl.api.design.measurements",
    "MeasurementDesign": "lgmdsl.api.design.measurements",
    "explain": "lgmdsl.api.explain.explain",
    "methods": "lgmdsl.api.explain.methods",
    "register": "lgmdsl.api.register",
    "contiguity": "lgmdsl.dataset.graphs",
    "mesh_matrices": "lgmdsl.structures.spatial.mesh",
    "grid_matrices": "lgmdsl.structures.spatial.mesh",
    "LgmError": "lgmdsl.errors",
    "ModelError": "lgmdsl.errors",
    "DataError": "lgmdsl.errors",
    "MethodError": "lgmdsl.errors",
    "NumericalError": "lgmdsl.errors",
    "WorkerError": "lgmdsl.errors",
}

_OF_THE_BUILDER = ("const", "head")
_HOOKS = {"load_ipython_extension": "lgmdsl.api.notebook.magic"}  # for IPython, not for people


def __getattr__(name: str) -> object:
    if name in _HOMES or name in _HOOKS:
        home = _HOMES.get(name) or _HOOKS[name]
        value = getattr(_import_module(home), name)
    elif name == "sites":
        return _import_module("lgmdsl.sites")
    elif name in _OF_THE_BUILDER:
        value = getattr(_import_module("lgmdsl.language.constructors"), name)
    else:
        if name.startswith("_"):
            raise AttributeError(f"module 'lgmdsl' has no attribute {name!r}")
        value = _import_module("lgmdsl.language.constructors").constructor(name)
        if value is None:
            raise AttributeError(f"module 'lgmdsl' has no attribute {name!r}")
        return value  # looked up each time: a registered family may add words
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    words: tuple[str, ...] = _import_module("lgmdsl.language.constructors").constructor_names()
    special = [name for name in globals() if name.startswith("__")]
    return sorted({*special, *_HOMES, *_OF_THE_BUILDER, "sites", *words})
