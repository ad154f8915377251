"""Training in one process for each GPU (torchrun), or in a single one."""
import torch.distributed as dist

from runtime import *


def join():
    """Joins the other processes. -> rank, number of processes, device"""
    rank, world = int(os.environ.get('RANK', 0)), int(os.environ.get('WORLD_SIZE', 1))
    if CUDA:
        # a process may see its own GPU alone
        torch.cuda.set_device(min(int(os.environ.get('LOCAL_RANK', 0)), torch.cuda.device_count() - 1))
    if world > 1:
        dist.init_process_group('nccl' if CUDA else 'gloo')
    torch.manual_seed(rank)
    return rank, world, f'cuda:{torch.cuda.current_device()}' if CUDA else 'cpu'


def pairs(text):
    """'a=1,b=2' -> {'a': 1.0, 'b': 2.0}"""
    return {k: float(v) for k, v in (x.split('=') for x in text.split(','))}
