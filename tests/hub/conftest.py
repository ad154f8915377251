"""Tests of the hub wait most of the time: those that need no fixtures run eight at a time, and each is reported in its turn."""

import concurrent.futures

import pytest

started = {}  # of tests: what becomes of them
pool = concurrent.futures.ThreadPoolExecutor(8)


def pytest_collection_finish(session):
    for item in session.items if not session.config.option.collectonly else []:
        if "/hub/" in str(item.path) and not item.fixturenames:
            started[item.nodeid] = pool.submit(item.obj)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if pyfuncitem.nodeid in started:
        started[pyfuncitem.nodeid].result()
        return True


def pytest_sessionfinish():
    pool.shutdown(cancel_futures=True)
