"""Train a ComplEx, evaluate it and ask for answers, with PyKEEN."""

import sys

from pykeen.pipeline import pipeline
from pykeen.predict import predict_target
from pykeen.triples import TriplesFactory

folder = sys.argv[1]
train = TriplesFactory.from_path(f"{folder}/train.txt", create_inverse_triples=True)
names = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
result = pipeline(
    training=train,
    validation=TriplesFactory.from_path(f"{folder}/valid.txt", **names),
    testing=TriplesFactory.from_path(f"{folder}/test.txt", **names),
    model="ComplEx",
    model_kwargs={"embedding_dim": 100},
    training_loop="LCWA",
    loss="CrossEntropy",
    optimizer_kwargs={"lr": 0.1},
    training_kwargs={"num_epochs": 100, "batch_size": 256, "use_tqdm": False},
    random_seed=0,
)
print("MRR", result.get_metric("both.realistic.inverse_harmonic_mean_rank"))
answers = predict_target(
    model=result.model, head="steroid", relation="affects", triples_factory=train
)
print(answers.df.head(3))
