"""One file a family of models; a model file is its formula."""
