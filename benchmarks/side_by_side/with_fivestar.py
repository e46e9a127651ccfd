"""Train a ComplEx, evaluate it and ask for answers, with fivestar."""

import sys

import fivestar

model = fivestar.train(sys.argv[1], model="complex", dim=100, progress=False)
print("MRR", model.evaluate("test")["mrr"])
print(model.predict_tails("steroid", "affects", top=3))
