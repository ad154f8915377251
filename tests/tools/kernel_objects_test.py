"""The CPU kernels are compiled with instructions that not every processor has. What others can call of them must not use these."""

import glob
import os
import re
import subprocess

import pytest

from harness import paths

OPS = os.path.join(os.path.dirname(os.path.abspath(paths.PROGRAM)), "CMakeFiles", "anabranch_ops.dir")
# A quick build leaves this file out where the processor has no AMX; it is small.
AMX = os.path.join(paths.ROOT, "src", "ops", "cpu", "target_avx512amx.cc")
FLAGS = ["-std=c++20", "-O2", "-w", "-I", os.path.join(paths.ROOT, "src"), "-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw",
         "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mamx-tile", "-mamx-int8"]
HARMLESS = {"endbr64", "lea", "mov", "ret", "xor", "nop", "nopw", "nopl", "xchg", "data16", "cs"}


def lines_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the names of x86's instructions")
def test_only_the_address_of_a_table_leaves_a_kernel_file(tmp_path):
    amx = str(tmp_path / "amx.o")
    subprocess.run([os.environ.get("CXX", "c++"), *FLAGS, "-c", AMX, "-o", amx], check=True)
    built = glob.glob(os.path.join(OPS, "**", "target_*.o"), recursive=True)
    assert built
    for file in [*sorted(built), amx]:
        symbols = [line.split()[-2:] for line in lines_of("nm", "--defined-only", "--extern-only", file)]
        functions = [name for kind, name in symbols if kind in "TtWw"]
        assert len(functions) == 1 and re.search(r"kernels_\w+Ev$", functions[0]), f"{file}: {functions}"
        code = lines_of("objdump", "-d", "--no-show-raw-insn", f"--disassemble={functions[0]}", file)
        used = {match[1] for line in code if (match := re.match(r"\s+[0-9a-f]+:\s+(\w+)", line))}
        assert used and used <= HARMLESS, f"{file}: {functions[0]} uses {sorted(used - HARMLESS)}"
