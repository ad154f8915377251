"""Greedy text against a reference's, of which a near-tie may turn around a token."""

import math

NEAR_TIE = 1e-2  # in log-prob


def first_difference(got, want):
    return next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), None)


def check_greedy(outputs, runs, tie):
    """`outputs`: futures of token lists, one for each of the golden's runs."""
    parted, wrong = [], []
    for i, (output, run) in enumerate(zip(outputs, runs)):
        got = output.result()
        at = first_difference(got, run["tokens"])
        if at is None:
            continue
        gap = next((gap for step, token, gap in run["rivals"] if (step, token) == (at, got[at])), math.inf)
        parted.append(f"prompt {i} at {at} by {gap}")
        if gap >= tie:
            wrong.append(f"prompt {i} at {at}: token {got[at]} for {run['tokens'][at]}")
    summary = ", ".join([f"{len(outputs) - len(parted)} of {len(outputs)} identical"] + parted)
    assert not wrong, summary + "; no ties: " + ", ".join(wrong)
    return summary
