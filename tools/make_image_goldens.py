#!/usr/bin/env python3
"""Makes the goldens of tests/images/: small picture files with their pixels as Pillow and Transformers read them, and
what Transformers' image processors make of drawings that tests/images/drawings.h repeats from their sizes and seeds.

    pip install torch torchvision transformers==5.24.0 pillow==13.0.0
    tools/make_image_goldens.py             # writes tests/images/data
"""

import io
import json
import pathlib
import struct
import zlib

import numpy as np
import torch
from PIL import Image, ImageOps
from transformers.image_transforms import convert_to_rgb
from transformers.models.gemma3.image_processing_gemma3 import Gemma3ImageProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor, smart_resize

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests/images/data"
SAMPLES = 24
ORIENTATION = 0x0112


# Drawings. Integers only, so that C++ makes the same (tests/images/drawings.h).
def coordinates(width, height):
    return np.meshgrid(np.arange(width, dtype=np.int64), np.arange(height, dtype=np.int64))


def gradient(width, height, seed):
    x, y = coordinates(width, height)
    return x * 255 // width, y * 255 // height, ((x + y) * 255 // (width + height) + seed) % 256


def noise(width, height, seed):
    x, y = coordinates(width, height)
    channels = []
    for c in range(3):
        v = ((y * width + x) * 3 + c + seed * 7919).astype(np.uint32)
        v = v * np.uint32(2654435761)
        v ^= v >> np.uint32(15)
        v = v * np.uint32(2246822519)
        v ^= v >> np.uint32(13)
        channels.append((v & np.uint32(255)).astype(np.int64))
    return channels


def board(width, height, seed):
    x, y = coordinates(width, height)
    field = (x // (3 + seed % 9) + y // (2 + seed % 7)) % 2
    return field * 255, 255 - field * 200, field * 90 + 60


def rings(width, height, seed):
    x, y = coordinates(width, height)
    square = (x - width // 2) ** 2 + (y - height // 3) ** 2
    return square // (5 + seed) % 256, square // (9 + seed) % 256, square // (23 + seed) % 256


def letters(width, height, seed):
    x, y = coordinates(width, height)
    ink = ((x * 7 + (y // 3) * 13 + seed) % 61 < 9) & (y % 17 < 12)
    return [np.where(ink, 20 + 30 * c, 250 - 5 * c) for c in range(3)]


DRAWINGS = {f.__name__: f for f in (gradient, noise, board, rings, letters)}


def draw(name, width, height, seed):
    return np.stack(DRAWINGS[name](width, height, seed), axis=-1).astype(np.uint8)


# Processors, as their checkpoints' preprocessor_config.json describes them.
HALF = [0.5, 0.5, 0.5]
PROCESSORS = {
    "qwen3.5": {"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 16, "temporal_patch_size": 2,
                "merge_size": 2, "size": {"shortest_edge": 65536, "longest_edge": 16777216}, "image_mean": HALF,
                "image_std": HALF},
    "qwen2-vl": {"image_processor_type": "Qwen2VLImageProcessor", "do_resize": True, "resample": 3, "patch_size": 14,
                 "temporal_patch_size": 2, "merge_size": 2, "min_pixels": 3136, "max_pixels": 1003520,
                 "image_mean": [0.48145466, 0.4578275, 0.40821073],
                 "image_std": [0.26862954, 0.26130258, 0.27577711], "rescale_factor": 0.00392156862745098},
    "small": {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 16, "temporal_patch_size": 2,
              "merge_size": 2, "min_pixels": 1024, "max_pixels": 65536, "image_mean": HALF, "image_std": HALF},
    "gemma3": {"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 896, "width": 896}, "resample": 2,
               "image_mean": HALF, "image_std": HALF, "image_seq_length": 256, "do_pan_and_scan": None},
}
CASES = [
    ("qwen3.5", [("gradient", 640, 480), ("noise", 333, 257), ("rings", 1024, 768), ("letters", 800, 1131),
                 ("board", 100, 100), ("letters", 1, 1), ("gradient", 3, 500), ("board", 1999, 10), ("rings", 256, 256),
                 ("noise", 320, 288), ("gradient", 2500, 1800), ("letters", 47, 1700)]),
    ("qwen2-vl", [("gradient", 1500, 1200), ("noise", 801, 599), ("rings", 28, 28), ("letters", 1240, 1754),
                  ("board", 31, 29), ("noise", 14, 2700), ("rings", 3000, 15), ("letters", 56, 70),
                  ("gradient", 2, 3), ("board", 1003, 997), ("rings", 2001, 2003)]),
    ("small", [("noise", 64, 32), ("letters", 640, 640), ("rings", 255, 257), ("board", 4000, 3000),
               ("noise", 1000, 30), ("gradient", 15, 15), ("letters", 31, 97), ("board", 17, 170),
               ("rings", 1920, 1080), ("gradient", 48, 80), ("noise", 1200, 900), ("letters", 2600, 13)]),
    ("gemma3", [("gradient", 640, 480), ("noise", 300, 200), ("rings", 896, 896), ("letters", 1240, 1754),
                ("board", 1, 1), ("noise", 896, 1000), ("rings", 2000, 100), ("letters", 13, 2600), ("gradient", 7, 5),
                ("board", 1600, 1600), ("rings", 448, 1792), ("letters", 897, 895), ("noise", 1500, 1100),
                ("gradient", 3000, 2000), ("board", 900, 30)]),
]


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def make_processor(config):
    keys = {k: v for k, v in config.items() if k not in ("image_processor_type", "image_seq_length")}
    kind = Gemma3ImageProcessor if config["image_processor_type"].startswith("Gemma3") else Qwen2VLImageProcessor
    return kind(**keys)


def gemma_patches(pixels):
    """[3, height, width] as the patches that the tower's first layer, a convolution, takes."""
    patches = torch.nn.functional.unfold(pixels[None], kernel_size=14, stride=14)[0]
    return patches.T.contiguous()


def process(name, drawing, width, height, seed):
    config = PROCESSORS[name]
    image = Image.fromarray(draw(drawing, width, height, seed))
    batch = make_processor(config)(image, return_tensors="pt")
    if name == "gemma3":
        patches, grid = gemma_patches(batch["pixel_values"][0]), [64, 64]
    else:
        patches, grid = batch["pixel_values"], batch["image_grid_thw"][0].tolist()[1:]
    pillow = Image.fromarray(draw(drawing, width, height, seed)).resize(
        (grid[1] * config.get("patch_size", 14), grid[0] * config.get("patch_size", 14)),
        Image.BILINEAR if name == "gemma3" else Image.BICUBIC)
    values = patches.numpy().reshape(-1)
    at = [(i * 2654435761 + seed) % values.size for i in range(SAMPLES)]
    # The bytes before normalisation, in the order of the patches. Each channel has its own mean.
    per_channel = patches.shape[1] // 3
    mean, std = (np.repeat(np.array(config[k], np.float64), per_channel) for k in ("image_mean", "image_std"))
    data = np.rint((patches.numpy().astype(np.float64) * std + mean) * 255).astype(np.uint8)
    return {"processor": name, "drawing": drawing, "width": width, "height": height, "seed": seed, "grid": grid,
            "patches": list(patches.shape), "at": at, "values": [float(f"{values[i]:.9g}") for i in at],
            "bytes": fnv(data.tobytes())}, pillow_difference(config, pillow, data, grid)


def pillow_difference(config, pillow, data, grid):
    """How far Pillow's resizing is from the processor's: (largest difference, share of bytes that differ)."""
    side = config.get("patch_size", 14)
    image = np.asarray(pillow, np.int16)
    if config["image_processor_type"].startswith("Gemma3"):
        shape, order = (grid[0], grid[1], 3, side, side), (0, 3, 1, 4, 2)
    else:
        shape = (grid[0] // 2, grid[1] // 2, 2, 2, 3, 2, side, side)
        data = data.reshape(shape)[:, :, :, :, :, 0]
        shape, order = data.shape, (0, 2, 5, 1, 3, 6, 4)
    ours = data.reshape(shape).transpose(order).reshape(image.shape)
    difference = np.abs(ours.astype(np.int16) - image)
    return int(difference.max()), float((difference > 0).mean())


def smart_resize_table():
    table = []
    for width, height in [(1, 1), (32, 32), (16, 16), (48, 48), (47, 80), (80, 80), (640, 480), (4000, 3000), (200, 1),
                          (1, 200), (100, 20000), (20000, 101), (8192, 8192), (255, 256), (112, 144), (1008, 1040)]:
        for factor, low, high in [(32, 65536, 16777216), (28, 3136, 1003520), (32, 1024, 4096)]:
            h, w = smart_resize(height, width, factor=factor, min_pixels=low, max_pixels=high)
            table.append([width, height, factor, low, high, w, h])
    return table


# Files.
def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_file(width, height, depth, colour, rows, extra=b"", interlaced=False):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + extra
            + png_chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows), 9)) + png_chunk(b"IEND", b""))


def interlaced_rows(pixels):
    for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
                           (0, 1, 1, 2)]:
        part = pixels[y0::dy, x0::dx]
        if part.size:
            yield from (row.tobytes() for row in part)


def packed(values, depth):
    """Rows of values of `depth` bits, the first in the upper bits."""
    for row in values:
        bits = "".join(f"{v:0{depth}b}" for v in row)
        bits += "0" * (-len(bits) % 8)
        yield int(bits, 2).to_bytes(len(bits) // 8, "big")


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif_of(orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


def jpeg_files(image):
    yield "rgb.jpg", saved(image, "JPEG", quality=90)
    yield "rgb444.jpg", saved(image, "JPEG", quality=95, subsampling=0)
    yield "progressive.jpg", saved(image, "JPEG", quality=85, progressive=True)
    yield "restarts.jpg", saved(image, "JPEG", quality=80, restart_marker_blocks=1)
    yield "grey.jpg", saved(image.convert("L"), "JPEG", quality=90)
    yield "cmyk.jpg", saved(image.convert("CMYK"), "JPEG", quality=90)
    for orientation in range(1, 9):
        yield f"orientation{orientation}.jpg", saved(image.crop((0, 0, 24, 16)), "JPEG", exif=exif_of(orientation))


def png_files(image):
    alpha = image.copy()
    alpha.putalpha(Image.fromarray(draw("rings", *image.size, 3)[..., 0]))
    palette = image.quantize(30)
    yield "rgb.png", saved(image, "PNG")
    yield "rgba.png", saved(alpha, "PNG")
    yield "grey.png", saved(image.convert("L"), "PNG")
    yield "grey_alpha.png", saved(alpha.convert("LA"), "PNG")
    yield "palette.png", saved(palette, "PNG")
    yield "palette_alpha.png", saved(palette, "PNG", transparency=bytes(range(0, 240, 8)))
    yield "transparent_colour.png", saved(image, "PNG", transparency=image.getpixel((5, 5)))
    yield "bits1.png", saved(image.convert("1"), "PNG")
    yield "orientation6.png", saved(image, "PNG", exif=exif_of(6))
    x, y = coordinates(*image.size)
    for depth in (2, 4):
        yield f"bits{depth}.png", png_file(*image.size, depth, 0, packed((x + y) % (1 << depth), depth))
    wide = np.stack([x * 1500, y * 2000, x * y * 50], axis=-1).astype(">u2")
    yield "rgb16.png", png_file(*image.size, 16, 2, (row.tobytes() for row in wide))
    yield "interlaced.png", png_file(*image.size, 8, 2, interlaced_rows(np.asarray(image)), interlaced=True)
    yield "grey16.png", saved(Image.fromarray((x * 1500).astype(np.uint16)), "PNG")


def webp_files(image):
    alpha = image.copy()
    alpha.putalpha(Image.fromarray(draw("rings", *image.size, 3)[..., 0]))
    yield "lossy.webp", saved(image, "WEBP", quality=80)
    yield "lossless.webp", saved(image, "WEBP", lossless=True)
    yield "lossy_alpha.webp", saved(alpha, "WEBP", quality=80)
    yield "lossless_alpha.webp", saved(alpha, "WEBP", lossless=True, exact=True)
    yield "orientation8.webp", saved(image, "WEBP", quality=80, exif=exif_of(8))


def refused_files(image):
    other = image.rotate(90).resize(image.size)
    yield "animation.webp", saved(image, "WEBP", save_all=True, append_images=[other], duration=100)
    for kind in ("GIF", "BMP", "TIFF", "ICO"):
        yield f"refused.{kind.lower()}", saved(image.crop((0, 0, 8, 8)), kind)


def hostile_files(image):
    header = struct.pack(">IIBBBBB", 2000000000, 2000000000, 8, 2, 0, 0, 0)
    yield "huge.png", (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header)
                       + png_chunk(b"IDAT", zlib.compress(bytes(100))) + png_chunk(b"IEND", b""))
    text = png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(20 << 20), 9))
    rows = [np.asarray(image)[y].tobytes() for y in range(image.height)]
    yield "text_bomb.png", png_file(*image.size, 8, 2, rows, extra=text)


def pixels_of(name, data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if name == "grey16.png":  # Pillow cuts values above 255 off; the upper byte is what it takes of 16-bit RGB
        return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., None], 3, axis=-1)
    return convert_to_rgb(image, return_numpy=True)


def write_files():
    image = Image.fromarray(draw("rings", 41, 30, 7))
    for files in (jpeg_files(image), png_files(image), webp_files(image)):
        for name, data in files:
            (DATA / name).write_bytes(data)
            (DATA / f"{name}.rgb").write_bytes(np.ascontiguousarray(pixels_of(name, data)).tobytes())
    for files in (refused_files(image), hostile_files(image)):
        for name, data in files:
            (DATA / name).write_bytes(data)


def main():
    DATA.mkdir(exist_ok=True)
    write_files()
    cases = []
    for name, drawings in CASES:
        for seed, (drawing, width, height) in enumerate(drawings):
            case, (most, share) = process(name, drawing, width, height, seed)
            cases.append(case)
            print(f"{name:9} {drawing:9} {width} x {height} -> {case['grid']}; Pillow: {most} in {share:.2%}")
    with open(DATA / "processors.json", "w", encoding="utf-8") as file:
        file.write(json.dumps({"processors": PROCESSORS, "smart_resize": smart_resize_table()})[:-1] + ',\n"cases": [\n')
        file.write(",\n".join(json.dumps(case) for case in cases) + "\n]}\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
