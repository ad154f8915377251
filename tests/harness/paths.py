"""The program and the model under test. tests/conftest.py sets them from --program and --model before a test is imported."""

import os

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
PROGRAM = os.path.join(ROOT, "build", "anabranch")
MODEL = os.path.join(ROOT, "models", "hybrid-146m")
DRAFT = os.path.join(ROOT, "models", "hybrid-draft-19m")  # small: for tests that need any model


def choose(program, model):
    global PROGRAM, MODEL, DRAFT
    PROGRAM, MODEL = os.path.abspath(program), os.path.abspath(model)
    DRAFT = os.path.join(os.path.dirname(MODEL), "hybrid-draft-19m")
