"""Trackers: send the history of a training to CSV, TensorBoard, MLflow or Weights & Biases."""
