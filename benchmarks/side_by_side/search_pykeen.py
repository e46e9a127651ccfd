"""Try settings of PyKEEN's ComplEx on UMLS and print their MRR on validation, one JSON line each.

Run by search.py with the folder and the number of settings already tried. Test is not read.
"""

import json
import sys

from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory

folder = sys.argv[1]
train = TriplesFactory.from_path(f"{folder}/train.txt", create_inverse_triples=True)
names = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
valid = TriplesFactory.from_path(f"{folder}/valid.txt", **names)
settings = [("Adam", lr) for lr in (0.001, 0.003, 0.01, 0.03)]
settings += [("Adagrad", lr) for lr in (0.03, 0.1, 0.3, 1.0)]
# The best of both was the largest, and then that of Adam again.
settings += [("Adam", 0.1), ("Adagrad", 3.0), ("Adam", 0.3)]
for optimizer, lr in settings[int(sys.argv[2]) :]:
    result = pipeline(
        training=train,
        testing=valid,
        model="ComplEx",
        model_kwargs={"embedding_dim": 100},
        training_loop="LCWA",
        loss="CrossEntropy",
        optimizer=optimizer,
        optimizer_kwargs={"lr": lr},
        training_kwargs={"num_epochs": 100, "batch_size": 256, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=0,
    )
    mrr = result.get_metric("both.realistic.inverse_harmonic_mean_rank")
    found = {"optimizer": optimizer, "lr": lr, "valid_mrr": round(mrr, 4)}
    print(json.dumps(found), flush=True)
