"""Train models: queries, step, objectives, regularizers, optimizers, loop, checkpoints, search."""
