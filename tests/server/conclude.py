"""How a test that makes named checks ends."""


def conclude(checks, summary):
    """Prints checks {name: (good, what was seen)}, a line of figures, and "N passed, N failed"; the exit status."""
    for name, (good, what) in checks.items():
        print(f"ok     {name}" if good else f"FAILED {name}: {what}")
    print(summary)
    failed = sum(not good for good, _ in checks.values())
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0
