"""Runs a file's test functions: `sys.exit(run_tests(globals()))` at its end."""
import sys, time, traceback


class Skipped(Exception):
    """Raised by a test that cannot run here, with the reason."""


def run_tests(names):
    """Calls what is named test_..., in the file's order, or those of them that the command line names behind program and model.
    Prints "N passed, N failed[, N skipped]". The exit status."""
    passed = failed = skipped = 0
    wanted = [word for word in sys.argv[3:] if word.startswith("test_")]
    for name, test in list(names.items()):
        if not name.startswith("test_") or (wanted and name not in wanted):
            continue
        began = time.time()
        try:
            test()
            passed += 1
            print(f"ok     {name} ({time.time() - began:.1f} s)", flush=True)
        except Skipped as why:
            skipped += 1
            print(f"SKIPPED {name}: {why}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0
