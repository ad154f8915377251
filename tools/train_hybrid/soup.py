"""Mixes two 8-bit checkpoints with the same tensors: (1 - SHARE) x OLD + SHARE x NEW. The MTP head and all other files are NEW's.

usage: soup.py OLD_DIR NEW_DIR SHARE OUT_DIR
"""
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

from mlx_8bit import DEV, dequantise, quantise


def main():
    old, new, share, target = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
    a, b = load_file(old + '/model.safetensors'), load_file(new + '/model.safetensors')
    out = {}
    for k, v in b.items():
        if k.endswith(('.scales', '.biases')):
            continue
        if v.dtype == torch.uint32:
            s, t = k[:-6] + 'scales', k[:-6] + 'biases'
            mixed = share * dequantise(v, b[s], b[t]) + (1 - share) * dequantise(a[k], a[s], a[t])
            out[k], out[s], out[t], _ = quantise(mixed.to(DEV))
        else:
            out[k] = (share * v.float() + (1 - share) * a[k].float()).to(v.dtype)
    os.makedirs(target, exist_ok=True)
    save_file(out, target + '/model.safetensors', metadata={'format': 'mlx'})
    for name in os.listdir(new):
        if name != 'model.safetensors':
            shutil.copy(f'{new}/{name}', target)


if __name__ == '__main__':
    main()
