"""Kinds of flags that the benches share, as types for argparse."""

import argparse
import os

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def names(known):
    """A list of some of these, with commas; empty: none."""
    def parse(text):
        chosen = [name for name in text.split(",") if name]
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)} (known: {', '.join(known)})")
        return chosen
    return parse


def count(most):
    """A number from 1 to `most`."""
    def parse(text):
        if not text.isdigit() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"a number from 1 to {most} was expected")
        return int(text)
    return parse
