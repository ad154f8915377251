"""The package python/anabranch: what its models answer and refuse, and how it finds and shields the server."""

import asyncio
import json
import os
import re
import stat
import subprocess
import sys
import threading
import tomllib

import pytest

from python_models import LONG, start

import anabranch
from anabranch import binary, options
from harness import clients, paths

pytestmark = pytest.mark.any_model
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"city": {"enum": cities}}, "required": ["city"]},
        },
    }
    for name, cities in (("weather", ["Paris"]), ("traffic", ["Rome", "Oslo"]))
]


@pytest.fixture(scope="module")
def model(program):
    with start(pooling="last") as one:
        yield one


# --- Answers.


def plain(answer):
    return (
        answer.text,
        answer.thoughts,
        answer.tool_calls,
        answer.finish_reason,
        answer.prompt_tokens,
        answer.completion_tokens,
    )


def test_an_answer_is_the_servers(model):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell me of rivers"}]
    more = {"temperature": 0, "max_tokens": 12, "enable_thinking": True, "max_thinking_tokens": 9}
    told = model.request("/v1/chat/completions", {"messages": messages, **more})
    answer = model.generate("Tell me of rivers", system="Be brief.", **more)
    assert answer.message["content"] == answer.text == str(answer) == told["choices"][0]["message"]["content"] != ""
    assert (
        answer.message["reasoning_content"]
        == answer.thoughts
        == told["choices"][0]["message"]["reasoning_content"]
        != ""
    )
    assert answer.finish_reason == told["choices"][0]["finish_reason"] == "length"
    usage = told["usage"]
    assert (answer.prompt_tokens, answer.completion_tokens) == (usage["prompt_tokens"], usage["completion_tokens"])
    assert (
        answer.thinking_tokens == usage["completion_tokens_details"]["reasoning_tokens"] > 0
        and answer.cached_tokens == 0
    )
    assert plain(model.chat(messages, **more)) == plain(model.generate(messages, **more)) == plain(answer)
    with_other_system = model.generate("Tell me of rivers", system="Be very brief.", **more)
    assert with_other_system.prompt_tokens == answer.prompt_tokens + 1
    stream = model.stream(messages, **more)
    pieces = list(stream)
    assert "".join(pieces) == answer.text and "".join(piece.thoughts for piece in pieces) == answer.thoughts
    assert (
        len(pieces) > 4
        and all(bool(piece) != bool(piece.thoughts) for piece in pieces)
        and plain(stream.answer) == plain(answer)
    )


def test_texts_and_token_ids_are_continued(model):
    ids = model.tokenize("The capital of")
    answer = model.generate("The capital of", raw=True, max_tokens=5, temperature=0, logprobs=2)
    assert answer.prompt_tokens == len(ids) == 3 and answer.completion_tokens == 5
    assert model.generate(ids, max_tokens=5, temperature=0).text == answer.text == "".join(answer.logprobs["tokens"])
    stream = model.stream(tuple(ids), max_tokens=5, temperature=0, logprobs=2)
    assert "".join(stream) == answer.text and stream.answer.logprobs == answer.logprobs
    assert model.detokenize(ids) == "The capital of" and model.tokenize("<|im_end|>") == [2] != model.tokenize(
        "<|im_end|>", parse_special=False
    )
    for wrong in ({"role": "user", "content": "x"}, [{"role": "user", "content": "x"}]):
        with pytest.raises(TypeError, match="message"):
            model.generate(wrong, raw=True)
    with pytest.raises(TypeError, match="system"):
        model.generate(ids, system="Be brief.")
    with pytest.raises(TypeError, match="list of messages"):
        model.chat("Hello")


@pytest.mark.parametrize(
    "more", [{"tool_choice": "required"}, {"tool_choice": {"type": "function", "function": {"name": "traffic"}}}]
)
def test_calls_of_tools_are_openais(model, more):
    messages = [{"role": "user", "content": "What is the weather in Paris, and the traffic in Rome?"}]
    more = {**more, "tools": TOOLS, "temperature": 0, "max_tokens": 120, "enable_thinking": False}
    answer = model.chat(messages, **more)
    assert answer.finish_reason == "tool_calls" and answer.message["content"] is None
    for call in answer.tool_calls:
        assert call["type"] == "function" and call["id"] and call["function"]["name"] in ("weather", "traffic")
        assert json.loads(call["function"]["arguments"])["city"] in ("Paris", "Rome", "Oslo") and "index" not in call
    stream = model.stream(messages, **more)
    list(stream)
    functions = [[call["function"] for call in one.tool_calls] for one in (answer, stream.answer)]
    assert functions[0] == functions[1] and stream.answer.finish_reason == "tool_calls"
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "fine"} for call in answer.tool_calls]
    assert model.chat([*messages, answer.message, *results], tools=TOOLS, max_tokens=3).completion_tokens > 0


def test_calls_of_a_stream_are_put_together():
    answer = anabranch.Answer()
    for calls in (
        [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"x"'}}],
        [{"index": 0, "function": {"arguments": ": 1}"}}],
        [
            {"index": 1, "id": "b", "type": "function", "function": {"name": "g"}},
            {"index": 1, "function": {"arguments": "{}"}},
        ],
    ):
        assert answer.add({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": None}]}) is None
    assert answer.tool_calls == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    assert answer.finish_reason is None and answer.message["tool_calls"] == answer.tool_calls


def test_an_answer_follows_a_format(model):
    schema = {
        "type": "object",
        "properties": {"river": {"enum": ["Elbe", "Oder"]}},
        "required": ["river"],
        "additionalProperties": False,
    }
    answer = model.chat(
        [{"role": "user", "content": "A river?"}],
        temperature=0,
        max_tokens=60,
        response_format={"type": "json_schema", "json_schema": {"name": "river", "schema": schema}},
    )
    assert json.loads(answer.text)["river"] in ("Elbe", "Oder")


def test_prompts_and_embeddings(model):
    messages = [{"role": "user", "content": "Tell me of rivers"}]
    text = model.apply_template(messages, enable_thinking=False)
    assert (
        text == model.apply_template("Tell me of rivers", enable_thinking=False)
        and "Tell me of rivers<|im_end|>" in text
    )
    assert (
        len(model.tokenize(text))
        == model.count_tokens(messages, enable_thinking=False)
        == model.generate(messages, enable_thinking=False, max_tokens=1).prompt_tokens
    )
    assert model.count_tokens(messages, system="Be brief.", enable_thinking=False) > len(model.tokenize(text))
    one, two = model.embed(["A boat.", "The river rises in the hills."])
    assert model.embed("A boat.") == one != two
    assert len(model.embed("A boat.", dimensions=3)) == 3 < len(one)


# --- Options and errors.


def server_fields():
    """The names that the server reads in requests of OpenAI's API."""
    with open(os.path.join(paths.ROOT, "src/server/api/field_names.cc")) as file:
        lists = dict(re.findall(r"constexpr const char\* (k\w+) =\s*((?:\"[^\"]*\"\s*)+);", file.read()))
    return {
        word
        for name in ("kOwn", "kSamplers", "kForms", "kOpenAi")
        for text in re.findall(r'"([^"]*)"', lists[name])
        for word in text.split()
    }


def test_the_options_are_those_of_the_server():
    assert options.KNOWN | set(options.OWN) == server_fields()
    assert not options.KNOWN & set(options.OWN) and not set(options.OTHERS) & set(options.Options.__annotations__)
    with open(os.path.join(paths.ROOT, "src/server/api/openapi.json")) as file:
        schemas = json.load(file)["components"]["schemas"]
    described = {
        name for part in ("Samplers", "Common", "OpenAiCommon", "ChatRequest") for name in schemas[part]["properties"]
    }
    assert described - set(options.OWN) <= set(options.Options.__annotations__)


def test_what_the_server_would_ignore_is_refused_with_the_nearest_name(model):
    for wrong, right in (
        ("temprature", "temperature"),
        ("topp", "top_p"),
        ("max_token", "max_tokens"),
        ("response_fromat", "response_format"),
    ):
        for ask in (model.generate, model.stream, model.apply_template, model.count_tokens):
            with pytest.raises(TypeError, match=f"'{wrong}'; did you mean '{right}'"):
                ask("x", **{wrong: 1})
    with pytest.raises(TypeError, match="no option 'zzzz'$"):
        model.chat([{"role": "user", "content": "x"}], zzzz=1)
    for name in options.OWN:
        with pytest.raises(TypeError, match=f"{name!r} is no option here: |multiple values|argument"):
            model.generate("x", **{name: 2})
    with pytest.raises(TypeError, match="'port' is set by the Model"):
        start(port=8080)


def test_errors_have_the_servers_words(model):
    with pytest.raises(anabranch.Error) as caught:
        model.generate("x", temperature=1000)
    error = caught.value
    assert (error.status, error.code, error.param) == (400, "invalid_value", "temperature") and str(
        error
    ) == error.message
    assert "must be between 0 and 100" in error.message
    with pytest.raises(anabranch.Error) as caught:
        next(model.stream("x", timeout=-1))
    assert (caught.value.status, caught.value.param) == (400, "timeout")
    with pytest.raises(anabranch.Error) as caught:
        model.request("/nowhere")
    assert (caught.value.status, caught.value.code) == (404, "unknown_url")
    with pytest.raises(anabranch.Error) as caught:
        list(model.stream("x", **LONG, timeout=0.3))
    assert (caught.value.status, caught.value.code) == (None, "timeout")
    with pytest.raises(anabranch.Error) as caught:
        model.generate("x", **LONG, timeout=0.3)
    assert (caught.value.status, caught.value.code) == (504, "timeout")


def test_a_server_that_does_not_start_says_why():
    for name, flags, words in (
        ("/no/such/model", {}, "no model at /no/such/model"),
        (paths.DRAFT, {"contex": 5}, "did you mean --context"),
        (paths.DRAFT, {"context": "many"}, "--context must be from"),
    ):
        with pytest.raises(anabranch.Error, match=words) as caught:
            anabranch.Model(name, **flags)
        assert (
            caught.value.code == "not_started"
            and caught.value.status is None
            and not str(caught.value).startswith("error: ")
        )


def test_flags_become_words():
    from anabranch.server import words_of

    assert words_of(
        {"no_cache": True, "pin": False, "draft": None, "context": 0, "lora": ["a=b", "c=d"], "thinking": "off"}
    ) == ["--no-cache", "--context=0", "--lora=a=b", "--lora=c=d", "--thinking=off"]


def test_threads_get_their_own_answers(model):
    prompts = ["The capital of", "A river", "Once", "The", "In"]
    alone = [model.generate(prompt, raw=True, max_tokens=9, temperature=0).text for prompt in prompts]
    found = {}

    def ask(prompt):
        found[prompt] = model.generate(prompt, raw=True, max_tokens=9, temperature=0).text

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[prompt] for prompt in prompts] == alone and len(set(alone)) == len(alone)


# --- What nobody else may use, and what settings do not change.


def test_the_key_is_secret_and_needed(model):
    assert len(model.key) > 30
    assert clients.status_of(model.url + "/v1/models")[0] == 401
    assert clients.status_of(model.url + "/v1/models", headers={"Authorization": f"Bearer {model.key}"})[0] == 200
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                assert model.key not in file.read()
        except OSError:
            continue


def test_settings_for_other_servers_change_nothing(monkeypatch, tmp_path):
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            tmp_path / "key.pem",
            "-out",
            tmp_path / "cert.pem",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ],
        check=True,
        capture_output=True,
    )
    (tmp_path / "keys").write_text("other\n")
    (tmp_path / "settings.toml").write_text(
        f'[server]\napi_key_file = "{tmp_path}/keys"\naccess_log = "{tmp_path}/access"\nstate_peer_key_file = "/none"\n'
    )
    for name, value in (
        ("TLS_CERT", tmp_path / "cert.pem"),
        ("TLS_KEY", tmp_path / "key.pem"),
        ("HOST", "0.0.0.0"),
        ("PORT", "1"),
        ("LOG_FORMAT", "json"),
        ("LOG_FILE", tmp_path / "log"),
        ("PID_FILE", tmp_path / "pid"),
        ("DETACH", "1"),
        ("API_KEY", "other"),
        ("API_KEY_FILE", "/no/such/keys"),
        ("ACCESS_LOG", tmp_path / "access"),
        ("STATE_PEER", "no address"),
        ("CONFIG", tmp_path / "settings.toml"),
        ("MODEL", "/no/such/model"),
    ):
        monkeypatch.setenv("ANABRANCH_" + name, str(value))
    with start() as model:
        assert model.generate("x", max_tokens=1).completion_tokens >= 1 and model.key != "other"
        assert clients.status_of(model.url + "/v1/models", headers={"Authorization": "Bearer other"})[0] == 401
        assert clients.status_of(model.url + "/v1/models", headers={"Authorization": f"Bearer {model.key}"})[0] == 200
    assert sorted(os.listdir(tmp_path)) == ["cert.pem", "key.pem", "keys", "settings.toml"]


def test_the_program_is_found(monkeypatch, tmp_path):
    def executable(folder, text):
        os.makedirs(tmp_path / folder)
        path = tmp_path / folder / "anabranch"
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    shim = executable("pip", "#!/usr/bin/python3\nfrom anabranch.binary import main\nmain()\n")
    on_path, in_clone, in_wheel = (
        executable(folder, "#!/bin/sh\n") for folder in ("usr/bin", "clone/build", "clone/python/anabranch/bin")
    )
    monkeypatch.setattr(binary, "PACKAGE", str(tmp_path / "clone/python/anabranch"))
    monkeypatch.setenv("PATH", f"{os.path.dirname(shim)}:{os.path.dirname(on_path)}")
    assert binary.find_binary() == paths.PROGRAM
    monkeypatch.delenv("ANABRANCH_BINARY")
    for path in (in_wheel, in_clone, on_path):
        assert binary.find_binary() == path
        os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
    with pytest.raises(anabranch.Error, match="ANABRANCH_BINARY") as caught:
        binary.find_binary()
    assert caught.value.code == "no_binary"
    monkeypatch.setenv("ANABRANCH_BINARY", "/no/such/file")
    with pytest.raises(anabranch.Error, match="/no/such/file"):
        anabranch.Model(paths.DRAFT)


def test_the_command_is_the_program():
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'anabranch'; from anabranch.binary import main; main()"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert done.stdout.strip() == anabranch.__version__ and done.returncode == 0 and done.stderr == ""
    assert subprocess.run([*command, "serve", "--model", "/no/such"], capture_output=True).returncode == 1
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"ANABRANCH_BINARY": "/no/such/file"}
    )
    assert done.returncode == 1 and done.stderr.startswith("error: ANABRANCH_BINARY is '/no/such/file'")


def test_cudas_compiler_is_found_where_pip_installs_it(monkeypatch, tmp_path):
    command = [sys.executable, "-S", "-c", "from anabranch.binary import main; main()"]  # without the packages of the tests
    show = tmp_path / "show"
    show.write_text('#!/bin/sh\necho "${ANABRANCH_NVRTC-none}"\n')
    show.chmod(0o755)
    monkeypatch.delenv("ANABRANCH_NVRTC", raising=False)
    monkeypatch.setenv("ANABRANCH_BINARY", str(show))

    def told(**more):
        path = f"{tmp_path}/site:{os.path.join(paths.ROOT, 'python')}"
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path} | more).stdout.strip()

    assert told() == "none"
    made = [tmp_path / "site/nvidia" / name for name in ("cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc-builtins.so.13.5")]
    for file in made:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        assert told() == str(made[min(made.index(file), 1)])
    assert told(ANABRANCH_NVRTC="/mine") == "/mine"
    # A driver for CUDA 12 cannot use the newest; a compiler that fits no driver is named in the program's message.
    for driver, library in ((12080, made[0]), (13010, made[1]), (11080, made[1])):
        source = f"int cuDriverGetVersion(int *version) {{ *version = {driver}; return 0; }}"
        subprocess.run(["cc", "-shared", "-x", "c", "-", "-o", tmp_path / "libcuda.so.1"], input=source, text=True, check=True)
        assert told(LD_LIBRARY_PATH=str(tmp_path)) == str(library)


def test_the_package_is_whole():
    with open(os.path.join(paths.ROOT, "python/pyproject.toml"), "rb") as file:
        project = tomllib.load(file)
    folder = os.path.join(paths.ROOT, "python")
    packages = {
        os.path.relpath(at, folder).replace("/", ".")
        for at, _, files in os.walk(os.path.join(folder, "anabranch"))
        if "__init__.py" in files
    }
    assert set(project["tool"]["setuptools"]["packages"]) == packages
    assert os.path.exists(os.path.join(folder, "anabranch/py.typed")) and not project["project"].get("dependencies")


# --- asyncio.


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_the_asynchronous_twin_answers_the_same(model):
    messages = [{"role": "user", "content": "Tell me of rivers"}]
    more = {"temperature": 0, "max_tokens": 9, "max_thinking_tokens": 9}

    async def ask():
        async with anabranch.AsyncModel(paths.DRAFT, no_cache=True, context=8192, pooling="last") as twin:
            stream = twin.stream(messages, **more)
            pieces = [piece async for piece in stream]
            answers = await asyncio.gather(
                *[twin.chat(messages, **more) for _ in range(4)], twin.generate(messages[0]["content"], **more)
            )
            others = await asyncio.gather(
                twin.tokenize("A boat."),
                twin.detokenize([28]),
                twin.apply_template(messages),
                twin.count_tokens(messages),
                twin.embed("A boat."),
                twin.embed(["A boat."]),
            )
            return "".join(pieces), stream.answer, answers, others

    text, streamed, answers, others = run(ask())
    expected = model.chat(messages, **more)
    assert text == expected.text and all(plain(one) == plain(expected) for one in [streamed, *answers])
    assert others[:4] == [
        model.tokenize("A boat."),
        model.detokenize([28]),
        model.apply_template(messages),
        model.count_tokens(messages),
    ]
    assert others[4] == others[5][0] == pytest.approx(model.embed("A boat."))


def test_an_asynchronous_model_that_does_not_start_says_why():
    async def ask():
        async with anabranch.AsyncModel("/no/such/model"):
            pass

    with pytest.raises(anabranch.Error, match="no model at /no/such/model"):
        run(ask())
