"""The dashboard for Grafana against what /metrics really has."""

import json
import os
import re

import pytest

from harness import paths

DASHBOARD = os.path.join(paths.ROOT, "packaging", "grafana", "anabranch.json")
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
NAME = re.compile(r"(?<![\w:.$])[a-zA-Z_:][\w:]*(?!\s*\()\b")
BY = re.compile(r"\b(?:by|without) ?\(([^)]*)\)")
SERIES = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+")
LABEL = re.compile(r'(\w+)(=~|=)"([^"]*)"')


def series_of(text):
    """[(name, labels)] of /metrics."""
    matches = [SERIES.fullmatch(line) for line in text.splitlines() if line and not line.startswith("#")]
    return [(match[1], {name: value for name, _, value in LABEL.findall(match[2] or "")}) for match in matches]


def faults(expression, series, variables):
    """What an expression asks for that no series has."""
    for name, value in variables.items():
        expression = expression.replace(name, value)
    grouped = {label.strip() for labels in BY.findall(expression) for label in labels.split(",")}
    bare = BY.sub("", expression)
    selectors = dict.fromkeys(SELECTOR.findall(bare))
    rest = re.sub(r"\[[^]]*\]", "", SELECTOR.sub("", bare))
    for name, labels in [*selectors, *((name, "") for name in NAME.findall(rest))]:
        wanted = LABEL.findall(labels)
        if not any(name == own and all(re.fullmatch(value, has.get(label, "")) if kind == "=~" else has.get(label) == value
                                       for label, kind, value in wanted) and grouped <= set(has) for own, has in series):
            yield f"{name}{{{labels}}} by {sorted(grouped)}"


@pytest.fixture(scope="module")
def series(serve_for_all):
    server = serve_for_all("--context", "512")
    server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8})
    return series_of(server.ask("/metrics"))


@pytest.fixture(scope="module")
def dashboard():
    with open(DASHBOARD) as file:
        return json.load(file)


@pytest.fixture(scope="module")
def variables():
    return {"$model": re.escape(os.path.basename(paths.MODEL)), "$__rate_interval": "1m"}


def test_every_expression_finds_series(dashboard, series, variables):
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) >= 15
    assert [fault for each in expressions for fault in faults(each, series, variables)] == []


@pytest.mark.parametrize("wrong", ["sum(anabranch_nothing)", 'sum(rate(anabranch_preemptions_total{model=~"other"}[$__rate_interval]))',
                                   'anabranch_token_gap_seconds_count{model=~"$model"}', "sum by (model) (rate(anabranch_token_gap_seconds_count[1m]))",
                                   'sum(anabranch_requests_running{model=~"$model"}) / anabranch_nothing'])
def test_a_wrong_expression_would_be_found(series, variables, wrong):
    assert len(list(faults(wrong, series, variables))) == 1


def test_the_models_of_the_variable_are_labels(dashboard, series):
    datasource, model = dashboard["templating"]["list"]
    assert (datasource["name"], datasource["type"], datasource["query"]) == ("datasource", "datasource", "prometheus")
    name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", model["query"]["query"]).groups()
    assert any(own == name and label in labels for own, labels in series)


def test_grafana_can_load_it(dashboard):
    """Panels have ids of their own and places that do not overlap; they and the variable use the chosen data source."""
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels) >= 10
    cells = [(x, y) for at in (panel["gridPos"] for panel in panels)
             for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24
    queries = [dashboard["templating"]["list"][1], *panels, *(target for panel in panels for target in panel["targets"])]
    assert {query["datasource"]["uid"] for query in queries} == {"${datasource}"}
    for panel in panels:
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert panel["type"] == "timeseries" and panel["description"].endswith(".")
    assert dashboard["schemaVersion"] >= 39 and "id" not in dashboard and dashboard["uid"] and dashboard["title"]
