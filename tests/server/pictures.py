"""PNG files without a library, for tests."""

import struct
import zlib


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width, height, rows):
    """A PNG file. rows: height sequences of 3 * width values from 0 to 255."""
    data = b"".join(b"\0" + bytes(row) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def drawing(seed, width, height):
    """A PNG file whose pixels depend on the seed."""
    return png_of(width, height, [[(x * (seed + 3) + y * seed * 7 + x * y // 5 + c * 40) % 256 for x in range(width) for c in range(3)]
                                  for y in range(height)])


def png(width=32, height=24, colour=(220, 20, 60), noise=b""):
    """A PNG file of one colour. noise: random bytes that its first rows take, so that it does not compress."""
    each = 3 * width
    rows = [noise[at:at + each].ljust(each, b"\0") for at in range(0, len(noise), each)]
    return png_of(width, height, rows + [bytes(colour) * width] * (height - len(rows)))
