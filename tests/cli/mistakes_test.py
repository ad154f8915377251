"""The usual mistakes of a first evening: each ends with the right status and says what, where, and what to do.

A row is one mistake: what somebody types or sends, the status, words that the answer has, and words that it has not."""

from dataclasses import dataclass, field
import contextlib
import json
import os
import pwd
import shutil
import socket
import struct
import subprocess
import tempfile
import zlib

import pytest

from harness import passed_on, paths
from harness.server import Server
from test_hub import Hub, Repo


SMALL = paths.DRAFT
# What nobody should read: names from inside, and the hub's address where nothing is to be asked of it.
NEVER = ("std::", "terminate called", "nlohmann", "CLI::", "simdjson", "exception", "Unhandled", "src/", "127.0.0.1:9", "Run with --help",
         "core dumped", "assert")
USAGE, FAILED = 2, 1


@dataclass
class Row:
    words: list              # the command line, without the program's name
    status: int
    has: list
    lacks: list = field(default_factory=list)
    toml: str = None         # a file for --config
    env: dict = field(default_factory=dict)
    stdin: str = ""


def row(line, status, *has, lacks=(), toml=None, stdin="", words=None, **env):
    """`line` is split at spaces; `words` follow as they are."""
    return Row(line.split() + list(words or []), status, list(has), list(lacks), toml, env, stdin)


# ---- files that are no models

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 10994560\n"
PAGE = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body></body></html>\n"
ZIP = b"PK\3\4" + bytes(100)  # as torch.save writes


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress((b"\0" + b"\x40" * 24) * 8)) + chunk(b"IEND", b""))


def text_of(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, content, mode=0o600):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    os.chmod(path, mode)


def put_model(name, without=(), **files):
    """The small model, with some files left out or replaced ("__" is a period)."""
    os.makedirs(name)
    files = {key.replace("__", "."): content for key, content in files.items()}
    for file in os.listdir(SMALL):
        if file not in without and file not in files:
            os.symlink(os.path.join(SMALL, file), os.path.join(name, file))
    for file, content in files.items():
        put(os.path.join(name, file), content)


def put_files():
    weights, config = text_of(SMALL + "/model.safetensors"), json.loads(text_of(SMALL + "/config.json"))
    put_model("no-config", ["config.json"])
    put_model("no-weights", ["model.safetensors", "model.safetensors.index.json"])
    put_model("no-tokenizer", ["tokenizer.json", "tokenizer_config.json"])
    put_model("cut-data", model__safetensors=weights[:len(weights) // 2])
    put_model("cut-header", model__safetensors=weights[:500])
    put_model("empty-weights", model__safetensors=b"")
    put_model("lfs-weights", model__safetensors=LFS)
    put_model("lfs-tokenizer", tokenizer__json=LFS)
    put_model("page-weights", model__safetensors=PAGE)
    put_model("page-config", config__json=PAGE)
    put_model("no-json", config__json="{ model_type: qwen }")
    put_model("pytorch", ["model.safetensors", "model.safetensors.index.json"], pytorch_model__bin=ZIP)
    put_model("onnx", ["model.safetensors", "model.safetensors.index.json"], model__onnx=b"\x08\x07")
    put_model("other-family", config__json=json.dumps(config | {"model_type": "falcon_mamba"}))
    put("lora/adapter_config.json", '{"peft_type": "LORA", "base_model_name_or_path": "Qwen/Qwen3.5-9B", "r": 16}')
    put("lora/adapter_model.safetensors", weights[:500])
    tokenizer = json.loads(text_of(SMALL + "/tokenizer.json"))
    vocabulary = tokenizer["model"]["vocab"]
    one, other = list(vocabulary)[300:302]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    put_model("other-tokens", tokenizer__json=json.dumps(tokenizer))
    put("two/a-Q4_0.gguf", "GGUF"), put("empty-folder/.keep", ""), put("full-folder/notes.txt", "mine")
    put("empty.gguf", ""), put("page.gguf", PAGE), put("lfs.gguf", LFS)
    put("cut.gguf", b"GGUF" + struct.pack("<IQQ", 3, 200, 30) + bytes(20))
    put("old.gguf", b"GGUF" + struct.pack("<IQQ", 1, 2, 3) + bytes(20))
    put("blob", b"GGUF" + struct.pack("<IQQ", 3, 200, 30))
    for name in ("model.bin", "model.pt", "model.ckpt"):
        put(name, ZIP)
    put("model.onnx", b"\x08\x07"), put("notes.txt", "hello"), put("ok.png", png()), put("text.png", "hello")
    put("schema.json", "{ 'type': "), put("open.gbnf", "root ::= [a-z"), put("undefined.gbnf", 'root ::= foo "x"\n')
    put("open-keys", "a-secret-key-for-all\n", 0o644), put("no-keys", "\n# none\n"), put("cert.pem", "no PEM")


# ---- tables of command lines

G = f"generate -m {SMALL} --no-cache -n 2"
S = f"serve -m {SMALL} --no-cache --context 512"

COMMANDS = [
    row("genrate", USAGE, "no sub-command 'genrate'", "did you mean generate?", "anabranch --help"),
    row("help genrate", USAGE, "no sub-command 'genrate'", "did you mean generate?"),
    row("config shw", USAGE, "no sub-command 'shw'", "did you mean show?", "anabranch config --help"),
    row("config", USAGE, "a sub-command is missing", "show"),
    row("create mymodel", USAGE, "no sub-command 'create'", "[model.NAME]"),
    row("install x/y", USAGE, "no sub-command 'install'", "anabranch pull"),
    row("models", USAGE, "no sub-command 'models'", "anabranch ls"),
    row("cp a b", USAGE, "no sub-command 'cp'", "[model.NAME]", lacks=["mcp"]),
    row("serve --prot 80", USAGE, "no flag --prot", "did you mean --port?", "anabranch serve --help"),
    row("generate hi --temprature 1", USAGE, "no flag --temprature", "did you mean --temperature?"),
    row("serve --ctx-sise 9", USAGE, "no flag --ctx-sise", "did you mean --ctx-size?"),
    row("serve -ngl 99", USAGE, "no flag -ngl", "--device cuda"),
    row("serve --n-gpu-layers 99", USAGE, "no flag --n-gpu-layers", "--device cuda"),
    row("serve --hf-file x.gguf", USAGE, "no flag --hf-file", "ORG/NAME/FILE.gguf", lacks=["--log-file"]),
    row("serve --flash-attn", USAGE, "no flag --flash-attn", "leave it out"),
    row("serve --tensor-parallel-size 2", USAGE, "no flag --tensor-parallel-size", "--devices"),
    row("serve --gpu-memory-utilization 0.9", USAGE, "--model-memory"),
    row("serve --lora x", FAILED, "--lora x", "NAME=PATH"),
    row("serve --lora a=x", FAILED, "--lora", "--model"),
    row("serve --lora-modules x", FAILED, "--lora x", "NAME=PATH"),
    row("serve --lora-modules a=x b=y b=z", FAILED, "--lora b=z", "two adapters"),
    row("serve --lora a=x b=y", USAGE, "'b=y' is one word too many"),
    row("serve --adapter-path x", USAGE, "no flag --adapter-path", "--lora NAME=PATH"),
    row("serve --enable-lora", USAGE, "no flag --enable-lora", "leave it out"),
    row("bench --lora x", USAGE, "no flag --lora"),
    row("generate --lora /nowhere -m . hi", FAILED, "--lora /nowhere", "no such file"),
    row("serve --enable-auto-tool-choice", USAGE, "leave it out"),
    row("convert --hf-path x --mlx-path y", USAGE, "convert SOURCE OUTPUT"),
    row("serve -hf ./nope", FAILED, "there is no model at ./nope"),  # llama.cpp's name of --model
    row(f"{G} -c abc hi", USAGE, "error: --context", "'abc'"),
    row(f"{G} --ctx-size -5 hi", USAGE, "error: --context must be from 0 to", "'-5'"),
    row(f"{G} Why is that", USAGE, "'is' is one word too many", "quote"),
    row("chat", USAGE, "--model (or --url) is missing", "ORG/NAME"),
    row("generate hi", USAGE, "--model is missing", "anabranch ls"),
    row("generate hi -m", USAGE, "--model needs a value"),
    row("generate hi", FAILED, "name is empty", words=["-m", ""]),
    row("generate hi", FAILED, "name is empty", words=["--model=", "--quiet"]),
    row(f"{G} hi", USAGE, "--temp must be", words=["--temp="]),
    row("pull", USAGE, "error: name is missing", "anabranch pull --help"),
    row("convert", USAGE, "error: source is missing"),
    row(f"convert {SMALL}", USAGE, "error: give the directory to write as well", "OUTPUT"),
    row("convert some/model", USAGE, "error: give the directory to write as well"),  # before anything is downloaded
    row("completions tcsh", USAGE, "must be one of bash, zsh, fish", "'tcsh'"),
]

VALUES = [
    row(f"{S} -p 99999", USAGE, "error: --port must be from 0 to 65535", "'99999'", "anabranch serve --help"),
    row(f"{S} -p abc", USAGE, "error: --port must be from 0 to 65535", "'abc'"),
    row(f"{S} -p 1 -p 2", USAGE, "error: --port is given 2 times"),
    row("stop -p abc", USAGE, "error: --port must be from"),
    row(f"{G} --context 8k hi", USAGE, "error: --context must be from 0 to", "'8k'"),
    row(f"{G} --context 99999999 hi", 0, "warning", "99999999", "made for 8192"),
    row(f"{G} --context 4 hi", FAILED, "the context is 4 tokens"),
    row(f"{G} --temperature 5000 hi", USAGE, "error: --temp must be from 0 to 100", "'5000'", lacks=["100.0"]),
    row(f"{G} --temp hot hi", USAGE, "error: --temp must be from 0 to 100", "'hot'"),
    row(f"{G} --top-p 90 hi", USAGE, "error: --top-p must be from 0 to 1", "'90'"),
    row(f"generate -m {SMALL} -n -5 hi", USAGE, "error: --max-tokens must be from -1 to", "'-5'"),
    row(f"{G} --seed abc hi", USAGE, "error: --seed must be a whole number", "'abc'"),
    row(f"{G} -t many hi", USAGE, "error: --threads must be from 0 to 1024", "'many'"),
    row(f"{G} --cache-ram 4XB hi", USAGE, "--cache-ram", "'4XB' is no size", "8GB"),
    row(f"{G} --device gpu hi", USAGE, "error: --device must be one of cpu, cuda, metal", "'gpu'"),
    row(f"{G} --spec medusa hi", USAGE, "error: --spec must be one of auto, off", "'medusa'"),
    row(f"convert {SMALL} out --bits 7", USAGE, "error: --bits must be one of 0, 2, 3, 4, 5, 6, 8", "'7'"),
    row(f"convert {SMALL} out --bits abc", USAGE, "error: --bits", "'abc'"),
    row(f"{G} --json-schema schema.json --grammar open.gbnf hi", USAGE, "--json-schema excludes --grammar"),
]

MODELS = [
    row("generate -m /no/such/model hi", FAILED, "there is no model at /no/such/model", "ORG/NAME"),
    row("generate -m ./no-confg hi", FAILED, "did you mean ./no-config? Models"),
    row("generate -m two/a-Q4_1.gguf hi", FAILED, "there is no model at two/a-Q4_1.gguf", "did you mean two/a-Q4_0.gguf? Models"),
    row("generate -m two/a-Q4 hi", FAILED, "there is no a-Q4 in two", "A model of the hub is hf.co/two/a-Q4", lacks=["?;"]),
    row("chat C:\\models\\x.gguf", FAILED, "there is no model at C:"),
    row("generate -m http://example.com/x.gguf hi", FAILED, "no address of the Hugging Face hub"),
    row("generate -m qwen3.5:9b hi", FAILED, "on the hub it is", "ollama:qwen3.5:9b"),
    row("generate -m no-config hi", FAILED, "no-config/config.json", "copy", "anabranch pull", lacks=["No such file"]),
    row("generate -m no-weights hi", FAILED, "no-weights holds no .safetensors file", "ORG/NAME"),
    row("generate -m empty-folder hi", FAILED, "empty-folder holds no .safetensors file", "ORG/NAME"),
    row("generate -m no-tokenizer hi", FAILED, "no-tokenizer has no tokenizer", "tokenizer.json", "copy"),
    row("generate -m two hi", FAILED, "give the file itself, two/a-Q4_0.gguf"),
    row("generate -m empty.gguf hi", FAILED, "empty.gguf: not a GGUF file", "it is empty", "download it again"),
    row("generate -m page.gguf hi", FAILED, "page.gguf: not a GGUF file", "web page", "anabranch pull"),
    row("generate -m lfs.gguf hi", FAILED, "lfs.gguf: not a GGUF file", "git lfs pull"),
    row("generate -m cut.gguf hi", FAILED, "cut.gguf", "truncated", "download it again"),
    row("generate -m old.gguf hi", FAILED, "old.gguf: GGUF version 1 is not supported", "newer"),
    row("generate -m blob hi", FAILED, "it is a GGUF file", ".gguf"),
    row("generate -m cut-data hi", FAILED, "cut-data/model.safetensors", "truncated", "download it again"),
    row("generate -m cut-header hi", FAILED, "cut-header/model.safetensors", "truncated", "download it again"),
    row("generate -m empty-weights hi", FAILED, "empty-weights/model.safetensors", "it is empty", "download it again"),
    row("generate -m lfs-weights hi", FAILED, "lfs-weights/model.safetensors is not a safetensors file", "git lfs pull",
        lacks=["absurd"]),
    row("generate -m lfs-tokenizer hi", FAILED, "lfs-tokenizer/tokenizer.json", "git lfs pull"),
    row("generate -m page-weights hi", FAILED, "page-weights/model.safetensors", "web page", lacks=["absurd"]),
    row("generate -m page-config hi", FAILED, "page-config/config.json", "web page"),
    row("generate -m no-json hi", FAILED, "no-json/config.json: JSON: syntax error", "byte 2"),
    row("generate -m pytorch hi", FAILED, "pytorch_model.bin", "only safetensors and GGUF are read", "save_pretrained"),
    row("generate -m onnx hi", FAILED, "model.onnx", "only safetensors and GGUF are read"),
    row("generate -m model.bin hi", FAILED, "model.bin is neither", "PyTorch", "only safetensors and GGUF are read"),
    row("generate -m model.pt hi", FAILED, "model.pt is neither", "PyTorch", "safetensors"),
    row("generate -m model.ckpt hi", FAILED, "model.ckpt is neither", "PyTorch", "safetensors"),
    row("generate -m model.onnx hi", FAILED, "model.onnx is neither", "ONNX", "safetensors or GGUF"),
    row("generate -m notes.txt hi", FAILED, "notes.txt is neither a directory, a .safetensors nor a .gguf file"),
    row("generate -m lora hi", FAILED, "adapter (LoRA)", "merge it into Qwen/Qwen3.5-9B", "--lora"),
    row("generate -m other-family hi", FAILED, 'model_type "falcon_mamba" is not supported', "qwen3_5"),
    row("serve -m no-weights -p 0", FAILED, "no-weights holds no .safetensors file"),
    row("show ./no-confg", FAILED, "did you mean ./no-config?"),
    row("pull ./model", FAILED, "no model's name", "ORG/NAME"),
    row("rm -y ./no-config", FAILED, "'./no-config' is no name of a stored model, but a path", "anabranch ls"),
    row(f"generate -m {paths.MODEL} --draft other-tokens hi", FAILED, "other-tokens cannot draft", "same tokenizer"),
    row(f"generate -m {paths.MODEL} --draft ./nodraft hi", FAILED, "there is no model at ./nodraft"),
]

INPUTS = [
    row(f"{G} --image text.png hi", FAILED, "text.png is no image", "PNG, JPEG or WebP"),
    row(f"{G} --image none.png hi", FAILED, "none.png", "No such file"),
    row(f"{G} --image ok.png hi", FAILED, "cannot read images", "text only"),
    row(G, FAILED, "the prompt is empty", "standard input"),
    row(f"{G} -f none.txt", FAILED, "none.txt", "No such file"),
    row("generate -m some/model -f none.txt", FAILED, "none.txt", "No such file"),  # before a download
    row(f"{G} --json-schema schema.json hi", FAILED, "--json-schema schema.json", "syntax error"),
    row(f"{G} --json-schema none.json hi", FAILED, "--json-schema", "none.json", "No such file"),
    row(f"{G} hi --json-schema", FAILED, "--json-schema", "'type'", '"strin"', words=['{"type": "strin"}']),
    row(f"{G} --grammar open.gbnf hi", FAILED, "--grammar open.gbnf", "line 1", "Unterminated"),
    row(f"{G} --grammar undefined.gbnf hi", FAILED, "--grammar undefined.gbnf", 'Rule "foo" is not defined'),
    row(f"{G} hi --grammar", 0, "x", words=['root ::= "x"']),  # the text itself, as llama.cpp has it
    row(f"convert {SMALL} full-folder", FAILED, "full-folder exists already", "--force"),
    row("convert some/model full-folder", FAILED, "full-folder exists already"),  # before a download
    row(f"convert {SMALL} full-folder --force", FAILED, "full-folder is not a model directory"),
    row(f"convert {SMALL} {SMALL}", FAILED, "holds the source itself", "another directory"),
    row(f"convert {SMALL} /proc/out", FAILED, "cannot write to /proc", "choose another output"),
    row(f"convert {SMALL} out --recipe none.json", FAILED, "there is no file none.json"),
    row("chat --url http://127.0.0.1:1", FAILED, "no server answers"),
]

SETTINGS = [
    row("config show", FAILED, "my.toml", "[server]", "no setting prot", "did you mean port?", toml="[server]\nprot = 1\n"),
    row("config show", FAILED, "my.toml", "[chat]", "belongs below a line [server]", toml="[chat]\nport = 1\n"),
    row("config show", FAILED, "my.toml: line 1", "']'", toml="[server\nport = 1\n"),
    row("config show", FAILED, "my.toml: line 2", "'='", toml="[server]\nport: 1\n"),
    row("config show", FAILED, "my.toml: line 1", toml='{"server": 1}'),
    row(f"serve -m {SMALL}", USAGE, "error: --port must be", "'abc'", "my.toml, [server]", toml='[server]\nport = "abc"\n'),
    row(f"serve -m {SMALL}", USAGE, "error: --no-cache must be true or false", "my.toml", toml='[server]\nno-cache = "maybe"\n'),
    row("--config none.toml config show", FAILED, "none.toml", "No such file"),
    row(f"serve -m {SMALL}", USAGE, "error: --port must be", "'abc'", "$ANABRANCH_PORT", ANABRANCH_PORT="abc"),
    row("generate hi", USAGE, "error: --temp must be", "$ANABRANCH_TEMP", ANABRANCH_TEMP="hot", ANABRANCH_MODEL=SMALL),
    row("config show", 0, "warning", "ANABRANCH_PRT is no setting", "did you mean ANABRANCH_PORT?", ANABRANCH_PRT="1"),
]

SERVERS = [
    row(f"{S} -p 0 --host no.such.host.invalid", FAILED, "no.such.host.invalid", "no such host"),
    row(f"{S} -p 0 --host http://127.0.0.1", FAILED, "no such host", "alone", "--port"),
    row(f"{S} -p 0 --host 192.0.2.7", FAILED, "192.0.2.7", "no such address", "0.0.0.0"),
    row(f"{S} -p 0", FAILED, "empty", "127.0.0.1", words=["--host", ""]),
    row(f"{S} -p 0 --api-key-file none", FAILED, "API keys", "none", "No such file"),
    row(f"{S} -p 0 --api-key-file no-keys", FAILED, "'no-keys' has no API key in it"),
    row(f"{S} -p 0", FAILED, "API key must", words=["--api-key", ""]),
    row(f"{S} -p 0", FAILED, "API key must", words=["--api-key=", "--quiet"]),  # as of a variable that is not set
    row(f"{S} -p 0 --tls-cert cert.pem", USAGE, "--tls-cert requires --tls-key"),
    row(f"{S} -p 0 --tls-cert cert.pem --tls-key none.pem", FAILED, "none.pem", "No such file"),
    row(f"{S} -p 0 --tls-cert cert.pem --tls-key cert.pem", FAILED, "cert.pem", "PEM"),
    row("status", 3, "no server runs"),
    row("stop", 0, "no server runs"),
]


# ---- how the rows are run

class Failures(list):
    """Every row of a table is tried; what failed is told together."""

    def check(self, what, right, answer):
        if not right:
            self.append(f"{what}\n    {answer}")

    def tell(self):
        assert not self, f"{len(self)} rows:\n" + "\n".join(self)


@contextlib.contextmanager
def folder_of_mistakes():
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def environment(**more):
    home = os.getcwd() + "/home"
    kept = {key: value for key, value in os.environ.items()
            if not key.startswith("ANABRANCH_") and not key.lower().endswith("_proxy") and key not in ("HF_TOKEN", "HF_HUB_OFFLINE")}
    return kept | passed_on.variables() | {"HOME": home, "XDG_CONFIG_HOME": home + "/config", "XDG_STATE_HOME": home + "/state", "XDG_CACHE_HOME": home + "/cache",
                   "XDG_DATA_HOME": home + "/data", "HF_HOME": home + "/hf", "HF_ENDPOINT": "http://127.0.0.1:9",
                   "OLLAMA_MODELS": home + "/ollama"} | more


def run(*words, stdin="", prefix=(), **env):
    try:
        done = subprocess.run([*prefix, paths.PROGRAM, *words], input=stdin, capture_output=True, text=True, timeout=300, env=environment(**env))
    except subprocess.TimeoutExpired as late:
        return "no status", (late.stdout or b"").decode() + (late.stderr or b"").decode() + "(does not end)"
    return done.returncode, done.stdout + done.stderr


def try_rows(rows):
    failures = Failures()
    with folder_of_mistakes():
        put_files()
        for one in rows:
            words = one.words
            if one.toml is not None:
                put("my.toml", one.toml)
                words = ["--config", "my.toml", *words]
            status, said = run(*words, stdin=one.stdin, **one.env)
            wrong = [f"lacks {text!r}" for text in one.has if text not in said]
            wrong += [f"has {text!r}" for text in (*one.lacks, *NEVER) if text in said.replace("http://127.0.0.1:9/", "")]
            if one.status in (USAGE, FAILED) and "error: " not in said:
                wrong.append("lacks 'error: '")
            if status != one.status:
                wrong.append(f"ends with {status} instead of {one.status}")
            failures.check(f"{' '.join(f'{k}={v}' for k, v in one.env.items())} {' '.join(words)}: {'; '.join(wrong)}", not wrong, said[:600])
    failures.tell()


def test_commands_and_flags():
    try_rows(COMMANDS)


def test_values():
    try_rows(VALUES)


def test_models():
    try_rows(MODELS)


def test_prompts_and_outputs():
    try_rows(INPUTS)


def test_settings():
    try_rows(SETTINGS)


def test_servers_that_do_not_start():
    try_rows(SERVERS)


def test_names_on_the_hub():
    small = {"config.json": b'{"model_type": "qwen3_5"}', "m-Q4_0.gguf": b"GGUF" + bytes(2000), "m-Q8_0.gguf": b"GGUF" + bytes(2000)}
    failures = Failures()
    with folder_of_mistakes(), Hub({"org/model-4bit": Repo(small), "org/other": Repo(small)}, token="hf_test") as hub:
        for name, has in (("org/modle-4bit", ["has no model org/modle-4bit", "did you mean org/model-4bit?"]),
                          ("org/model-4bit:Q5_0", ["Q5_0", "Q4_0"]),
                          ("org/model-4bit@nowhere", ["nowhere"]),
                          ("org/model-4bit/m-Q4_1.gguf", ["m-Q4_1.gguf", "did you mean m-Q4_0.gguf?"])):
            for words in (("pull", name), ("generate", "-m", name, "hi")):
                status, said = run(*words, HF_ENDPOINT=hub.url, HF_TOKEN="hf_test")
                failures.check(f"{words}", status == 1 and all(text in said for text in has), said)
        status, said = run("--offline", "generate", "-m", "org/other", "hi", HF_ENDPOINT=hub.url)
        failures.check("--offline", status == 1 and "--offline" in said and "org/other" in said, said)
        status, said = run("generate", "-m", "org/other", "hi", HF_ENDPOINT="http://127.0.0.1:1")
        failures.check("no network", status == 1 and "cannot reach http://127.0.0.1:1" in said and "connection" in said, said)
    failures.tell()


def test_ports():
    with folder_of_mistakes(), socket.socket() as other:
        put_files()
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        status, said = run(*S.split(), "-p", port)
        assert status == 1 and f"port {port} of 127.0.0.1 is already in use" in said and "another port" in said, said


def as_nobody(*words, **env):
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or not setpriv:
        pytest.skip("needs root and setpriv")
    nobody = pwd.getpwnam("nobody")
    return run(*words, prefix=(setpriv, f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"), **env)


def test_a_port_below_1024():
    """Where the system keeps such ports for root."""
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as file:
        if int(file.read()) <= 81:
            pytest.skip("ordinary users may use every port here")
    with folder_of_mistakes() as folder:
        os.chmod(folder, 0o777)
        status, said = as_nobody("serve", "-m", SMALL, "--no-cache", "--context", "512", "-p", "81")
        if "Permission denied" in said and "port" not in said:
            pytest.skip(said)
        assert status == 1 and "port 81 may only be used by root" in said and "1024" in said, said


def test_a_folder_that_may_not_be_written():
    with folder_of_mistakes() as folder:
        os.chmod(folder, 0o755)
        os.makedirs("closed")
        status, said = as_nobody("convert", SMALL, "closed/out")
        if "closed" not in said:
            pytest.skip(said)
        assert status == 1 and "cannot write to" in said and "/closed: Permission denied" in said and "another output" in said, said


def serving(*flags, model):
    return Server("--no-cache", "--context", "512", *flags, model=model, environment=environment())


def test_keys_that_others_can_read():
    with folder_of_mistakes():
        put_files()
        with serving("--api-key-file", "open-keys", model=SMALL) as server:
            log = server.log
        assert "warning" in log and "open-keys" in log and "chmod" in log and "a-secret-key" not in log, log
        os.chmod("open-keys", 0o640)
        with serving("--api-key-file", "open-keys", model=SMALL) as server:
            assert "warning" not in server.log


# ---- over HTTP

CHAT, USER = "/v1/chat/completions", [{"role": "user", "content": "hi"}]
LONG = [{"role": "user", "content": "word " * 2000}]
TOOLS = [{"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}]


def asked(status, path, body, *has, method="POST", key="a-key", kind="application/json", headers=None, **answer_headers):
    return status, path, body, has, method, key, kind, headers or {}, answer_headers


def chat(status, *has, **fields):
    return asked(status, CHAT, {"messages": USER, "max_tokens": 2} | fields, *has)


REQUESTS = [
    # routes and methods
    asked(405, CHAT, None, "GET is not allowed here", "POST", method="GET", Allow="POST"),
    asked(405, "/v1/messages", None, "use POST", method="GET", Allow="POST"),
    asked(405, "/api/chat", None, "use POST", method="GET", Allow="POST"),
    asked(405, "/v1/models", {}, "use GET"),
    asked(404, "/v1/chat/completion", {}, "Unknown route", "did you mean /v1/chat/completions?"),
    asked(404, "/v1/v1/chat/completions", {}, "did you mean /v1/chat/completions?"),
    asked(404, "/api/v1/chat/completions", {}, "did you mean /v1/chat/completions?"),
    asked(404, "/api/generates", {}, "did you mean /api/generate?"),
    asked(404, "/v1/message", {}, "did you mean /v1/messages?"),
    asked(404, "/v1/audio/speech", {}, "Unknown route", "lists the routes"),
    # bodies
    asked(415, CHAT, json.dumps({"messages": USER}), "Content-Type: application/json", kind="text/plain"),
    asked(200, CHAT, json.dumps({"messages": USER, "max_tokens": 1}), kind=None),  # it can only be JSON
    asked(400, CHAT, "{'messages': []}", "not valid", "byte 1"),
    asked(400, CHAT, "", "not valid", "end of input"),
    asked(400, CHAT, '{"stream": true, "messages": [', "not valid", "end of input"),
    asked(400, CHAT, "[1]", "must be a JSON object, not an array"),
    asked(400, CHAT, {}, "'messages' is missing"),
    asked(400, "/v1/messages", {"max_tokens": 5}, "'messages' is missing"),
    asked(400, CHAT, {"prompt": "hi"}, "'messages' is missing"),
    asked(400, CHAT, {"messages": "hi"}, "'messages' must be an array, not a string"),
    asked(400, CHAT, {"messages": [{"content": "hi"}]}, "'messages[0].role' is missing"),
    asked(400, CHAT, {"messages": [{"role": "usr", "content": "hi"}]}, "'usr'", "user, assistant"),
    # models
    chat(404, "gpt-4o", model="gpt-4o"),
    chat(400, "'model' must be a string", model=5),
    # misspelt fields
    chat(400, "Unknown field 'temprature'", "did you mean 'temperature'?", temprature=1),
    asked(400, "/v1/messages", {"messages": USER, "max_tokens": 2, "temprature": 1}, "did you mean 'temperature'?"),
    asked(200, "/api/chat", {"messages": USER, "stream": False, "thinkk": 1, "options": {"num_predict": 2}},
          **{"X-Anabranch-Ignored-Fields": "thinkk"}),
    asked(200, "/api/generate", {"prompt": "hi", "stream": False, "options": {"num_predict": 2, "temprature": 1}},
          **{"X-Anabranch-Ignored-Fields": "options.temprature"}),
    asked(200, "/completion", {"prompt": "hi", "n_predict": 2, "temprature": 1}, **{"X-Anabranch-Ignored-Fields": "temprature"}),
    # wrong types and values
    chat(400, "'temperature' must be a number, not a string", temperature="hot"),
    chat(400, "'temperature' is 500", "between 0 and 100", temperature=500),
    chat(400, "'max_tokens' must be a whole number", max_tokens="5"),
    chat(400, "'stream' must be a boolean", stream="yes"),
    chat(400, "'stop[0]' must be a string", stream=True, stop=[1]),
    chat(400, "'n' is 1000", "between 1 and 16", n=1000),
    chat(400, "'max_tokens' is -5", max_tokens=-5),
    chat(200, '"finish_reason":"length"', '"content":""', max_tokens=0),
    asked(400, "/v1/messages", {"messages": USER, "max_tokens": -1}, "'max_tokens' is -1", "between 0 and"),
    asked(400, "/v1/messages", {"messages": USER}, "'max_tokens' is missing"),
    chat(400, "'response_format.type'", '\\"jsn\\"', "json_schema", response_format={"type": "jsn"}),
    chat(400, "'tool_choice'", '\\"always\\"', "auto, none, required", tools=TOOLS, tool_choice="always"),
    chat(400, "'tool_choice' names", "not among the 'tools'", tools=TOOLS,
         tool_choice={"type": "function", "function": {"name": "watch"}}),
    chat(400, "'tool_choice'", "no 'tools'", tool_choice="required"),
    chat(400, "'tools[0]' must be", tools=[{"title": "clock"}]),
    # prompts
    asked(400, CHAT, {"messages": LONG}, "maximum context length is 512 tokens", "context_length_exceeded", "Shorten"),
    asked(400, "/v1/messages", {"messages": LONG, "max_tokens": 5}, "prompt is too long", "512"),
    asked(400, "/completion", {"prompt": "word " * 2000}, "512 tokens", "Shorten"),
    chat(400, "cannot read images", messages=[{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}]}]),
    chat(400, "--allow-image-urls", messages=[{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}]),
    chat(400, "are supported", "no audio", messages=[{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]),
    asked(400, "/v1/embeddings", {"input": "hi"}, "--pooling"),
    # keys
    asked(401, CHAT, {"messages": USER}, "API key", "Authorization: Bearer", key=None),
    asked(401, CHAT, {"messages": USER}, "API key", key="another"),
    asked(401, "/v1/messages", {"messages": USER}, "authentication_error", "x-api-key", key="another"),
    asked(401, "/api/chat", {"messages": USER}, "API key", key=None),
    asked(401, "/v1/models", None, "API key", method="GET", key=None),
    asked(401, CHAT, {"messages": USER}, "Bearer", key=None, headers={"Authorization": "a-key"}),
    asked(403, "/v1/models", None, "evil.example", "--allow-host", method="GET", headers={"Host": "evil.example"}),
]


def test_requests():
    failures = Failures()
    with folder_of_mistakes(), serving("--api-key", "a-key", "--strict-model-names", model=paths.MODEL) as server:
        for status, path, body, has, method, key, kind, headers, wanted in REQUESTS:
            connection = server.connect()
            headers = dict(headers)
            if body is not None and kind:
                headers["Content-Type"] = kind
            if key:
                headers["Authorization"] = "Bearer " + key
            connection.request(method, path, body if body is None or isinstance(body, str) else json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read().decode()
            connection.close()
            wrong = [f"lacks {text!r}" for text in has if text not in said] + [f"has {text!r}" for text in NEVER if text in said]
            wrong += [f"{name} is {answer.getheader(name)}" for name, value in wanted.items() if answer.getheader(name) != value]
            if status >= 400 and not json.loads(said).get("error"):
                wrong.append("is no error object")
            if answer.status != status:
                wrong.append(f"is {answer.status} instead of {status}")
            failures.check(f"{method} {path} {str(body)[:100]}: {'; '.join(wrong)}", not wrong, said[:500])
    failures.tell()
