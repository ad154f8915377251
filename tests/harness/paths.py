"""The program and the model under test. tests/conftest.py sets them from --program and --model before a test is imported."""

import os

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
PROGRAM = os.path.join(ROOT, "build", "anabranch")
MODEL = os.path.join(ROOT, "models", "hybrid-146m")
TRAINED = MODEL  # what --model names
DRAFT = os.path.join(ROOT, "models", "hybrid-draft-19m")  # small: for tests that need any model


def choose(program, model):
    global PROGRAM, MODEL, TRAINED, DRAFT
    PROGRAM, MODEL = os.path.abspath(program), os.path.abspath(model)
    TRAINED = MODEL
    DRAFT = os.path.join(os.path.dirname(MODEL), "hybrid-draft-19m")


def use(model):
    """The model of the next test."""
    global MODEL
    MODEL = model
