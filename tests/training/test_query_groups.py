"""Query groups that divide a batch between them compute what one process computes."""

from __future__ import annotations

import shutil
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from tests.graphs import people_graph
from tests.training.sharded import in_processes, several
from tests.training.test_sharding import (
    CASES,
    begin,
    check_complete,
    check_learned,
    finish,
    settings_of,
    train_all,
)

from fivestar.models.sharding import Shard

WITH_BATCH_NORM = {"model conve", "model tucker"}
SOME_CASES = [
    *("softmax", "bce with label smoothing", "sampled candidates", "negative sampling"),
    *("without reciprocals", "relation loss", "clip", "early stopping"),
]


def test_quick(tmp_path):
    check_learned(in_processes(2, train_all, tmp_path, SOME_CASES, 2))


def test_quick2(tmp_path):
    check_learned(in_processes(4, train_all, tmp_path, SOME_CASES, 2))
