"""What the tests of the web page share."""

import pytest

from harness.needs import program_named


@pytest.fixture(scope="module")
def browser():
    program_named("chromium")
    program_named("chromedriver")
    from web_browser import Browser
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(browser, request):
    """The page with a server that plays its part from a script: the file's PAGE, or a Scripted."""
    from web_script import Scripted
    page = getattr(request.module, "PAGE", Scripted)(browser)
    yield page
    page.fake.stop()


@pytest.fixture
def real(serve, tmp_path):
    """real(*flags) -> the real server with a cache and conversations of its own."""
    environment = {name: str(tmp_path) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    return lambda *flags: serve("--context", "2048", "--threads", "2", *flags, environment=environment)
