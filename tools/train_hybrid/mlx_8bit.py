"""Between MLX's 8-bit checkpoints (affine, groups of 64) and training's fp32 weights with Hugging Face's names.

usage: mlx_8bit.py unpack DIR     DIR/model.safetensors, mtp.safetensors -> $WORK/student.pt, $WORK/mtp0.pt
       mlx_8bit.py pack DIR OUT   $WORK/main.pt, $WORK/mtp.pt -> OUT, with the names and other files of DIR
"""

import hashlib
import os
import shutil
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

WORK = os.environ.get('WORK', 'work')
GROUP = 64
DEV = 'cuda' if torch.cuda.is_available() else 'cpu'


def shifted(name):
    """norms that MLX stores as 1 + w"""
    return name.endswith('norm.weight') and '.linear_attn.' not in name


def dequantise(q, scales, biases):
    q = q.contiguous().view(torch.uint8).view(q.shape[0], -1, GROUP).float()
    return (q * scales.float()[..., None] + biases.float()[..., None]).view(q.shape[0], -1)


def unpack(folder):
    raw = load_file(folder + '/model.safetensors')
    out = {}
    for k, v in raw.items():
        if k.endswith(('.scales', '.biases')):
            continue
        if k[:-6] + 'scales' in raw:
            v = dequantise(v, raw[k[:-6] + 'scales'], raw[k[:-6] + 'biases'])
        v = v.float()
        if k.endswith('conv1d.weight'):
            v = v.transpose(1, 2)
        if shifted(k):
            v = v - 1
        out[k.removeprefix('language_model.')] = v.contiguous().clone()
    torch.save(dict(p=out), f'{WORK}/student.pt')
    torch.save(dict(p={k: v.float() for k, v in load_file(folder + '/mtp.safetensors').items()}), f'{WORK}/mtp0.pt')
    print('student', len(out), 'tensors', sum(v.numel() for v in out.values()) / 1e6, 'M')


def quantise(v):
    """-> packed, scales, biases, relative error"""
    g = v.view(v.shape[0], -1, GROUP)
    high, low = g.amax(-1), g.amin(-1)
    scale = ((high - low) / 255).clamp(min=1e-7)
    negative = low.abs() > high.abs()
    scale = torch.where(negative, scale, -scale)
    edge = torch.where(negative, low, high)
    q0 = torch.round(edge / scale)
    scale = torch.where(q0 != 0, edge / torch.where(q0 != 0, q0, 1), scale).to(torch.bfloat16)
    bias = torch.where(q0 != 0, edge, 0).to(torch.bfloat16)
    q = torch.round((g - bias.float()[..., None]) / scale.float()[..., None]).clamp(0, 255)
    error = float((q * scale.float()[..., None] + bias.float()[..., None] - g).norm() / g.norm())
    packed = q.to(torch.uint8).view(v.shape[0], -1).contiguous().cpu().view(torch.uint32)
    return packed, scale.contiguous().cpu(), bias.contiguous().cpu(), error


def pack(folder, target):
    p = torch.load(f'{WORK}/main.pt', map_location='cpu', weights_only=False)['p']
    with safe_open(folder + '/model.safetensors', 'pt') as f:
        kinds = {k: f.get_slice(k).get_dtype() for k in f.keys()}
    out, errors = {}, []
    for k, kind in kinds.items():
        if k.endswith(('.scales', '.biases')):
            continue
        v = p[k.removeprefix('language_model.')].float().to(DEV)
        if k.endswith('conv1d.weight'):
            v = v.transpose(1, 2)
        if shifted(k):
            v = v + 1
        if kind == 'U32':
            out[k], out[k[:-6] + 'scales'], out[k[:-6] + 'biases'], e = quantise(v.contiguous())
            errors.append(e)
        else:
            out[k] = v.to(torch.float32 if kind == 'F32' else torch.bfloat16).contiguous().cpu()
    assert set(out) == set(kinds)
    os.makedirs(target, exist_ok=True)
    save_file(out, f'{target}/model.safetensors', metadata={'format': 'mlx'})
    mtp = torch.load(f'{WORK}/mtp.pt', map_location='cpu', weights_only=False)['p']
    save_file(
        {k: v.to(torch.bfloat16).contiguous() for k, v in mtp.items()}, f'{target}/mtp.safetensors', metadata={'format': 'pt'}
    )
    for name in os.listdir(folder):
        if not name.endswith('.safetensors'):
            shutil.copy(f'{folder}/{name}', target)
    for name in ('model', 'mtp'):
        b = open(f'{target}/{name}.safetensors', 'rb').read()
        print(name, len(b), 'bytes, sha256', hashlib.sha256(b).hexdigest())
    print('relative error of the matrices: most', max(errors), 'mean', sum(errors) / len(errors))


if __name__ == '__main__':
    os.makedirs(WORK, exist_ok=True)
    unpack(sys.argv[2]) if sys.argv[1] == 'unpack' else pack(*sys.argv[2:4])
