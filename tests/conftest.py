"""Options, fixtures and reports that all tests share; the code behind them is in tests/harness."""

import os
import signal
import tempfile

import pytest

from harness import needs, paths, sanitizers
from harness.server import Server


# Variables of the tests themselves; others would change what the program does.
KEPT = {"ANABRANCH_NVRTC", "ANABRANCH_TEST_MODELS", "ANABRANCH_TEST_SANITIZED", "ANABRANCH_TEST_MUTANT", "ANABRANCH_TEST_MUTANTS_REACHED"}


def pytest_addoption(parser):
    parser.addoption("--program", default=paths.PROGRAM, help="the program under test (build/anabranch)")
    parser.addoption("--model", default=paths.MODEL, help="the folder of the model to test with (models/hybrid-146m)")
    parser.addoption("--checkpoint", action="append", default=[], help="exactness_test.py: a model to ask instead of the tiny ones")
    parser.addoption("--checkpoint-draft", help="exactness_test.py: a draft model for it")
    parser.addoption("--checkpoint-flags", default="", help="exactness_test.py: further flags of its server")
    parser.addoption("--effort", type=float, default=1, help="random tests do so many times as much as usual")
    parser.addoption("--seed", type=int, default=1, help="of random tests")
    parser.addoption("--full", action="store_true", help="accuracy_test.py: the whole text and all prompts")
    parser.addoption("--record", action="store_true", help="web_streams_test.py: record the server's streams anew")
    parser.addoption("--real", default="small", choices=["small", "all"], help="which of the models of tools/fetch_real_models.py to test")


def pytest_configure(config):
    paths.choose(config.option.program, config.option.model)
    # A background job of a script begins with SIGINT ignored, and so would the programs that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Settings, statistics, states and conversations of the user change no result here, and the user keeps none of these.
    folder = tempfile.TemporaryDirectory(prefix="anabranch-tests-")
    config.add_cleanup(folder.cleanup)
    for name in [name for name in os.environ if name.startswith("ANABRANCH_") and name not in KEPT]:
        del os.environ[name]
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        os.environ[name] = os.path.join(folder.name, name)
    if needs.SANITIZED:
        config.sanitizer_reports = os.path.join(folder.name, "sanitizer")
        os.mkdir(config.sanitizer_reports)
        sanitizers.report_into(config.sanitizer_reports)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    paths.use(paths.DRAFT if item.get_closest_marker("any_model") else paths.TRAINED)
    Server.started[:] = [server for server in Server.started if server.process and server.process.poll() is None]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    yield
    if needs.SANITIZED and (found := sanitizers.take_reports(item.config.sanitizer_reports)):
        pytest.fail(f"a sanitizer found something:\n{found[:20000]}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for server in Server.started:
            report.sections.append((f"log of {' '.join(server.command[1:])}", (server.earlier + server.log)[-8000:]))
    return report


@pytest.fixture(scope="module")
def model():
    return paths.MODEL


@pytest.fixture(scope="session")
def effort(request):
    """effort(usual) -> how many times or how long a random test does what it does."""
    return lambda usual: type(usual)(usual * request.config.option.effort)


@pytest.fixture(scope="session")
def seed(request):
    return request.config.option.seed


def factory():
    servers = []

    def start(*flags, **options):
        servers.append(Server(*flags, **options))
        return servers[-1]
    yield start
    for server in servers:
        server.end()


@pytest.fixture
def serve():
    """serve(*flags, **options) -> a running Server, which ends after the test."""
    yield from factory()


@pytest.fixture(scope="module")
def serve_for_all():
    """Like serve, for servers that all tests of a file share."""
    yield from factory()
