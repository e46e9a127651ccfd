"""`LinkPredictor`, an estimator of scikit-learn, and `LinkKFold`, folds for it."""

from __future__ import annotations

from fivestar.extras import require

require("sklearn", "sklearn", "fivestar.LinkPredictor")

from fivestar.integrations.sklearn.folds import LinkKFold  # noqa: E402
from fivestar.integrations.sklearn.predictor import LinkPredictor  # noqa: E402

__all__ = ["LinkKFold", "LinkPredictor"]
