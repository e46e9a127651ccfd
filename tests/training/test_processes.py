"""How processes join: what is on GPUs goes over NCCL, and what is in main memory over gloo."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.distributed.distributed_c10d import BackendConfig

from fivestar.training import processes


@pytest.mark.parametrize(
    ("device", "has_gpu", "expected"),
    [
        ("auto", True, {"cpu": "gloo", "cuda": "nccl"}),
        ("cuda", True, {"cpu": "gloo", "cuda": "nccl"}),
        ("cpu", True, {"cpu": "gloo", "cuda": "gloo"}),
        ("auto", False, {"cpu": "gloo", "cuda": "gloo"}),
    ],
)
def test_tensors_in_main_memory_are_sent_on_every_device(device, has_gpu, expected, monkeypatch):
    joined = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(processes, "rendezvous", lambda *_, **__: iter([(dist.HashStore(), 1, 2)]))
    monkeypatch.setattr(processes, "share_tables", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "set_device", joined.append)
    monkeypatch.setattr(dist, "init_process_group", lambda name, **_: joined.append(name))
    monkeypatch.setattr(processes.atexit, "register", lambda _: None)
    processes.join_processes(device)
    found = BackendConfig(distributed_c10d.Backend(joined.pop())).get_device_backend_map()
    assert {kind: found[kind] for kind in expected} == expected
    assert joined == ([1] if "nccl" in expected.values() else [])
