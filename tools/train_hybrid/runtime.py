"""Device, constants and torch.compile for all scripts of this folder."""
import os, json, math, time, mmap, sys
import numpy as np
import torch
import torch.nn.functional as F

DEV = 'cuda' if torch.cuda.is_available() else 'cpu'
CUDA = DEV == 'cuda'
WORK = os.environ.get('WORK', 'work')
os.makedirs(WORK, exist_ok=True)
DT = torch.bfloat16 if CUDA else torch.float32
THINK, THINK_E, TC, TC_E, TR, TR_E = 4, 10, 13, 14, 15, 16     # re-used reserved ids
REUSED = [4, 10, 13, 14, 15, 16]
IM_S, IM_E, EOT = 1, 2, 0
VOCAB = 49152
if CUDA:
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.enable_cudnn_sdp(False)              # a new plan per shape would stall the decode
T0 = time.time()


def log(*a):
    print(f'[{time.time()-T0:7.1f}s]', *a, flush=True)


# ----------------------------------------------------------------------------- compile helper
USE_COMPILE = (CUDA and os.environ.get('NOCOMPILE', '0') != '1') or 'CBACK' in os.environ
if USE_COMPILE:
    import torch._dynamo as _dyn
    _dyn.config.suppress_errors = 'CBACK' not in os.environ     # any compile failure -> eager
    for k in ('cache_size_limit', 'recompile_limit'):
        if hasattr(_dyn.config, k):
            setattr(_dyn.config, k, 64)
    if hasattr(_dyn.config, 'accumulated_recompile_limit'):
        _dyn.config.accumulated_recompile_limit = 1024


def comp(f):
    return torch.compile(f, dynamic=False, fullgraph='CBACK' in os.environ, backend=os.environ.get('CBACK', 'inductor')) if USE_COMPILE else f
