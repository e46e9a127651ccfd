"""5★E inside PyKEEN, and trained models of fivestar for PyKEEN's evaluators.

After `import fivestar.integrations.pykeen`, PyKEEN knows the model and the interaction by name:

    import fivestar.integrations.pykeen
    from pykeen.pipeline import pipeline

    pipeline(model="FiveStarE", model_kwargs={"denominator": "mobius"}, dataset="nations")

`from_run` returns a trained model of fivestar, of any kind, as a model of PyKEEN;
`FiveStarE.from_run` a 5★E whose training PyKEEN can continue. `dataset` and `triples_factory` turn
graphs into PyKEEN's data, and `fivestar.from_pykeen` goes the other way.
"""

from __future__ import annotations

from fivestar.extras import require

require("pykeen", "pykeen", "fivestar.integrations.pykeen")

from pykeen.models import model_resolver  # noqa: E402
from pykeen.nn.modules import interaction_resolver  # noqa: E402

from fivestar.integrations.pykeen.data import dataset, triples_factory  # noqa: E402
from fivestar.integrations.pykeen.model import FiveStarE, FiveStarEInteraction  # noqa: E402
from fivestar.integrations.pykeen.trained import EvaluationModel, from_run  # noqa: E402

__all__ = [
    "EvaluationModel",
    "FiveStarE",
    "FiveStarEInteraction",
    "dataset",
    "from_run",
    "triples_factory",
]

# PyKEEN has no entry points for models: its resolvers list what is registered.
model_resolver.register(FiveStarE, raise_on_conflict=False)
interaction_resolver.register(FiveStarEInteraction, raise_on_conflict=False)
