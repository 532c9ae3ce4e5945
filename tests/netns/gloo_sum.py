"""An all-reduce of 4,000,004 bytes by gloo, as PyTorch starts it from torchrun's environment."""

import os

import torch
import torch.distributed as dist

os.environ["GLOO_SOCKET_IFNAME"] = os.environ["STRATA_INTERFACE"]
dist.init_process_group("gloo")
values = torch.full((1_000_001,), float(dist.get_rank() + 1))
dist.all_reduce(values)
world = dist.get_world_size()
assert torch.equal(values, torch.full_like(values, world * (world + 1) / 2)), values
