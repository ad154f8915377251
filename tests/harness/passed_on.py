"""Variables that must reach the program whatever environment a test makes for it: of planted faults (tools/mutate), sanitizers and
coverage."""

import os

PREFIXES = ("ANABRANCH_TEST_MUTANT", "ASAN_", "TSAN_", "UBSAN_", "LSAN_", "LLVM_PROFILE_FILE")


def variables():
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}
