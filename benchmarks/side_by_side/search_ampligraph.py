"""Try settings of AmpliGraph's ComplEx on UMLS; print their validation MRR, one JSON line each.

Run by search.py with the folder and the number of settings already tried. Test is not read.
"""

import json
import sys

import tensorflow as tf
from ampligraph.datasets import load_from_csv
from ampligraph.evaluation import mrr_score
from ampligraph.latent_features import ScoringBasedEmbeddingModel

folder = sys.argv[1]
graph = {split: load_from_csv(folder, f"{split}.txt", sep="\t") for split in ("train", "valid")}
settings = [(eta, lr) for eta in (5, 20) for lr in (0.001, 0.003, 0.01, 0.03)]
for eta, lr in settings[int(sys.argv[2]) :]:
    model = ScoringBasedEmbeddingModel(k=100, eta=eta, scoring_type="ComplEx", seed=0)
    model.compile(optimizer=tf.keras.optimizers.Adam(lr), loss="multiclass_nll")
    model.fit(graph["train"], batch_size=len(graph["train"]) // 10, epochs=100, verbose=False)
    ranks = model.evaluate(graph["valid"], use_filter=graph, corrupt_side="s,o", verbose=False)
    found = {"eta": eta, "lr": lr, "valid_mrr": round(float(mrr_score(ranks)), 4)}
    print(json.dumps(found), flush=True)
