"""Puts the matrices that tune_on_gpu.py tuned into a directory like that of the 8-bit checkpoint.

usage: assemble.py SOURCE_DIR TUNED.safetensors RECIPE.json OUT_DIR

SOURCE_DIR is the 8-bit checkpoint of the same weights (train_hybrid/mlx_8bit.py pack): the MTP head and the tensors that
are not matrices come from there. RECIPE.json must be the one that tune_on_gpu.py was given.
"""
import json
import pathlib
import shutil
import sys

from safetensors import safe_open

from export import write_packed
from recipe import format_of


def main():
    source, tuned, recipe, target = sys.argv[1:5]
    formats = json.loads(pathlib.Path(recipe).read_text())
    with safe_open(tuned, "np") as f:
        packed = {k: f.get_tensor(k) for k in f.keys()}
    modules = [k.removeprefix("language_model.").removesuffix(".scales") for k in packed if k.endswith(".scales")]
    write_packed(source, target, packed, {m: format_of(formats, m) for m in modules})
    shutil.copy(recipe, pathlib.Path(target) / "recipe.json")


if __name__ == "__main__":
    main()
