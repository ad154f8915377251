"""Runs a file's test functions: `run_all(globals())` at its end."""

import sys


def run_all(names):
    """Calls what is named test_..., prints "N passed, N failed" and exits."""
    passed = failed = 0
    for name, test in sorted(names.items()):
        if name.startswith("test_"):
            try:
                test()
                passed += 1
            except Exception as error:  # noqa: BLE001: a crash is one more failure
                failed += 1
                print(f"{name}: {type(error).__name__}: {error}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)
