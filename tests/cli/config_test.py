"""Configuration files, the environment and flags."""

import contextlib
import json
import os
import subprocess
import tempfile

from harness import passed_on, paths


@contextlib.contextmanager
def home(text=None, **more):
    """A home whose configuration has this text; further files by name. -> run(*arguments, **environment)"""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "xdg", "anabranch"))
        files = {name.replace("_", "."): content for name, content in more.items()}
        if text is not None:
            files["xdg/anabranch/anabranch.toml"] = text
        for name, content in files.items():
            with open(os.path.join(folder, name), "w") as file:
                file.write(content)

        def run(*arguments, **environment):
            kept = {k: v for k, v in os.environ.items() if not k.startswith("ANABRANCH_")} | passed_on.variables()
            done = subprocess.run([paths.PROGRAM, *arguments], capture_output=True, text=True, timeout=600, cwd=folder,
                                  env=kept | {"XDG_CONFIG_HOME": os.path.join(folder, "xdg")} | environment)
            return done.returncode, done.stdout, done.stderr

        yield run


def shown(run, *arguments, **environment):
    code, out, err = run(*arguments, "config", "show", "--json", **environment)
    assert code == 0, err
    return json.loads(out)


def test_later_sources_count_more():
    with home("[server]\nport = 1\nmax_gap = 2.5\nparallel = 3\n", more_toml="[serve]\nport = 4\n") as run:
        values = shown(run)
        assert values["port"]["value"] == "1" and values["port"]["origin"].endswith("anabranch.toml, [server]"), values
        assert values["max-gap"]["value"] == "2.5" and values["queue"] == {"value": "64", "origin": "default"}, values
        values = shown(run, "--config", "more.toml", ANABRANCH_PARALLEL="5")
        assert values["port"] == {"value": "4", "origin": "more.toml, [serve]"}, values
        assert values["parallel"] == {"value": "5", "origin": "$ANABRANCH_PARALLEL"}, values


def test_without_a_file_defaults_count():
    with home() as run:
        assert shown(run)["port"] == {"value": "11436", "origin": "default"}


def test_a_model_has_settings():
    with home(f'[model.small]\npath = "{paths.MODEL}"\ncontext = 4096\nmax-tokens = 3\ntemp = 0\n[server]\ncontext = 1\n') as run:
        code, out, err = run("config", "show", "--model", "small")
        assert code == 0 and "[model.small]" in out and "4096" in out, out + err
        code, out, err = run("generate", "-m", "small", "--no-cache", "--json", "What is the capital of France?")
        assert code == 0, err
        assert len(json.loads(out)["token_ids"]) == 3, out
        code, out, err = run("generate", "-m", "small", "--no-cache", "--json", "-n", "5", "What is the capital of France?")
        assert code == 0 and len(json.loads(out)["token_ids"]) == 5, out + err  # a flag counts more
        code, _, err = run("generate", "-m", "smal", "hi")
        assert code == 1 and "did you mean small?" in err, err


def test_a_model_beside_the_file_and_a_flag_against_a_setting():
    with home(more_toml='[model.m]\npath = "here"\n[generate]\nmodel = "m"\nno-cache = true\ncache-dir = "x"\n') as run:
        code, _, err = run("--config", "more.toml", "generate", "hi")
        assert code > 0 and "excludes" in err, err
        code, _, err = run("--config", "more.toml", "generate", "--no-cache", "hi")  # the flag wins
        assert code == 1 and "no model at here" in err, err


def test_the_environment_counts():
    with home() as run:
        code, _, err = run("generate", "--no-cache", "hi", ANABRANCH_MODEL="nowhere/at-all/x")
        assert code == 1 and "nowhere/at-all/x" in err, err
        code, _, err = run("serve", "-m", "x", ANABRANCH_PORT="many")
        assert code == 2 and "--port" in err and "many" in err and "--port is set by $ANABRANCH_PORT" in err, err
        code, _, err = run("serve", "-m", "x", "--port", "few", ANABRANCH_PORT="1")
        assert code == 2 and "ANABRANCH_PORT" not in err, err
        code, out, err = run("config", "show", "--json", ANABRANCH_PRT="8080", ANABRANCH_MAX_GAP="7")
        assert code == 0 and "ANABRANCH_PRT is no setting; did you mean ANABRANCH_PORT?" in err and "MAX_GAP" not in err, err
        code, _, err = run("config", "show", "--json", ANABRANCH_BINARY="/usr/bin/anabranch")  # of the Python package
        assert code == 0 and not err, err
        # What Kubernetes tells containers of a service of our name.
        kubernetes = {"ANABRANCH_PORT": "tcp://10.0.0.7:11436", "ANABRANCH_SERVICE_HOST": "10.0.0.7", "ANABRANCH_PORT_11436_TCP": "x"}
        code, out, err = run("config", "show", "--json", **kubernetes)
        assert code == 0 and json.loads(out)["port"]["origin"] == "default" and not err, err


def test_flags_of_every_command_can_be_set():
    with home("[generate]\noffline = true\n", more_toml="[serve]\nport = 4\n") as run:
        code, _, err = run("generate", "-m", "nobody/nothing", "hi")
        assert code == 1 and "--offline" in err, err
        code, _, err = run("generate", "-m", "nobody/nothing", "hi", ANABRANCH_OFFLINE="maybe")
        assert code == 2 and "--offline" in err and "$ANABRANCH_OFFLINE" in err, err
        assert shown(run, ANABRANCH_CONFIG="more.toml")["port"]["value"] == "4"
        assert shown(run, "--config", "more.toml", ANABRANCH_CONFIG="missing.toml")["port"]["value"] == "4"
        code, _, err = run("config", "show", ANABRANCH_CONFIG="missing.toml")
        assert code == 1 and "missing.toml" in err, err
    refused("[server]\nconfig = 'x'\n", "there is no setting config")
    refused("offline = true\n", "offline belongs below a line [server]")


def test_sub_commands_of_sub_commands_have_settings():
    with home("[cache]\ncache-dir = 'states'\n[sessions]\nsessions = 'talks'\n") as run:
        code, out, err = run("cache", "stats", ANABRANCH_OLDER_THAN="x")  # a flag of another one
        assert code == 1 and "there is no directory states" in err, err
        assert "no directory elsewhere" in run("cache", "stats", ANABRANCH_CACHE_DIR="elsewhere")[2]
        code, out, err = run("cache", "clear", "-y", ANABRANCH_OLDER_THAN="x")
        assert code == 2 and "--older-than is set by $ANABRANCH_OLDER_THAN" in err, err
        code, out, err = run("sessions", "ls", ANABRANCH_LIMIT="0")
        assert code == 2 and "--limit is set by $ANABRANCH_LIMIT" in err, err
        assert run("sessions", "ls", "--limit", "3", ANABRANCH_LIMIT="0")[0] == 0
        code, out, err = run("sessions", "show")
        assert code == 1 and err.endswith(" in talks\n"), err
        code, out, err = run("sessions", "show", ANABRANCH_SESSIONS="on")  # a word, no directory
        assert code == 1 and err.endswith("/anabranch/sessions\n"), err


def test_misplaced_settings_say_where_they_belong():
    for text, place in (("port = 80\n", "port belongs below a line [server]"), ("[chat]\nport = 80\n", "below a line [server]"),
                        ("[generate]\njson = true\nbits = 4\n", "below a line [convert]"), ("ctx_size = 9\n", "below a line [server]")):
        with home(text) as run:
            code, _, err = run("config", "show")
            assert code == 1 and place in err and "anabranch.toml" in err, err


def refused(text, *parts):
    with home(text) as run:
        code, _, err = run("config", "show")
        assert code == 1 and all(part in err for part in ("anabranch.toml", *parts)), err


def test_a_malformed_key_is_an_error_with_its_line():
    for line in ("[=", "[ =1", "[[=", "a.=1", "[serve.=]", "[serve]\na. .b=1", "[\x01"):
        with home(f"# first\n{line}\n") as run:
            code, out, err = run("config", "show")
            assert code > 0 and "anabranch.toml" in err and "line " in err, (line, code, err)
    with home('[chat]\nsystem = """\n[!] Be brief.\nNo. (Not more.)\n"""\n[serve]\nport = 5\n') as run:
        assert shown(run)["port"]["value"] == "5"  # within a text of several lines stands anything


def test_what_looks_like_a_switch_is_one():
    for value in ("false", "0", '"no"', '"OFF"'):
        with home(f"[serve]\nsessions = {value}\nport = 99999\n") as run:  # the port ends the start
            assert shown(run)["sessions"]["value"].lower() in ("false", "0", "no", "off")
    for flag, fine in (("Yes", True), ("ON", True), ("nO", True), ("maybe", False)):
        with home() as run:
            code, out, err = run("show", "-h", ANABRANCH_NO_CACHE=flag)
            code, out, err = run("generate", "-m", paths.MODEL, "-n", "1", "Hi", ANABRANCH_NO_CACHE=flag)
            assert (code == 0) == fine, (flag, err)


def test_no_server_starts_without_the_keys_that_were_meant():
    for text in ("api-key = []", 'api-key = ""', "api-key = true", 'api-key = ["a", ""]', 'api-key-file = ""', "api-key-file = false"):
        with home(f"[serve]\n{text}\n") as run:
            code, out, err = run("serve", "-m", paths.MODEL, "-p", "0")
            assert code > 0 and "must be a text that is not empty" in err, (text, code, err)
    with home(keys="alice same-key\nbob same-key\n") as run:
        for variable in ("ANABRANCH_API_KEY", "ANABRANCH_API_KEY_FILE", "ANABRANCH_CACHE_SCOPE"):
            code, out, err = run("serve", "-m", paths.MODEL, "-p", "0", **{variable: ""})
            assert code > 0 and f"{variable} is set and empty" in err, err
        for flag in ("--api-key-file", "--cache-scope"):
            code, out, err = run("serve", "-m", paths.MODEL, "-p", "0", flag, "")
            assert code > 0 and flag in err, err
        code, out, err = run("serve", "-m", paths.MODEL, "-p", "0", "--api-key-file", "keys")
        assert code > 0 and "'alice' and 'bob' have the same API key" in err, err
    with home(mcp_json='{"mcpServers": {}}') as run:
        code, out, err = run("serve", "-m", paths.MODEL, "-p", "0", "--mcp-config", "mcp.json", "--cors-origin", "*")
        assert code > 0 and "only with an API key" in err, err


def test_wrong_files_are_explained():
    refused("[server]\nprot = 1\n", "[server]", "there is no setting prot; did you mean port?")
    refused("[sever]\nport = 1\n", "line 1", "there is no table [sever]; did you mean server?")
    refused("port = 1\n", "port belongs below a line [server]")
    refused("[model.x]\ncontext = 1\n", "[model.x]", "lacks path")
    refused("[model.x]\npath = 'a'\nbits = 1\n", "there is no setting bits")
    refused("[server]\nport = 2026-01-01\n", "port must be a text, a number")
    refused("[server]\nport = [\n", "line ")
    refused("model = 1\n", "write [model.NAME]")
    with home() as run:
        code, _, err = run("--config", "missing.toml", "config", "show")
        assert code == 1 and "missing.toml" in err, err
        code, _, err = run("--config", "/", "config", "show")
        assert code == 1, err
