"""Models as scikit-learn estimators: in pipelines, cross-validation and searches.

    from lgmdsl.sklearn import LgmRegressor
    LgmRegressor("model.lgm", response="y").fit(X, y).predict(X, return_std=True)

`LgmRegressor` and `LgmClassifier` take any model that observes one response for each row;
`BayesianGLM`, `MixedModel`, `AdditiveModel` and `GaussianProcess` write theirs by themselves. Needs
scikit-learn (extra `sklearn`).
"""

try:
    import sklearn as _sklearn
except ImportError as error:
    raise ImportError("lgmdsl.sklearn needs scikit-learn: pip install 'lgmdsl[sklearn]'") from error

from lgmdsl.sklearn.any_model import LgmClassifier, LgmRegressor
from lgmdsl.sklearn.ready import AdditiveModel, BayesianGLM, GaussianProcess, MixedModel

__all__ = [
    "LgmRegressor",
    "LgmClassifier",
    "BayesianGLM",
    "MixedModel",
    "AdditiveModel",
    "GaussianProcess",
]

del _sklearn
