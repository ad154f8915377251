"""Tools of MCP servers in `chat`: of the official SDK over stdio and HTTP, and servers that people use (time, fetch, files).; the last line is "N passed, N failed"."""

import http.server
import json
import os
import subprocess
import tempfile
import threading

from agent_setup import PYTHON, config, fake, http_server, results, run, scripted_model, sdk
from harness import paths
from harness.clients import free_port

FOLDER = os.path.dirname(PYTHON)
ALL = ("get_weather", "add", "fail", "slow", "grow", "ask_back", "counted")


def check_sdk(server):
    """What every transport must do with the SDK's server."""
    calls = [("s__get_weather", {"city": "Rome"}), ("s__add", {"a": 2, "b": 3}), ("s__add", {"a": "x"}), ("s__fail", {}),
             ("s__slow", {"seconds": 0.3}), ("s__ask_back", {}), ("s__nothing", {})]
    with config({"s": server}) as path, scripted_model(calls, "The end.") as (model, url):
        out, err = run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "s")
        assert out == "The end.\n", (out, err)
        functions = [t["function"] for t in model.requests[0]["tools"]]
        assert [f["name"] for f in functions] == [f"s__{name}" for name in ALL], functions
        assert functions[0]["description"] == "Current weather of a city" and functions[0]["parameters"]["required"] == ["city"]
        weather, five, wrong, failed, slow, asked, missing = results(model)
        assert json.loads(weather) == {"city": "Rome", "degrees": 18.5} and five == "5" and slow == "done at last"
        assert wrong.startswith("Error: ") and "validation" in wrong and failed.startswith("Error: ") and "fail" in failed, results(model)
        assert missing.startswith("Error: there is no tool 's__nothing'. There are: s__get_weather, s__add"), missing
        assert asked.startswith("refused"), asked
        ids = [m["tool_call_id"] for m in model.requests[1]["messages"] if m["role"] == "tool"]
        assert ids == [c["id"] for c in model.requests[1]["messages"][1]["tool_calls"]] and len(set(ids)) == 7


def test_sdk_over_stdio():
    check_sdk(sdk("stdio"))


def test_sdk_over_http():
    for kind in ("http", "json", "stateless"):
        with http_server(kind) as url:
            check_sdk({"type": "http", "url": url} if kind == "http" else {"url": url + "/" if kind == "json" else url})


def test_pages_and_images():
    with config({"p": sdk("pages")}) as path, scripted_model([("p__tool3_4", {})]) as (model, url):
        run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "p")
        assert len(model.requests[0]["tools"]) == 20
        assert results(model) == ["tool3_4 was called\n[image: image/png, 3 bytes, not shown]"]


def test_a_list_that_changes():
    with http_server("http") as address:
        for server in (sdk("stdio"), {"url": address}):
            with config({"s": server}) as path, scripted_model([("s__grow", {})], [("s__slow", {"seconds": 0.5})],
                                                               [("s__added", {})]) as (model, url):
                run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "s")
                assert results(model) == ["there is one more", "done at last", "new"], results(model)


def test_resources_and_prompts():
    with config({"s": sdk("stdio"), "f": fake("good")}) as path, scripted_model("one", "two") as (model, url):
        lines = ("/tools\n/resources\n/prompts\n/resource notes://today\nWhat is to do?\n"
                 "/prompt review code=\"int a;\" tone=stern\n/prompt review oops\n/prompt none\n/resource none\n")
        out, err = run(paths.PROGRAM, lines, path, "--url", url)
        assert "add " in out and "notes://today" in out and "review code=... [tone=...]" in out and "greet who=..." in out, out
        assert "f\n  echo" in out and out.index("s\n") < out.index("f\n")
        assert model.requests[0]["messages"][0]["content"] == "Resource notes://today:\nBuy milk.\n\nWhat is to do?"
        assert model.requests[1]["messages"][-1]["content"] == "Review this in a stern tone: int a;"
        assert "'oops' is no argument" in err and "no server has the prompt 'none'" in err and "no server lists the resource" in err


def test_a_server_that_is_started_anew():
    """The session is gone: a new one is made, and the call done."""
    port = free_port()
    with config({"s": {"url": f"http://127.0.0.1:{port}/mcp"}}) as path, \
            scripted_model([("s__add", {"a": 1, "b": 1})], "first", [("s__add", {"a": 2, "b": 2})], "second") as (model, url):
        with http_server("http", port=port):
            chat = subprocess.Popen([paths.PROGRAM, "chat", "--mcp-config", path, "--mcp-allow", "s", "--url", url], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            chat.stdin.write("go\n")
            chat.stdin.flush()
            assert chat.stdout.readline() == "first\n"
        with http_server("http", port=port):
            out, err = chat.communicate("again\n", timeout=300)
        assert out == "second\n" and results(model) == ["2", "4"], (out, err)


def test_a_call_that_fails_is_not_repeated_for_ever():
    missing, failing = ("s__nothing", {}), ("s__fail", {})
    for calls in ([missing], [failing], [missing, failing]):
        with config({"s": sdk("stdio")}) as path, scripted_model(calls, calls, "What I know.", "never asked") as (model, url):
            out, err = run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "s")
            assert out == "What I know.\n" and "repeats calls that failed" in err, (out, err)
            assert [request.get("tool_choice", "auto") for request in model.requests] == ["auto", "auto", "none"], model.requests
            assert all(request["tools"] == model.requests[0]["tools"] for request in model.requests), model.requests
    # Other arguments, or a call that works beside it, are no repetition.
    add = ("s__add", {"a": 2, "b": 3})
    script = [[missing], [missing, add], [("s__nothing", {"x": 1})], "The end."]
    with config({"s": sdk("stdio")}) as path, scripted_model(*script) as (model, url):
        out, err = run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "s")
        assert out == "The end.\n" and "repeats" not in err and all("tools" in r for r in model.requests), (out, err)


def test_time_and_files_and_fetch():
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html><body><h1>A page</h1><p>Its text.</p></body></html>")

        def log_message(self, *_):
            pass

    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        servers = {"time": {"command": FOLDER + "/mcp-server-time"},
                   "fetch": {"command": FOLDER + "/mcp-server-fetch", "args": ["--ignore-robots-txt", "--allow-private-ips"]},
                   "files": {"command": FOLDER + "/filesystem-mcp", "args": [folder]}}
        calls = [("time__convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
                 ("files__write_file", {"path": folder + "/a.txt", "content": "hello"}), ("files__read_file", {"path": folder + "/a.txt"}),
                 ("files__read_file", {"path": "/etc/passwd"}), ("fetch__fetch", {"url": f"http://127.0.0.1:{web.server_address[1]}/", "raw": True})]
        with config(servers) as path, scripted_model(calls) as (model, url):
            out, err = run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "time", "--mcp-allow", "files", "--mcp-allow", "fetch.fetch")
            converted, written, read, refused, page = results(model)
        assert "T21:00:00+09:00" in converted, converted
        assert open(folder + "/a.txt").read() == "hello" and "hello" in read, (written, read)
        assert refused.startswith("Error: ") and "root:" not in refused, refused
        assert "A page" in page and "Its text." in page, page
    web.shutdown()


def test_the_model_itself_calls():
    """The model that comes with this project, greedy: in this process and over a server of ours the same conversation."""
    with config({"weather": sdk("stdio")}) as path:
        words = ("--mcp-allow", "weather.get_weather", "--temp", "0", "--thinking", "off", "-n", "60")
        question = "What is the weather in Paris? Use the tool.\n"
        here, err = run(paths.PROGRAM, question, path, "-m", paths.MODEL, "--no-cache", *words)
        assert 'weather.get_weather {"city":"Paris"}' in err and "answered" in err and here.strip(), (here, err)
        server = subprocess.Popen([paths.PROGRAM, "serve", "-m", paths.MODEL, "-p", "0", "--no-cache", "--context", "4096"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        try:
            url = "http" + server.stdout.readline().split(" http")[1].split("/v1")[0].strip()
            there, _ = run(paths.PROGRAM, question, path, "--url", url, *words)
        finally:
            server.kill()
            server.wait()
        assert here == there, (here, there)
