"""Train a ComplEx, evaluate it and ask for answers, with AmpliGraph."""

import sys

import tensorflow as tf
from ampligraph.datasets import load_from_csv
from ampligraph.discovery import query_topn
from ampligraph.evaluation import mrr_score
from ampligraph.latent_features import ScoringBasedEmbeddingModel

folder = sys.argv[1]
graph = {
    split: load_from_csv(folder, f"{split}.txt", sep="\t") for split in ("train", "valid", "test")
}
model = ScoringBasedEmbeddingModel(k=100, eta=5, scoring_type="ComplEx", seed=0)
model.compile(optimizer=tf.keras.optimizers.Adam(0.003), loss="multiclass_nll")
model.fit(graph["train"], batch_size=len(graph["train"]) // 10, epochs=100, verbose=False)
ranks = model.evaluate(graph["test"], use_filter=graph, corrupt_side="s,o", verbose=False)
print("MRR", mrr_score(ranks))
answers = query_topn(model, top_n=3, head="steroid", relation="affects")
print(answers)
