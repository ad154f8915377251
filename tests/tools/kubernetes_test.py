"""integrations/kubernetes cannot be run here, but it must be sound: objects that exist are referred to, and flags are real."""

import glob
import os
import re

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FILES = sorted(glob.glob(os.path.join(ROOT, "integrations/kubernetes/*.yaml")))


def objects():
    for path in FILES:
        with open(path) as file:
            for item in yaml.safe_load_all(file):
                yield os.path.basename(path), item


def pods():
    return [(name, item) for name, item in objects() if item["kind"] in ("StatefulSet", "Deployment")]


def test_every_object_has_a_kind_and_a_name():
    assert len(FILES) == 3
    for name, item in objects():
        assert item["apiVersion"] and item["kind"] and item["metadata"]["name"], name


def test_selectors_find_pods():
    labels = [item["spec"]["template"]["metadata"]["labels"] for _, item in pods()]
    for name, item in objects():
        selector = item.get("spec", {}).get("selector")
        if selector:
            assert selector.get("matchLabels", selector) in labels, (name, selector)


def test_ports_of_probes_and_services_are_those_of_containers():
    for name, item in pods():
        for container in item["spec"]["template"]["spec"]["containers"]:
            ports = {port["name"] for port in container["ports"]}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                if probe in container:
                    assert container[probe]["httpGet"]["port"] in ports, name
            claims = {claim["metadata"]["name"] for claim in item["spec"].get("volumeClaimTemplates", [])}
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= claims, name


def test_the_workers_flags_are_in_the_list_of_flags():
    with open(os.path.join(ROOT, "docs/cli.md")) as file:
        serve = file.read().split("## anabranch serve")[-1].split("\n## ")[0]
    args = next(item for _, item in pods() if item["kind"] == "StatefulSet")["spec"]["template"]["spec"]["containers"][0]["args"]
    flags = [word for word in args if word.startswith("--")]
    assert flags and all(re.search(re.escape(flag) + r"\b", serve) for flag in flags), flags


def test_the_pickers_configuration_uses_plugins_that_it_names():
    config = next(yaml.safe_load(item["data"]["config.yaml"]) for _, item in objects() if item["kind"] == "ConfigMap")
    named = {plugin["type"] for plugin in config["plugins"]}
    assert all(used["pluginRef"] in named for profile in config["schedulingProfiles"] for used in profile["plugins"])
