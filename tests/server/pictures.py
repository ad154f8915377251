"""Pictures for tests."""

import struct
import zlib


def png(width=32, height=24, colour=(220, 20, 60), noise=b""):
    """A PNG file of one colour. noise: random bytes that its first row takes, so that it does not compress."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = b"\0" + bytes(colour) * width
    rows = b"".join([b"\0" + noise[at:at + 3 * width].ljust(3 * width, b"\0") for at in range(0, len(noise), 3 * width)])
    rows += row * (height - len(rows) // len(row))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
