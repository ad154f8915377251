"""What cannot run here is not downloaded, and something that can is named."""

import json
import math
import os
import struct
import urllib.error
import urllib.request

from harness import paths
from hub_setup import always, content, setup
from test_hub import Repo

SMALL = paths.DRAFT
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/data")
TAIL = content(3_000_000, 1)  # weights behind a header: much more than what is asked for


def read(path):
    with open(path, "rb") as file:
        return file.read()


CONFIG = {k: v for k, v in json.loads(read(SMALL + "/config.json")).items() if not k.startswith("quantization")}
TOKENIZER = {name: read(f"{SMALL}/{name}") for name in ("tokenizer.json", "tokenizer_config.json")}
GOOD_GGUF = read(DATA + "/qwen35_gguf/model.gguf")


def safetensors(rest="rest", shapes=None, **types):
    """A header of vectors of 8 elements (or of other shapes), and a tensor `rest` of many bytes behind it."""
    sizes = {"BF16": 2, "I32": 4, "U32": 4, "C64": 8}
    header, at = {}, 0
    for name, dtype in types.items():
        shape = (shapes or {}).get(name.rsplit(".", 1)[1], [8])
        size = math.prod(shape) * sizes[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header[rest] = {"dtype": "BF16", "shape": [len(TAIL) // 2], "data_offsets": [at, at + len(TAIL)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at) + TAIL


def directory(config=None, weights=None, **files):
    """A safetensors repository. config: changes of a config that can be run."""
    return Repo({"config.json": json.dumps({**CONFIG, **(config or {})}).encode(), **TOKENIZER,
                 "model.safetensors": weights or safetensors(**{"model.norm.weight": "BF16"}), **files})


def gguf(arch="llama", tensor_type=0, tokens=0, order="<", part=None):
    """One layer's worth of metadata, one tensor, and many bytes behind the header."""
    text = lambda s: struct.pack(order + "Q", len(s)) + s.encode()
    keys = [text("general.architecture") + struct.pack(order + "I", 8) + text(arch)]
    for key, value in (("block_count", 1), ("context_length", 64), ("embedding_length", 32), ("feed_forward_length", 32),
                       ("attention.head_count", 2)):
        keys.append(text(f"{arch}.{key}") + struct.pack(order + "II", 4, value))
    for key, value in () if part is None else (("no", part), ("count", 2)):
        keys.append(text("split." + key) + struct.pack(order + "IH", 2, value))
    if tokens:
        keys.append(text("tokenizer.ggml.tokens") + struct.pack(order + "IIQ", 9, 8, tokens) +
                    b"".join(text(f"token-{i:09}") for i in range(tokens)))
    tensor = text("token_embd.weight") + struct.pack(order + "IQQIQ", 2, 32, 1, tensor_type, 0)
    header = b"GGUF" + struct.pack(order + "IQQ", 3, 1, len(keys)) + b"".join(keys) + tensor
    return header + bytes(-len(header) % 32) + TAIL


def quantised(**config):
    """With codes that only those know who made them."""
    return directory({"quantization_config": config}, safetensors(**{"model.layers.0.mlp.up_proj.q_weight": "I32"}))


UNKNOWN_FAMILY = {"model_type": "a_family_of_its_own"}
# kind: (repository, what the refusal says)
KINDS = {
    "M-exl2": (quantised(quant_method="exl2", bits=4.0), "exl2"),
    "M-HQQ": (quantised(quant_method="hqq"), "hqq"),
    "M-torchao": (quantised(quant_method="torchao"), "torchao"),
    "M-Quark": (quantised(quant_method="quark"), "quark"),
    "M-BitNet": (quantised(quant_method="bitnet"), "bitnet"),
    "M-AQLM": (quantised(quant_method="aqlm"), "aqlm"),
    "M-mode": (directory({"quantization": {"mode": "nf9", "bits": 4, "group_size": 64}}, safetensors(**{
        "model.layers.0.mlp.up_proj.weight": "U32", "model.layers.0.mlp.up_proj.scales": "BF16"})), "nf9"),
    "M-bits": (directory({"quantization": {"bits": "four", "group_size": 64}}, safetensors(**{
        "model.layers.0.mlp.up_proj.weight": "U32", "model.layers.0.mlp.up_proj.scales": "BF16"})), '"bits" is "four"'),
    "M-types": (directory(weights=safetensors(**{"model.norm.weight": "C64"})), "C64"),
    "M-bin": (Repo({"config.json": json.dumps(CONFIG).encode(), "pytorch_model.bin": TAIL, **TOKENIZER}), "PyTorch"),
    "M-ONNX": (Repo({"config.json": json.dumps(CONFIG).encode(), "onnx/model.onnx": TAIL, **TOKENIZER}), "ONNX"),
    "M-LoRA": (Repo({"adapter_config.json": b'{"base_model_name_or_path": "org/M"}', "adapter_model.safetensors": TAIL, **TOKENIZER}),
               "only an adapter"),
    "M-no-tokenizer": (Repo({"config.json": json.dumps(CONFIG).encode(), "model.safetensors": TAIL}), "no tokenizer.json"),
    "M-big-endian": (Repo({"M-Q8_0.gguf": gguf(order=">")}), "big-endian"),
    "M-unknown-type": (Repo({"M-Q9_K.gguf": gguf(tensor_type=999)}), "number 999"),
}


def weights_asked_for(hub):
    """Bytes of weights' files that were asked for; every request has to be for a part."""
    total = 0
    for kind, path, asked, _ in hub.log:
        if kind in ("resolve", "cdn") and path.endswith((".safetensors", ".gguf", ".bin", ".onnx")):
            assert asked and asked[1] is not None, (kind, path, asked)
            total += (kind == "cdn") * (asked[1] + 1 - asked[0])
    return total


def nothing_came(cache, hub):
    assert weights_asked_for(hub) < 1_000_000, hub.log
    for folder, _, names in os.walk(cache.store):
        assert "snapshots" not in folder or not names, names
        for name in names:
            assert os.path.getsize(os.path.join(folder, name)) < 2_500_000, (folder, name)


def test_each_kind_is_refused_with_an_alternative():
    for name, (repo, why) in KINDS.items():
        base = name if name in ("M-mode", "M-bits", "M-types", "M-bin", "M-no-tokenizer", "M-big-endian", "M-unknown-type") else "M"
        repos = {"org/" + name: repo, f"org/{base}-GGUF": Repo({"M-Q4_K_M.gguf": GOOD_GGUF, "M-Q8_0.gguf": GOOD_GGUF + b"1"})}
        with setup(repos=repos) as (cache, hub, _):
            instead = f"`anabranch pull org/{base}-GGUF:Q4_K_M`"
            err = cache.refused(why, instead, name="org/" + name)
            assert "/tmp/" not in err and "anabranch-model" not in err, err
            nothing_came(cache, hub)
            assert not any(os.path.exists(f"{cache.store}/models--org--{name}/snapshots/{repo.commit}/{f}") for f in repo.files)
            for command in ("generate", "serve"):
                code, _, err = cache.run(command, "-m", "org/" + name, *(("Hello",) if command == "generate" else ("-p", "0")))
                assert code == 1 and why in err and instead in err, err
            nothing_came(cache, hub)
            code, out, err = cache.run("show", "org/" + name, "--json")
            if code == 0:
                shown = json.loads(out)
                assert why in " ".join(shown["problems"]) and shown["instead"] == f"org/{base}-GGUF:Q4_K_M", shown
                assert "runs here            no, because" in cache.run("show", "org/" + name)[1]
            else:  # there are no files that could be the model
                assert why in err and instead in err, err
            nothing_came(cache, hub)


def test_the_number_of_questions_is_bounded():
    with setup(repos={"org/M-exl2": KINDS["M-exl2"][0]}) as (cache, hub, _):
        err = cache.refused("exl2", "cannot run here", "`anabranch pull --anyway org/M-exl2`", name="org/M-exl2")
        assert "can run here:" not in err, err
        assert len(hub.log) <= 14, hub.log
        nothing_came(cache, hub)


def test_an_unknown_family_has_no_alternative():
    repos = {"org/M": directory(UNKNOWN_FAMILY), "org/M-GGUF": Repo({f"M-{q}.gguf": gguf(arch="newarch") for q in ("Q4_K_M", "Q8_0")})}
    with setup(repos=repos) as (cache, hub, _):
        err = cache.refused("a_family_of_its_own", "qwen3_5", name="org/M")
        assert "org/M-GGUF" not in err, err
        err = cache.refused("newarch", name="org/M-GGUF")
        assert "can run here:" not in err, err
        nothing_came(cache, hub)
        # One file shows it: the others of the repository, and the sisters, have the same reason.
        assert len({path for _, path, *_ in hub.requests("cdn") if path.endswith(".gguf")}) <= 2, hub.log


def test_a_sister_with_the_same_reason_ends_the_search():
    repos = {"org/M-4bit": directory(UNKNOWN_FAMILY), "mlx-community/M-4bit": directory(UNKNOWN_FAMILY), "org/M": directory()}
    with setup(repos=repos) as (cache, hub, _):
        assert "can run here:" not in cache.refused("a_family_of_its_own", name="org/M-4bit")
        asked = [path for _, path, *_ in hub.requests("api")]
        assert "mlx-community/M-4bit" in asked and "org/M" not in asked, asked


def test_anyway():
    with setup(repos={"org/M-exl2": KINDS["M-exl2"][0]}) as (cache, hub, _):
        code, out, err = cache.run("pull", "--anyway", "org/M-exl2")
        assert code == 0 and json.loads(out.splitlines()[-1])["downloaded"] > len(TAIL), (out, err)
        # It is marked, and loading it says the same.
        code, out, _ = cache.run("ls", "--json")
        entry, = json.loads(out)
        assert entry["runs_here"] is False and "exl2" in entry["why_not"] and "problem" not in entry, entry
        assert "cannot run here: " in cache.run("ls")[1]
        code, out, err = cache.run("show", "org/M-exl2", "--json")
        assert code == 0 and "exl2" in json.loads(out)["problems"][0], (out, err)
        code, _, err = cache.run("generate", "-m", "org/M-exl2", "Hello")
        assert code == 1 and "exl2" in err, err
        # What is there already is not judged once more.
        assert cache.pull("org/M-exl2")["downloaded"] == 0


def test_what_runs_is_marked_so():
    with setup(Repo({name: read(f"{SMALL}/{name}") for name in os.listdir(SMALL)})) as (cache, hub, _):
        cache.pull()
        entry, = json.loads(cache.run("ls", "--json")[1])
        assert entry["runs_here"] is True and "why_not" not in entry, entry
        assert "cannot" not in cache.run("ls")[1]


def test_a_bare_name_never_chooses_what_cannot_be_read():
    unreadable = gguf(tensor_type=999)
    repo = Repo({"M-Q4_K_M.gguf": unreadable, "M-Q4_0.gguf": gguf(tensor_type=998), "M-Q8_0.gguf": GOOD_GGUF})
    with setup(repo) as (cache, hub, _):
        offer = json.loads(cache.run("show", "org/model-4bit", "--json")[1])
        assert offer["name"] == "org/model-4bit:Q8_0" and offer["problems"] == [], offer
        assert not os.path.exists(cache.store)
        code, out, err = cache.run("pull", "org/model-4bit")
        assert code == 0 and "org/model-4bit:Q8_0 is taken" in out and "number 999" in out, (out, err)
        assert json.loads(out.splitlines()[-1])["path"].endswith("/M-Q8_0.gguf")
        cache.check_model(repo, ["M-Q8_0.gguf"])
        # Of stored ones, too.
        assert cache.run("pull", "--anyway", "org/model-4bit:Q4_K_M")[0] == 0
        shown = json.loads(cache.run("show", "org/model-4bit", "--json", "--offline")[1])
        assert shown["path"].endswith("/M-Q8_0.gguf"), shown
        shown = json.loads(cache.run("show", "org/model-4bit:Q4_K_M", "--json", "--offline")[1])
        assert shown["path"].endswith("/M-Q4_K_M.gguf") and "number 999" in shown["problems"][0], shown
        # What is named is not replaced.
        cache.refused("number 998", "`anabranch pull org/model-4bit:Q8_0`", name="org/model-4bit:Q4_0")
        cache.refused("number 998", "`anabranch pull org/model-4bit:Q8_0`", name="org/model-4bit/M-Q4_0.gguf")
    exl2 = quantised(quant_method="exl2")
    exl2.files["M-Q8_0.gguf"] = GOOD_GGUF
    no_tokenizer = directory(**{"M-Q8_0.gguf": GOOD_GGUF})
    del no_tokenizer.files["tokenizer.json"]
    for repo in (exl2, no_tokenizer):
        with setup(repo) as (cache, hub, _):
            assert cache.pull("org/model-4bit")["path"].endswith("/M-Q8_0.gguf")
            cache.check_model(repo, ["M-Q8_0.gguf"])


def test_the_base_of_a_card_leads_to_the_sisters():
    card = {"cardData": {"base_model": ["people/Base-7B"]}}
    repo = quantised(quant_method="exl2")
    repo.facts = card
    for sister, name in (("people/Base-7B-GGUF", "people/Base-7B-GGUF:Q8_0"), ("unsloth/Base-7B-GGUF", "unsloth/Base-7B-GGUF:Q8_0"),
                         ("bartowski/Base-7B-GGUF", "bartowski/Base-7B-GGUF:Q8_0"), ("ggml-org/Base-7B-GGUF", "ggml-org/Base-7B-GGUF:Q8_0"),
                         ("people/Base-7B", "people/Base-7B")):
        other = directory() if sister == name else Repo({"a-Q8_0.gguf": GOOD_GGUF})
        with setup(repos={"org/tuned": repo, sister: other}) as (cache, hub, _):
            cache.refused(f"`anabranch pull {name}`", name="org/tuned")
            nothing_came(cache, hub)
    # A sister that cannot run, or that is gated, is not named.
    for other in (Repo({"a-Q8_0.gguf": gguf(tensor_type=999)}), Repo({"a-Q8_0.gguf": GOOD_GGUF}, gated=True)):
        with setup(repos={"org/tuned": repo, "people/Base-7B-GGUF": other}) as (cache, hub, _):
            assert "can run here:" not in cache.refused("exl2", name="org/tuned")


def test_a_tokenizer_that_is_not_read_stops_the_weights():
    repo = directory()
    repo.files["tokenizer.json"] = b'{"version": "1.0", "model": {"type": "NoSuchModel", "vocab": {}}}'
    with setup(repo) as (cache, hub, _):
        cache.refused("cannot run here", "tokenizer.json", "org/model-4bit/tokenizer.json", "--anyway")
        nothing_came(cache, hub)
        assert not os.path.exists(f"{cache.repo}/snapshots/{repo.commit}/config.json")


def test_a_long_header_is_fetched_in_steps():
    big = gguf(tokens=60_000, tensor_type=999)  # 1.4 MB before the tensors
    with setup(Repo({"M-Q8_0.gguf": big})) as (cache, hub, _):
        cache.refused("number 999")
        ranges = [r for _, _, r, _ in hub.requests("cdn", "M-Q8_0.gguf")]
        assert ranges[0][0] == 0 and len(ranges) > 2, ranges
        assert all(a[1] + 1 == b[0] for a, b in zip(ranges, ranges[1:])), ranges  # nothing twice
        assert ranges[-1][1] < len(big), ranges


def test_split_models_are_judged_by_all_parts():
    parts = {f"Q4/M-Q4_0-0000{i}-of-00002.gguf": gguf(tensor_type=0 if i == 1 else 999, part=i - 1) for i in (1, 2)}
    with setup(Repo(parts)) as (cache, hub, _):
        cache.refused("cannot run here")
        assert {path for _, path, *_ in hub.requests("cdn")} == set(parts)
        nothing_came(cache, hub)


def sharded(*shards, config=None, shapes=None):
    """A model of several files. shards: the tensors of each."""
    names = [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
    index = {"weight_map": {t: n for n, tensors in zip(names, shards) for t in tensors}}
    files = {name: safetensors(f"rest.of.{name}", shapes, **shard) for name, shard in zip(names, shards)}
    repo = directory(config, **files, **{
        "model.safetensors.index.json": json.dumps(index).encode()})
    del repo.files["model.safetensors"]
    return repo


def weights_of(hub):
    return {path for _, path, *_ in hub.requests("cdn") if path.endswith(".safetensors")}


def layer(number, dtype="BF16", *parts):
    parts = parts or ("mlp.up_proj.weight", "mlp.down_proj.weight")
    return {f"model.layers.{number}.{part}": dtype for part in parts}


def test_safetensors_files_are_judged_until_every_kind_of_tensor_is_known():
    plain = [layer(n) for n in range(6)]
    late = sharded(*plain, {**layer(6), "lm_head.weight": "C64"}, layer(7))
    with setup(late) as (cache, hub, _):
        cache.refused("C64", "lm_head.weight")
        nothing_came(cache, hub)
        assert weights_of(hub) == {"model-00001-of-00008.safetensors", "model-00007-of-00008.safetensors"}, hub.log
    # A file for each kind: some are never asked for.
    kinds = [{f"kind_{chr(97 + n)}.weight": "BF16"} for n in range(20)]
    with setup(sharded(*kinds)) as (cache, hub, _):
        offer = json.loads(cache.run("show", "org/model-4bit", "--json")[1])
        assert len(weights_of(hub)) == 8 and offer["stored"] is False, hub.log


def test_a_matrix_of_two_files_is_not_judged_by_one():
    matrix = lambda n, *parts: layer(n, "I32", *(f"mlp.up_proj.{part}" for part in parts))
    torn = sharded({**matrix(0, "qweight", "qzeros"), **layer(0, "BF16", "mlp.up_proj.scales"), **matrix(1, "qweight")},
                   {**matrix(1, "qzeros"), **layer(1, "BF16", "mlp.up_proj.scales")},
                   config={"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
                   shapes={"qweight": [8, 8], "qzeros": [1, 1], "scales": [1, 8]})
    with setup(torn) as (cache, hub, _):
        offer = json.loads(cache.run("show", "org/model-4bit", "--json")[1])
        assert not any("mlp.up_proj" in problem for problem in offer["problems"]), offer
        assert weights_of(hub) == {"model-00001-of-00002.safetensors"}, hub.log


def test_a_part_that_never_ends_is_cut():
    repo = directory(weights=safetensors(**{"model.norm.weight": "C64"}))
    with setup(repo, faults=always("cdn", "model.safetensors", {"endless": True})) as (cache, hub, _):
        cache.refused("C64")
        assert hub.too_much < 20_000_000, hub.too_much


def test_text_of_files_is_shown_escaped():
    for repo in (directory({"model_type": "\x1b[31mred\u202e"}), directory(**{"tokenizer.json": json.dumps(
            {"model": {"type": "\x1b[31mred\u202e", "vocab": {}}}).encode()})):
        with setup(repo) as (cache, hub, _):
            err = cache.refused("\\x1b[31mred\\u202e")
            assert "\x1b" not in err and "\u202e" not in err, err


def test_a_preflight_that_cannot_be_made_blocks_nothing():
    repo = directory()
    for fault in ({"status": 503}, {"status": 416}, {"truncate": 10}, {"ignore_range": True, "truncate": 5}):
        faults = lambda kind, path, number, start: fault if (kind, path, number) == ("cdn", "model.safetensors", 0) else None
        with setup(repo, faults=faults) as (cache, hub, _):
            cache.pull()
    # A hub without ranges sends the whole file: of that only the header is taken.
    with setup(directory(weights=safetensors(**{"model.norm.weight": "C64"})), faults=always("cdn", "model.safetensors", {"ignore_range": True})) as (cache, hub, _):
        cache.refused("C64")
    # What is no safetensors or GGUF file by its content is not judged.
    with setup(directory(weights=b"<html>" + TAIL)) as (cache, hub, _):
        cache.pull()


def test_the_route_of_the_server_refuses_too():
    repos = {"org/M-exl2": KINDS["M-exl2"][0], "org/M-GGUF": Repo({"M-Q4_K_M.gguf": GOOD_GGUF})}
    with setup(repos=repos) as (cache, hub, _):
        process = cache.start("serve", "-p", "0", "--no-cache")
        try:
            base = process.stdout.readline().decode().rsplit(" on ", 1)[1].strip()

            def ask(path, body):
                request = urllib.request.Request(base.replace("/v1", path), json.dumps(body).encode(), {"Content-Type": "application/json"})
                try:
                    with urllib.request.urlopen(request) as answer:
                        return answer.status, answer.read().decode()
                except urllib.error.HTTPError as error:
                    return error.code, error.read().decode()

            for path in ("/v1/models/pull", "/api/pull"):
                for stream in (False, True):
                    status, text = ask(path, {"model": "org/M-exl2", "stream": stream})
                    assert "exl2" in text and "org/M-GGUF:Q4_K_M" in text, (path, status, text)
                    assert '"error"' in text, text
                    assert status >= 400 or stream, (status, text)
            nothing_came(cache, hub)
        finally:
            process.terminate()
            process.communicate(timeout=300)


def test_names_of_other_sites():
    with setup() as (cache, hub, _):
        for name, text in (("https://ollama.com/library/qwen3:8b", "`ollama pull qwen3:8b`"), ("ollama:qwen3", "`ollama pull qwen3`"),
                           ("https://www.modelscope.cn/models/Qwen/Qwen3-8B", "`anabranch pull Qwen/Qwen3-8B`"),
                           ("https://example.org/m.gguf", "no address of the Hugging Face hub")):
            cache.refused("is no model's name", text, name=name)
        for name, text in (("https://ollama.com/library/qwen3:8b", "`ollama pull qwen3:8b`"), ("qwen3:8b", "ollama:qwen3:8b")):
            code, _, err = cache.run("generate", "-m", name, "Hello")
            assert code == 1 and text in err, err
        assert not hub.log
