"""The command line as people use it."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from commands import generate, refused, run
from harness import needs, paths
from harness.waiting import file_sizes, wait_for

SMALL = paths.DRAFT
HELDOUT = os.path.join(os.path.dirname(__file__), "../models/data/heldout.txt")
FIELDS = {"text", "token_ids", "prompt_tokens", "cached_tokens", "completion_tokens", "thinking_tokens", "finish_reason",
          "ttft_s", "prefill_tok_s", "decode_tok_s", "cut", "thinking"}


@pytest.mark.any_model
def test_json_has_every_field():
    answer = generate("Tell me a story.", "--thinking", "off")
    assert FIELDS <= answer.keys(), answer.keys()
    assert answer["completion_tokens"] == len(answer["token_ids"]) == 12 and answer["finish_reason"] == "length"
    assert answer["thinking_tokens"] == 0 and answer["prompt_tokens"] > 5 and answer["ttft_s"] > 0


@pytest.mark.any_model
def test_prompts_from_argument_file_and_stdin_are_the_same():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("Name a river.")
        file.flush()
        answers = [generate("Name a river."), generate("-f", file.name), generate(stdin="Name a river.\n")]
    assert answers[0]["token_ids"] == answers[1]["token_ids"] == answers[2]["token_ids"]


def test_threads_do_not_change_a_token():
    answers = [generate("--raw", "Tea is", "-t", str(t), "--seed", "9", temp="1.5") for t in (1, 2, 3)]
    assert answers[0]["token_ids"] == answers[1]["token_ids"] == answers[2]["token_ids"]
    assert generate("--raw", "Tea is", "--seed", "10", temp="1.5")["token_ids"] != answers[0]["token_ids"]


def test_stop_before_the_prompt_and_cut_text():
    free = generate("--raw", "One, two, three, four,")
    word = free["text"].split()[1]
    cut = generate("--stop", word, "--raw", "One, two, three, four,")
    assert cut["finish_reason"] == "stop" and word not in cut["text"] and free["text"].startswith(cut["text"])


def test_raw_text_is_not_searched_for_reasoning():
    assert "reasoning" not in (a := generate("--raw", "<think>", "--ignore-eos")) or a["reasoning"] == ""


def test_penalties_and_logprobs():
    question = ("--raw", "List some animals.", "--ignore-eos", "--seed", "5")
    plain = generate(*question, temp="1")
    for flag in (("--repetition-penalty", "3"), ("--presence-penalty", "2"), ("--frequency-penalty", "2")):
        answers = [generate(*question, "--spec", spec, *flag, temp="1")["token_ids"] for spec in ("off", "auto")]
        assert answers[0] == answers[1] != plain["token_ids"], flag
    plain = generate(*question)
    answer = generate(*question, "--logprobs", "2")
    assert answer["token_ids"] == plain["token_ids"] and "logprobs" not in plain
    assert len(answer["logprobs"]) == 12 and all(len(entry["top_logprobs"]) == 2 for entry in answer["logprobs"])
    assert all(entry["top_logprobs"][0]["logprob"] == entry["logprob"] <= 0 for entry in answer["logprobs"])
    refused("--json", "generate", "-m", paths.MODEL, "--logprobs", "2", "hi")
    refused("--presence-penalty", "generate", "-m", paths.MODEL, "--presence-penalty", "3", "hi")


def test_thinking():
    answer = generate("Say hello.", "--thinking", "off")
    assert answer["thinking_tokens"] == 0 and answer["text"] and not answer["thinking"]["enabled"]
    answer = generate("Hi!")
    assert answer["thinking_tokens"] == 0 and answer["thinking"]["reason"] == "a greeting or thanks", answer
    answer = generate("Why is the sky blue?")
    assert answer["thinking_tokens"] > 0 and answer["thinking"]["enabled"], answer
    assert generate("Why is the sky blue?", "--max-thinking-tokens", "0")["thinking_tokens"] == 0
    answer = generate("Hi!", "--thinking", "on", "--max-thinking-tokens", "4")
    assert 4 <= answer["thinking_tokens"] < 40 and answer["cut"] == "thinking_budget" and answer["text"], answer
    refused("--thinking", "generate", "-m", paths.MODEL, "--thinking", "maybe", "hi")
    refused("--raw", "generate", "-m", paths.MODEL, "--raw", "--thinking", "on", "hi")


@pytest.mark.any_model
def test_bad_flags_and_files_are_explained():
    refused("nowhere", "generate", "-m", "/nowhere/model", "hi")
    refused("--temp", "generate", "-m", paths.MODEL, "--temp", "nan", "hi")
    refused("empty", "generate", "-m", paths.MODEL)
    refused("--raw", "generate", "-m", paths.MODEL, "--raw", "--system", "x", "hi")
    refused("leave the depth out", "generate", "-m", paths.MODEL, "--spec", "off", "--spec-depth", "3", "hi")
    refused("leave the depth out", "serve", "-m", paths.MODEL, "-p", "0", "--spec", "off", "--spec-depth", "3")
    refused("context", "generate", "-m", paths.MODEL, "--context", "8", "one two three four five six seven")


def test_wrong_words_are_named_with_the_nearest_right_one():
    refused("--modle; did you mean --model?", "generate", "--modle", paths.MODEL, "hi")
    refused("--max-token; did you mean --max-tokens?", "generate", "-m", paths.MODEL, "--max-token=3", "hi")
    refused("no sub-command 'serv'; did you mean serve?", "serv", "-m", paths.MODEL)
    refused("no sub-command 'foo'", "foo")
    refused("no sub-command 'stat'; did you mean stats?", "cache", "stat")
    refused(f"did you mean {paths.MODEL.rstrip('/')}?", "generate", "-m", paths.MODEL.rstrip("/") + "x", "hi")
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "pytorch_model.bin"), "w").close()
        open(os.path.join(folder, "config.json"), "w").close()
        refused("only safetensors and GGUF are read", "generate", "-m", folder, "hi")
        open(os.path.join(folder, "model.gguf"), "w").close()
        refused("model.gguf", "generate", "-m", folder, "hi")


def test_sizes_need_units():
    for flag in ("--cache-ram", "--cache-disk", "--memory"):
        for size in ("8192", "-1", "-1GB", "4XB", "nan", "GB", "1e400GB", "99999999999TB"):
            refused("size", "serve", "-m", paths.MODEL, f"{flag}={size}")
    refused("hold a context of 0 tokens", "serve", "-m", paths.MODEL, "-p", "0", "--memory", "1KB")
    assert generate("hi", "--cache-ram", "64MiB", "--cache-disk", "0")["text"] is not None


@pytest.mark.any_model
def test_lost_output_is_an_error(tmp_path):
    answer = ["generate", "-m", paths.MODEL, "-n", "4", "--temp", "0", "hi"]
    for command in (answer, ["--help"], ["cache", "stats", "--cache-dir", tmp_path],
                    ["bench", "-m", paths.MODEL, "--pp", "8", "--tg", "0", "--reps", "1"]):
        with open("/dev/full", "w") as full:
            ended = subprocess.run([paths.PROGRAM, *command], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE)
        assert ended.returncode == 1 and b"cannot write to stdout" in ended.stderr, (command, ended)
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([paths.PROGRAM, *answer], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert ended.returncode in (-13, 141) and b"error" not in ended.stderr, ended


def test_too_little_memory_is_a_message():
    needs.plain_build()
    for kilobytes in (300_000, 400_000, 500_000, 600_000, 700_000, 900_000, 1_200_000, 2_000_000):
        for threads in (2, 64):  # as on a laptop and on a large machine
            ended = subprocess.run(["bash", "-c", f'ulimit -v {kilobytes}; exec "$@"', "bash", paths.PROGRAM, "generate", "-m", paths.MODEL,
                                    "-n", "4", "-t", str(threads), "--no-cache", "hi"], stdin=subprocess.DEVNULL, capture_output=True)
            assert ended.returncode == 0 or (ended.returncode == 1 and b"memory" in ended.stderr.lower()), (kilobytes, threads, ended)


def test_doctor_gives_advice():
    advice = json.loads(run("doctor", "-m", paths.MODEL, "--json")[1])["advice"]
    assert any("serve -m" in line for line in advice) and any("--threads" in line for line in advice), advice


@pytest.mark.any_model
def test_odd_side_files_end_with_a_message():
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(paths.MODEL):
            os.symlink(os.path.join(os.path.abspath(paths.MODEL), name), os.path.join(folder, name))
        for name in ("tokenizer_config.json", "chat_template.jinja"):
            if os.path.exists(os.path.join(folder, name)):
                os.unlink(os.path.join(folder, name))
        config = os.path.join(folder, "tokenizer_config.json")
        for chat_template in ([{"name": 5}], [{"name": "default", "template": 7}], 3):
            with open(config, "w") as file:
                json.dump({"chat_template": chat_template}, file)
            refused("no chat template", "generate", "-m", folder, "hi")
        with open(config, "w") as file:
            json.dump({"chat_template": "{% bogus %}"}, file)
        refused("bogus", "generate", "-m", folder, "hi")
        code, out, _ = run("generate", "-m", folder, "--raw", "-n", "4", "--temp", "0", "hi")
        assert code == 0 and out.strip(), "plain text must still be continued"
        os.unlink(os.path.join(folder, "config.json"))
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump({"model_type": 5}, file)
        code, _, err = run("doctor", "-m", folder)
        assert code in (0, 1), err


def test_odd_calibration_is_ignored():
    expected = generate("Name a river.")["token_ids"]
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(paths.MODEL):
            if name != "speculation.json":
                os.symlink(os.path.join(os.path.abspath(paths.MODEL), name), os.path.join(folder, name))
        args = ("generate", "-m", folder, "--json", "--temp", "0", "-n", "12", "Name a river.")
        for text in ("", "[]", '{"version":1,"draft_vocab":[5,900000]}', '{"version":1,"layers":3,"exit_layers":[0]}',
                     '{"version":1,"layers":28,"skip_layers":[900]}'):
            with open(os.path.join(folder, "speculation.json"), "w") as file:
                file.write(text)
            code, out, err = run(*args)
            assert code == 0 and json.loads(out)["token_ids"] == expected, err
            assert "draft_vocab" in text or "speculation.json is ignored" in err, err
        refused("calibrate", "generate", "-m", folder, "--lossy-skip", "hi")


def test_calibrate_says_what_is_wrong():
    refused("--output", "calibrate", "-m", paths.MODEL, "--output", "/nowhere/speculation.json")
    with tempfile.TemporaryDirectory() as folder:
        text, output = os.path.join(folder, "text"), os.path.join(folder, "out.json")
        refused("text", "calibrate", "-m", paths.MODEL, "--text", text, "--output", output)
        with open(text, "w") as file:
            file.write("too short")
        refused("tokens", "calibrate", "-m", paths.MODEL, "--text", text, "--output", output)
        assert os.listdir(folder) == ["text"]


@pytest.mark.any_model
def test_calibrate_measures_a_text():
    with tempfile.TemporaryDirectory() as folder:
        text, output = os.path.join(folder, "text"), os.path.join(folder, "out.json")
        with open(text, "w") as file:
            file.write("".join(f"The {i} ships came home in the evening, and nobody asked them why. " for i in range(40)))
        code, out, err = run("calibrate", "-m", paths.MODEL, "--text", text, "--output", output, "--json", timeout=600)
        assert code == 0, err
        said = json.loads(out)
        with open(output) as file:
            kept = json.load(file)
        assert all(said[key] == value for key, value in kept.items()) and said["file"] == output
        assert kept["version"] == 1 and kept["tokens"] > 100 and 0 < kept["draft_vocab_coverage"] <= 1
        assert kept["exit_layers"] and kept["layers"] == len(said["tried"]["exit"]) + 1
        assert 1 < kept["perplexity"] < kept["skip_perplexity"] * 1.5
        assert sorted(os.listdir(folder)) == ["out.json", "text"]


def test_generate_keeps_states_on_disk_only_if_asked():
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"XDG_CACHE_HOME": folder}
        words = [paths.PROGRAM, "generate", "-m", SMALL, "-n", "4", "--temp", "0", "--raw", "word " * 400]

        def bytes_after(*flags):
            subprocess.run([*words, *flags], env=env, check=True, capture_output=True)
            return sum(file_sizes(folder + "/anabranch/states").values())

        assert bytes_after() < 100_000 < bytes_after("--cache-disk", "1GB")


def test_weights_larger_than_memory_are_refused():
    """A file of 2 TB that takes no disk: only its length is there."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(SMALL, name), folder)
        count = 10**12
        header = json.dumps({"model.embed_tokens.weight": {"dtype": "BF16", "shape": [count // 1000, 1000], "data_offsets": [0, 2 * count]}})
        with open(os.path.join(folder, "model.safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header.encode())
            file.truncate(8 + len(header) + 2 * count)
        for command in ("generate", "serve", "bench"):
            code, out, err = run(command, "-m", folder, *(["hi"] if command == "generate" else []))
            assert code == 1 and "2000.0 GB of weights are more than" in err and "--overcommit" in err, err
        code, out, err = run("generate", "-m", folder, "hi", "--overcommit")
        assert code == 1 and "--overcommit" not in err and "2000.0 GB" in err, err  # a warning, then the tensor that is wrong


def test_chat_commands():
    script = "Hello\n/stats\n/clear\n/system Be brief.\n/model /nowhere\n/bogus\nHello again\n/exit\n"
    code, out, err = run("chat", "-m", paths.MODEL, "-n", "8", "--temp", "0", stdin=script)
    assert code == 0 and "tok/s" in out and "unknown command /bogus" in out and "/nowhere" in err, out + err


def test_images_are_refused_where_they_cannot_be_read():
    folder = tempfile.mkdtemp()
    picture, text = os.path.join(folder, "a.png"), os.path.join(folder, "a.txt")
    with open(picture, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + bytes(20))
    with open(text, "w") as file:
        file.write("no picture")
    with open(os.path.join(folder, "large.png"), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.truncate(21 << 20)
    model = ("-m", SMALL, "-n", "4", "--temp", "0")
    for name, reason in ((text, "no image of a known kind"), (os.path.join(folder, "none.png"), "none.png"),
                         (folder, folder), (os.path.join(folder, "large.png"), "large.png")):
        refused(reason, "generate", *model, "--image", name, "What is this?")
        refused(reason, "chat", *model, "--image", name, stdin="What is this?\n")
    refused("cannot read images", "generate", *model, "--image", picture, "What is this?")
    refused("--raw", "generate", *model, "--raw", "--image", picture, "What is this?")
    code, out, err = run("chat", *model, stdin=f"/image {text}\n/image {picture}\nWhat is this?\nHello\n")
    assert code == 0 and "1 image goes before your next message" in out, out
    assert "no image of a known kind" in err and "cannot read images" in err, err
    assert len(out.splitlines()) >= 2, "the conversation goes on without the image"
    shutil.rmtree(folder)


def test_input_without_an_end():
    """What comes without an end is refused, soon and in bounded memory."""
    for words, text in ((("generate", "-m", SMALL), "standard input has more than"), (("generate", "-m", SMALL, "--raw"), "standard input has more than"),
                        (("chat", "-m", SMALL), "a line of standard input has more than"),
                        (("generate", "-m", SMALL, "--prompt-file", "/dev/zero"), "not a regular file")):
        process = subprocess.Popen([paths.PROGRAM, *words], stdin=open("/dev/zero", "rb"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 1 and text in err.decode(), (words, process.returncode, err)
    with tempfile.TemporaryDirectory() as folder:
        limit = "exec \"$@\"" if needs.SANITIZED else "ulimit -v 8000000; exec \"$@\""  # a sanitizer reserves terabytes
        done = subprocess.run(["sh", "-c", limit, "sh", paths.PROGRAM, "sessions", "import", "-", "--sessions", folder], stdin=open("/dev/zero", "rb"),
                              capture_output=True, timeout=600)
        assert done.returncode == 1 and b"standard input has more than" in done.stderr, done


def test_a_prompt_beyond_the_context():
    long = "word " * 1_000_000
    for words in (("generate",), ("generate", "--raw"), ("chat",)):
        code, _, err = run(*words, "-m", SMALL, "--context", "2048", stdin=long + "\n")
        assert "more than 2048" in err and (code == 1 or words == ("chat",)), (code, err)


def test_no_interrupt_is_lost():
    """Whenever it comes while chat starts or waits, chat without a terminal ends."""
    for i in range(12):
        process = subprocess.Popen([paths.PROGRAM, "chat", "-m", SMALL], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        time.sleep(0.02 + 0.14 * i)  # at any moment
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) in (0, -signal.SIGINT, 130), process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"the interrupt after {0.02 + 0.14 * i:.2f} s was lost")


def catches(pid, number):
    """Whether the process has a handler for the signal (Linux)."""
    with open(f"/proc/{pid}/status") as file:
        mask = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_interrupt_ends_an_answer():
    words = [paths.PROGRAM, "generate", "-m", paths.MODEL, "--ignore-eos", "-n", "100000", "--temp", "5", "hi"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.read(1), "no answer begins"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    # With --json nothing is seen of an answer before its end, but from its beginning on the signal is caught.
    process = subprocess.Popen([*words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for(lambda: catches(process.pid, signal.SIGINT), "the answer begins")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert json.loads(out)["finish_reason"] == "cancelled"


@pytest.mark.parametrize("words", [("generate", "--json", "hi"), ("chat",)])
def test_an_ignored_interrupt_ends_no_answer(words):
    """As in a background job of a script, which Ctrl-C in its terminal reaches."""
    words = [paths.PROGRAM, words[0], "-m", paths.MODEL, "-n", "300", "--temp", "0", *words[1:]]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    process.stdin.write(b"Count to a hundred.\n")
    process.stdin.close()
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    out = process.stdout.read()
    alone = subprocess.run(words, input=b"Count to a hundred.\n", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300)
    assert process.returncode == alone.returncode == 0
    told = [json.loads(each)["text"] for each in (out, alone.stdout)] if "--json" in words else [out, alone.stdout]
    assert told[0] == told[1] != ""


def test_serve_survives_any_number_of_interrupts(serve):
    for pause in (0.0, 0.05, 0.6):
        server = serve()
        for _ in range(4):
            server.send_signal(signal.SIGINT)
            time.sleep(pause)  # slowly or quickly
        assert server.wait() in (0, 130)


def test_flags_from_a_file():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flags.toml")

        def with_flags(text):
            with open(path, "w") as file:
                file.write(text)
            return run("generate", "--config", path, "What is the capital of France?")

        code, out, err = with_flags(f'[generate]\nmodel = "{paths.MODEL}"\nmax-tokens = 200\ntemp = 0.0\nno-cache = true\n')
        assert code == 0 and "Paris" in out, out + err
        for text, said in ((f'[generate]\nmodel = "{paths.MODEL}"\nmax-token = 30\n', "max-token"),
                           (f'[generate]\nmodel = "{paths.MODEL}"\ntemp = "hot"\n', "hot")):
            code, _, err = with_flags(text)
            assert code > 0 and said in err, err
    refused("cannot open", "generate", "--config", path, "hi")
    refused("--volatile-drop '('", "serve", "-m", paths.MODEL, "--volatile-drop", "(")


def test_eval_tells_each_token():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("The capital of France is Paris. The capital of Italy is Rome.")
        file.flush()
        code, out, err = run("eval", "-m", paths.MODEL, "--text", file.name, "--window", "8", "--json", "--each")
    assert code == 0, err
    report = json.loads(out)
    ids, each = report["token_ids"], report["each"]
    assert len(ids) == report["tokens"] and len(each) == report["predicted"], report
    assert [token["at"] for token in each] == [at for at in range(len(ids)) if at % 8], report
    assert abs(sum(token["logprob"] for token in each) / len(each) + report["nll"]) < 1e-9, report
    assert sum(token["best"] == ids[token["at"]] for token in each) > 3, report
    refused("--json", "eval", "-m", paths.MODEL, "--text", "nowhere", "--each")


def test_eval_compares_with_the_original():
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        with open(HELDOUT) as source, open(path("text.txt"), "w") as text:
            text.write(source.read()[:3000])
        code, _, err = run("convert", SMALL, path("small"), "--bits", "3")
        assert code == 0, err
        flags = ("--text", path("text.txt"), "--window", "128", "--precise")
        reports = []
        for model in (SMALL, path("small")):
            code, out, err = run("eval", "-m", model, "--against", SMALL, *flags, "--json", "--each")
            assert code == 0, err
            reports.append(json.loads(out))
        same, other = (report["against"] for report in reports)
        assert [same[key] for key in ("kl_mean", "kl_p99", "kl_max", "same_top")] == [0, 0, 0, 1], same
        assert same["nll"] == reports[0]["nll"] == other["nll"] < reports[1]["nll"], reports
        each = reports[1]["each"]
        assert abs(sum(token["kl"] for token in each) / len(each) - other["kl_mean"]) < 1e-9, other
        assert sum(token["best"] == token["original_best"] for token in each) / len(each) == other["same_top"] < 1, other
        assert 0.01 < other["kl_mean"] < other["kl_p99"] <= other["kl_max"], other
        code, out, err = run("eval", "-m", path("small"), "--against", SMALL, *flags)
        assert code == 0 and f"KL divergence {other['kl_mean']:.6f} (99th percentile {other['kl_p99']:.6f}" in out, (out, err)
        code, out, err = run("eval", "-m", path("small"), *flags, "--json")
        assert code == 0 and "against" not in json.loads(out), err
        # Another token in one place; another number of tokens.
        shutil.copytree(SMALL, path("other"))
        with open(path("other/tokenizer.json")) as file:
            tokenizer = json.load(file)
        vocab = tokenizer["model"]["vocab"]
        names = {id: name for name, id in vocab.items()}
        vocab[names[700]], vocab[names[701]] = 701, 700
        with open(path("other/tokenizer.json"), "w") as file:
            json.dump(tokenizer, file)
        refused("token 700 is", "eval", "-m", path("small"), "--against", path("other"), *flags)
        tiny = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/data/llama_tied/model")
        shutil.copytree(tiny, path("tiny"))
        shutil.copy(os.path.join(SMALL, "tokenizer.json"), path("tiny"))
        refused("different vocabularies cannot be compared", "eval", "-m", path("small"), "--against", path("tiny"), *flags)
        refused("nowhere", "eval", "-m", path("small"), "--against", path("nowhere"), *flags)


def test_texts_are_measured_with_bos_where_the_tokenizer_wants_it():
    with tempfile.TemporaryDirectory() as directory:
        path = lambda name: os.path.join(directory, name)
        shutil.copytree(SMALL, path("model"))
        with open(path("model/tokenizer_config.json")) as file:
            config = json.load(file) | {"bos_token": "<|im_start|>", "add_bos_token": True}
        with open(path("model/tokenizer_config.json"), "w") as file:
            json.dump(config, file)
        with open(HELDOUT) as source, open(path("text.txt"), "w") as text:
            text.write(source.read()[:4000])
        code, out, err = run("eval", "-m", path("model"), "--text", path("text.txt"), "--window", "64", "--json", "--each",
                             "--precise")
        assert code == 0, err
        report = json.loads(out)
        assert report["bos"] == 1 and report["predicted"] == report["tokens"] == len(report["each"]), report["bos"]
        code, _, err = run("convert", path("model"), path("out"), "--bits", "8", "--perplexity", path("text.txt"))
        assert code == 0, err
        with open(path("out/recipe.json")) as file:
            assert json.load(file)["perplexity"]["predicted"] == report["tokens"]
        measured = []
        for model in (SMALL, path("model")):
            code, out, err = run("calibrate", "-m", model, "--text", path("text.txt"), "--output", path("found"), "--json")
            assert code == 0, err
            measured.append(json.loads(out)["perplexity"])
        assert measured[0] != measured[1], measured


@pytest.mark.any_model
def test_doctor_and_bench_print_json():
    code, out, err = run("doctor", "-m", paths.MODEL, "--json")
    assert code == 0 and json.loads(out)["model"]["model_type"] == "qwen3_5", err
    code, out, err = run("bench", "-m", paths.MODEL, "--pp", "16,32", "--tg", "4", "--depth", "0,16", "--reps", "2", "--json")
    assert code == 0, err
    works = [row["work"] for row in json.loads(out)["results"]]
    assert works == ["pp16", "pp32", "tg4", "tg4 @ d16"], works
    code, out, err = run("bench", "-m", paths.MODEL, "--pp", "0", "--tg", "2", "--rows", "1,4", "--reps", "1", "--profile", "--json")
    assert code == 0, err
    rows = json.loads(out)["results"]
    assert [(row["work"], row["tokens"], row["passes"]) for row in rows] == \
        [("tg2", 2, 2), ("1 row", 16, 16), ("4 rows", 64, 16)], rows
    for row in rows:
        inside = sum(stage["seconds"] for stage in row["profile"])
        assert 0 < inside <= row["tokens"] / row["tok_s"] * 1.001, row


def test_bench_counts_the_rows_of_experts():
    with tempfile.TemporaryDirectory() as directory:
        shutil.copytree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/data/qwen3_moe/model"), directory, dirs_exist_ok=True)
        shutil.copy(os.path.join(paths.MODEL, "tokenizer.json"), directory)
        code, out, err = run("bench", "-m", directory, "--pp", "16", "--tg", "0", "--reps", "1", "--profile", "--json")
        assert code == 0, err
        row = json.loads(out)["results"][0]
        assert [sum(rows) for rows in row["expert_rows"]] == [16 * 3] * 3, row


def test_bench_refuses_what_has_no_effect():
    for flag, value in (("--spec", "off"), ("--draft", paths.MODEL), ("--temp", "0"), ("--top-p", "0.5"), ("--context", "64")):
        refused(f"{flag} requires --prompts", "bench", "-m", paths.MODEL, flag, value)
    for flag in (("--pp", "16"), ("--rows", "2"), ("--depth", "16"), ("--chunk", "16"), ("--profile",)):
        code, _, err = run("bench", "-m", paths.MODEL, "--prompts", "nowhere.jsonl", *flag)
        assert code > 0 and "excludes" in err and flag[0] in err and "--prompts" in err, err
    refused("--context", "eval", "-m", paths.MODEL, "--text", "nowhere", "--context", "64")
    for kind in ("off:3", "mtp:0", "mtp:x", "quick"):
        refused("--spec: ", "bench", "-m", paths.MODEL, "--prompts", "nowhere.jsonl", "--spec", kind)
    refused("nowhere.jsonl", "bench", "-m", paths.MODEL, "--prompts", "nowhere.jsonl", "--spec", "off", "--temp", "0")


def test_convert_makes_a_model_that_runs():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "small")
        code, _, err = run("convert", paths.MODEL, out, "--bits", "8", timeout=300)
        assert code == 0, err
        answer = run("generate", "-m", out, "--temp", "0", "-n", "200", "What is the capital of France?")[1]
        assert "Paris" in answer, answer
        refused("exists", "convert", paths.MODEL, out, "--bits", "4")
        refused("source itself", "convert", out, out, "--bits", "4", "--force")


def test_convert_calibrates_and_measures():
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        with open(HELDOUT) as file:
            text = file.read(2400)
        with open(path("text.txt"), "w") as file:
            file.write(text)
        with open(path("lines.jsonl"), "w") as file:
            file.write(json.dumps({"text": text[:1600]}) + "\n\n")
            file.write(json.dumps({"messages": [{"role": "user", "content": text[:500]},
                                                {"role": "assistant", "content": text[500:900]}]}) + "\n")
        found = {}
        for name, flags in (("plain", ()), ("same", ("--calibration", path("text.txt"))),
                            ("lines", ("--calibration", path("lines.jsonl")))):
            code, out, err = run("convert", SMALL, path(name), "--bits", "3", "--perplexity", path("text.txt"), *flags,
                                 timeout=300)
            assert code == 0, err
            assert ("is quantised already" in err) == bool(flags), err
            with open(os.path.join(path(name), "recipe.json")) as file:
                recipe = json.load(file)
            found[name] = recipe["perplexity"]
            assert recipe["default"] == {"bits": 3, "group": 64} and recipe["rules"] == [], recipe
            assert ("calibration" in recipe) == bool(flags), recipe
            assert f"perplexity {found[name]['source']:.4f} before, {found[name]['result']:.4f} after" in out, out
            assert f"KL divergence {found[name]['kl_mean']:.6f}" in out and 0.01 < found[name]["kl_mean"] < found[name]["kl_p99"], out
            assert 0.1 < found[name]["same_top"] < 1, found
        assert found["plain"]["source"] == found["lines"]["source"]
        assert found["lines"]["result"] != found["plain"]["result"], found
        # The last tenth only, when one text does both.
        assert found["same"]["predicted"] < 0.12 * found["plain"]["predicted"], found
        code, _, err = run("convert", SMALL, path("again"), "--recipe", os.path.join(path("lines"), "recipe.json"))
        assert code == 0, err
        with open(path("bad.jsonl"), "w") as file:
            file.write('{"text": "good enough"}\n{"txt": 1}\n')
        refused("bad.jsonl: line 2", "convert", SMALL, path("no"), "--calibration", path("bad.jsonl"))
        refused("nowhere.txt", "convert", SMALL, path("no"), "--perplexity", path("nowhere.txt"))
        assert not os.path.exists(path("no"))
