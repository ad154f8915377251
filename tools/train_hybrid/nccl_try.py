"""An all-reduce, to see whether the processes can talk when each sees its own GPU alone. usage: torchrun ... nccl_try.py"""
import os
import time

import torch
import torch.distributed as dist

torch.cuda.set_device(min(int(os.environ['LOCAL_RANK']), torch.cuda.device_count() - 1))
dist.init_process_group('nccl')
x = torch.ones(150_000_000, device='cuda', dtype=torch.bfloat16)
dist.all_reduce(x)
torch.cuda.synchronize()
t = time.time()
for _ in range(5):
    dist.all_reduce(x)
torch.cuda.synchronize()
assert float(x[0]) == dist.get_world_size() ** 6
if dist.get_rank() == 0:
    print('all-reduce of 300 MB:', round((time.time() - t) / 5 * 1e3, 1), 'ms')
dist.destroy_process_group()
