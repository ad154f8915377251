#!/usr/bin/env python3
"""Proves which way the includes point: reads every #include under src/ and reports, as file:line, each one that
the tables below do not allow, and each use of a word that has one place. --selftest checks the checker. Ends with "N passed, N failed" (a file is a test)."""

import fnmatch
import os
import re
import sys

# What each folder with a library of its own may include, besides itself. The arrows are transitive (see closure()).
ARROWS = {
    "base": [],
    "tensor": ["base"],
    "ops": ["tensor"],
    "state": ["ops"],
    "nn": ["ops", "state"],
    "checkpoint": ["tensor"],
    "models": ["nn", "state", "checkpoint", "images"],
    "cache": ["state"],
    "tokenizer": ["base"],
    "images": ["base"],
    "net": ["base"],
    "hub": ["net"],
    "sessions": ["base"],
    "mcp": ["net"],
    "jinja": ["base"],
    "terminal": ["base"],
    "grammar": ["tokenizer"],
    "output": ["tokenizer", "jinja", "grammar"],
    "decode": ["models", "output"],
    "peers": ["cache", "net"],
    "engine": ["decode", "cache", "peers"],
    "chat": ["output", "mcp", "images"],
    "server/http": ["base"],
    "server/web": ["base"],
    "server/otlp": ["net"],
    "server/api": ["server/http", "server/web", "server/otlp", "chat", "sessions", "mcp", "net"],
    "cli": ["server/api", "engine", "hub", "mcp", "net", "sessions", "terminal"],
}
# Single headers that a folder may include although its arrows do not reach that folder.
ALSO = {"chat": ["engine/engine.h"], "server/api": ["engine/engine.h", "peers/lookup.h", "cache/shared_states.h"]}

# The folder with a room for each API, and the other rooms that a room may include: llama-server takes chats in OpenAI's format.
ROOMS = ("server/api/", {"llama": ["openai"]})

# Who may include what from outside, and which of our own headers are not for everyone.
# (pattern of the header, files under src/ that may include it, why)
RESTRICTED = [
    (r"mlx/.*", ["ops/reference/*", "ops/metal/*"], "MLX is the reference's and Metal's only"),
    (r"ops/(cpu|cuda|reference|metal)/.*", ["ops/*"], "backends are reached through their table of ops"),
    (r"tensor/.*", ["tensor/*", "ops/*", "state/*", "nn/*", "checkpoint/*", "models/*", "cache/*", "decode/*",
                    "engine/*.cc", "engine/logits.h", "engine/memory_plan.h", "engine/loader.h", "cli/*"],
     "tensors end at the engine's public header"),
    (r"([a-z0-9]*mmintrin|immintrin|x86intrin|arm_neon|arm_sve)\.h", ["ops/*", "base/thread_pool.cc"],
     "SIMD is for ops/ only (the thread pool's pause instruction aside)"),
    (r"(cuda.*|Metal/.*|metal/.*)", ["ops/*"], "device code is for ops/ only"),
    (r"base/json\.h",
     ["base/*", "jinja/*", "grammar/*", "output/*", "chat/*", "server/*", "checkpoint/*", "models/*", "cli/*",
      "engine/loader*", "engine/recommendation*", "hub/*", "sessions/*", "mcp/*", "cache/kv_events.cc", "peers/*", "images/*",
      "tokenizer/tokenizer_settings.cc", "terminal/history.cc"],
     "JSON ends where requests and config.json are read"),
    (r"nlohmann/.*", ["base/json.h", "base/json.cc"], "JSON comes through base/json.h"),
    (r"simdjson\.h", ["tokenizer/*.cc", "checkpoint/*.cc", "hub/weight_map.cc", "server/api/request_model.cc", "server/api/field_names.cc"],
     "big JSON files are read in tokenizer/, checkpoint/ and hub/weight_map.cc"),
    (r"boost/.*", ["server/http/*.cc", "server/http/client_socket.h", "server/http/connection.h",
                   "server/http/output_queue.h", "server/http/request_reader.h", "server/http/stream.h",
                   "server/http/tls.h"],
     "networking is for server/http/ only, and not in the headers that others see"),
    (r"spdlog/.*", ["base/log.cc"], "logging comes through base/log.h"),
    (r"(jpeglib\.h|jerror\.h|png\.h|webp/.*)", ["images/*.cc"], "pictures are decoded in images/"),
    (r"pcre2.*", ["tokenizer/*.cc"], "regular expressions come through tokenizer/regex.h"),
    (r"utf8proc\.h", ["terminal/characters.cc", "tokenizer/*.cc", "jinja/unicode.cc", "chat/request_words.cc"],
     "Unicode tables are for few files"),
    (r"xxhash\.h", ["cache/*.cc", "checkpoint/adapter_file.cc"], "hashing of prefixes, records and adapters is for few files"),
    (r"zmq\.hpp", ["cache/kv_events.cc"], "ZeroMQ is for events of the cache only"),
    (r"xgrammar/.*", ["grammar/compiled_grammar.h", "grammar/grammar.cc", "grammar/grammar_compiler.cc"], "grammars come through grammar/grammar.h"),
    (r"dlpack/.*", ["grammar/compiled_grammar.h", "grammar/grammar.cc", "grammar/grammar_compiler.cc"], "grammars come through grammar/grammar.h"),
    (r"CLI/.*", ["cli/*"], "flags are parsed in cli/"),
    (r"histedit\.h", ["terminal/line_editor.cc"], "line editing is terminal/line_editor.cc's"),
    (r"toml\+\+/.*", ["cli/settings.cc", "cli/tuning.cc"], "configuration files are read in one place"),
    (r"(SQLiteCpp/.*|sqlite3\.h)", ["base/write_ahead_log.h", "chat/turn_memory.cc", "sessions/*.cc", "sessions/session_sql.h"],
     "sampled turns and sessions are kept in SQLite"),
    (r"prometheus/.*", ["server/api/metrics.cc"], "metrics are kept in server/api/metrics.cc"),
    (r"openssl/.*", ["server/http/*.cc", "hub/digest.cc", "images/image_key.cc", "server/api/sealed_text.cc",
                      "sessions/consent_store.cc"],
     "cryptography is for few files"),
    (r"curl/.*", ["net/*.cc"], "HTTP requests go through net/http_client.h"),
]

# Who may write which words: (pattern, files under src/ that it is forbidden to, those of them that may, why).
WORDS = [
    (r"fmt::print\b|std::cout\b|std::cerr\b|\bprintf\(|\bfprintf\(|\bfputs\(|\bputs\(|\bfwrite\(", ["cli/*"],
     ["cli/print.cc", "cli/printer.cc", "cli/process.cc"], "commands print with cli/print.h, which escapes what others wrote"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def closure(folder):
    reached, todo = {folder}, [folder]
    while todo:
        for below in ARROWS[todo.pop()]:
            if below not in reached:
                reached.add(below)
                todo.append(below)
    return reached


def folder_of(path):
    """The folder of ARROWS that a path relative to src/ is in; else its first folder."""
    parts = path.split("/")
    pair = "/".join(parts[:2])
    return pair if pair in ARROWS else parts[0]


def room_of(path):
    """The API's room that a path is in; None: it is in none."""
    rest = path.removeprefix(ROOMS[0])
    return rest.split("/")[0] if rest != path and "/" in rest else None


def violations(path, text):
    """path: relative to src/. Yields (line number, message)."""
    folder = folder_of(path)
    if folder not in ARROWS:
        yield 1, f"src/{folder}/ is not in the table of folders (tools/check_includes.py)"
        return
    allowed = closure(folder)
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, files, except_for, why in WORDS:
            if any(fnmatch.fnmatch(path, f) for f in files) and path not in except_for and re.search(pattern, line):
                yield number, why
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, header = match[1] == '"', match[2]
        target = folder_of(header)
        if quoted and header.startswith("."):
            yield number, f'"{header}": write the path from src/'
        elif quoted and "/" not in header:
            yield number, f'"{header}": write the path from src/, or <> for a library'
        elif quoted and target in ARROWS and target not in allowed and header not in ALSO.get(folder, []):
            yield number, f"{folder}/ must not include {header}"
        elif quoted and (room := room_of(path)) and room_of(header) not in (None, room, *ROOMS[1].get(room, [])):
            yield number, f"{room}/ must not include {header}: what APIs share is in {ROOMS[0]}"
        for pattern, files, why in RESTRICTED:
            if re.fullmatch(pattern, header):
                if not any(fnmatch.fnmatch(path, f) for f in files):
                    yield number, f"{header}: {why}"
                break


def check(root):
    source = os.path.join(root, "src")
    good = bad = 0
    for folder, _, names in sorted(os.walk(source)):
        for name in sorted(names):
            if name.endswith((".orig", ".rej")):
                print(f"{os.path.relpath(os.path.join(folder, name), root)}: left over from a merge; delete it")
                bad += 1
            if not name.endswith((".h", ".cc", ".inl", ".cu", ".mm")):
                continue
            full = os.path.join(folder, name)
            with open(full, encoding="utf-8") as file:
                found = list(violations(os.path.relpath(full, source), file.read()))
            for number, message in found:
                print(f"{os.path.relpath(full, root)}:{number}: {message}")
            good, bad = (good, bad + 1) if found else (good + 1, bad)
    return good, bad


def selftest():
    """(path, source, number of violations)"""
    cases = [
        ("ops/reference/linear.h", '#include <mlx/array.h>\n#include "base/check.h"\n', 0),
        ("ops/cpu/matvec.cc", "#include <immintrin.h>\n#include <mlx/backend/cpu/encoder.h>\n", 1),
        ("ops/linear.h", '#include "nn/layers.h"\n', 1),
        ("base/check.h", '#include "ops/linear.h"\n', 1),
        ("tokenizer/tokenizer.cc", '#include "checkpoint/gguf.h"\n', 1),
        ("tokenizer/tokenizer.cc", "#include <mlx/array.h>\n", 1),
        ("checkpoint/gguf.cc", '#include "ops/linear.h"\n#include "tensor/tensor.h"\n', 1),
        ("nn/mlp.cc", '#include "ops/cpu/linear.h"\n', 1),
        ("nn/layers.cc", "  #  include <immintrin.h>\n", 1),
        ("server/http/tls.cc", '#include "base/log.h"\n#include <boost/beast.hpp>\n', 0),
        ("server/api/api.cc", "#include <boost/beast.hpp>\n", 1),
        ("server/api/ollama/request.cc", '#include "server/api/openai/request.h"\n#include "server/api/common_fields.h"\n', 1),
        ("server/api/llama/prepare.cc", '#include "server/api/openai/request.h"\n', 0),
        ("server/api/prepare.cc", '#include "server/api/openai/prepare.h"\n#include "server/api/ollama/prepare.h"\n', 0),
        ("chat/thinking.cc", '#include "engine/engine.h"\n#include "jinja/chat_template.h"\n', 0),
        ("chat/thinking.cc", '#include "server/api/json_fields.h"\n', 1),
        ("jinja/parser.cc", '#include "tokenizer/tokenizer.h"\n', 1),
        ("server/api/server.cc", '#include "engine/scheduler.h"\n', 1),
        ("server/api/server.h", "#include <boost/beast.hpp>\n", 1),
        ("server/api/api.cc", '#include "server/http/types.h"\n#include "engine/engine.h"\n', 0),
        ("server/http/types.h", '#include "server/api/api.h"\n#include "chat/thinking.h"\n', 2),
        ("server/server.h", "", 1),
        ("cli/chat.cc", 'fmt::print("{}", name);\n  std::printf("%s", name);\n say("{}", name);\n', 2),
        ("cli/printer.cc", "std::fwrite(text.data(), 1, text.size(), stdout);\n", 0),
        ("base/log.cc", 'std::fputs("x", stderr);\n', 0),
        ("engine/engine.h", '#include "tensor/tensor.h"\n', 1),
        ("engine/loop.cc", '#include "tensor/tensor.h"\n#include "nn/batch.h"\n', 0),
        ("cache/record.cc", '#include "state/sequence_state.h"\n#include <xxhash.h>\n', 0),
        ("cache/record.h", '#include <xxhash.h>\n#include "nn/batch.h"\n', 2),
        ("checkpoint/adapter_file.cc", "#include <xxhash.h>\n", 0),
        ("checkpoint/adapter_gguf.cc", "#include <xxhash.h>\n", 1),
        ("engine/loop.cc", '#include "base/json.h"\n', 1),
        ("engine/loader.cc", '#include "base/json.h"\n', 0),
        ("models/llama.cc", '#include "tokenizer/tokenizer.h"\n', 1),
        ("decode/sampler.cc", '#include "tokenizer/tokenizer.h"\n#include "state/sequence_state.h"\n', 0),
        ("decode/sampler.cc", '#include "engine/engine.h"\n', 1),
        ("state/sequence_state.cc", '#include "state/sequence_state.h"\n// #include "cli/x.h"\n', 0),
        ("state/sequence_state.cc", '#include "../ops/linear.h"\n#include "sequence_state.h"\n', 2),
        ("base/mapped_file.cc", "#include <spdlog/spdlog.h>\n", 1),
        ("images/png.cc", '#include "base/json.h"\n#include <png.h>\n', 0),
        ("images/picture.h", '#include <png.h>\n#include "ops/linear.h"\n', 2),
        ("chat/images.cc", "#include <webp/decode.h>\n", 1),
        ("new_folder/x.cc", "", 1),
    ]
    bad = 0
    for path, text, expected in cases:
        found = list(violations(path, text))
        if len(found) != expected:
            bad += 1
            print(f"selftest: {path} {text!r}: {len(found)} violations instead of {expected}: {found}")
    return len(cases) - bad, bad


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    good, bad = selftest() if "--selftest" in sys.argv[1:] else check(root)
    print(f"{good} passed, {bad} failed")
    return 1 if bad or not good else 0


if __name__ == "__main__":
    sys.exit(main())
