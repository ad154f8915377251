#!/usr/bin/env python3
"""Runs mlx-lm's own tests of its server over HTTP against ours, unchanged.

usage: mlx_lm.py build/anabranch MODEL_DIR .../mlx_lm-VERSION/tests/test_server.py

The tests come with mlx-lm's source package (pip download --no-binary mlx-lm --no-deps mlx-lm==0.31.3). Needs Python's
`requests`. Tests of functions inside mlx-lm are left out. Prints "N passed, N failed"."""

import importlib.util
import os
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests"))
from harness import paths  # noqa: E402
from harness.server import Server  # noqa: E402


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    binary, model, path = sys.argv[1:]
    for name in ("mlx", "mlx.core", "mlx_lm", "mlx_lm.models", "mlx_lm.models.cache", "mlx_lm.server", "mlx_lm.utils"):
        sys.modules[name] = unittest.mock.MagicMock()  # the tests speak HTTP only
    spec = importlib.util.spec_from_file_location("test_server", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    paths.choose(binary, model)
    with Server() as server:
        suite = unittest.TestSuite()
        for kind in (module.TestServer, module.TestServerWithDraftModel):
            kind.setUpClass = classmethod(lambda cls: setattr(cls, "port", server.port))
            kind.tearDownClass = classmethod(lambda cls: None)
            for name in unittest.defaultTestLoader.getTestCaseNames(kind):
                if "sequence_overlap" not in name:
                    suite.addTest(kind(name))
        result = unittest.TextTestRunner(verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
