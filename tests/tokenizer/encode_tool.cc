// encode_tool FILE: loads a tokenizer.json, a directory's tokenizer, or a vocabulary dump (gguf_dump.h), and
// answers requests on stdin until it ends. Numbers are little-endian uint32.
//   request: flags (1: parse special tokens), size, bytes
//   answer:  count, ids; size, decode(ids, false); size, the streaming detokenizer's text; microseconds of
//   encode()
// On stderr: one line with the load time.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "base/clock.h"
#include "tokenizer/gguf_dump.h"
#include "tokenizer/tokenizer.h"

using namespace anabranch;
using namespace anabranch;

namespace {

Result<std::shared_ptr<const Tokenizer>> load(const std::string& path) {
  if (path.size() > 5 && path.substr(path.size() - 5) == ".json") return Tokenizer::from_file(path);
  if (path.back() == '/') return Tokenizer::from_directory(path);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  TRY(const GgufVocab vocab, read_gguf_dump(bytes));
  return Tokenizer::from_gguf(vocab);
}

bool read_number(uint32_t& value) {
  return std::fread(&value, sizeof value, 1, stdin) == 1;
}
void write_number(size_t value) {
  const auto v = static_cast<uint32_t>(value);
  std::fwrite(&v, sizeof v, 1, stdout);
}
void write_string(const std::string& text) {
  write_number(text.size());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: encode_tool tokenizer.json|dump\n"), 2;
  const double start = now_seconds();
  const auto tokenizer = load(argv[1]);
  if (!tokenizer.ok()) return std::fprintf(stderr, "encode_tool: %s\n", tokenizer.error().message.c_str()), 1;
  std::fprintf(stderr, "load_ms %.1f vocab %d add_bos %d bos %d eos %d\n", (now_seconds() - start) * 1e3,
               (*tokenizer)->vocab_size(), (*tokenizer)->add_bos(), (*tokenizer)->bos().value_or(-1),
               (*tokenizer)->eos().value_or(-1));
  uint32_t flags = 0, size = 0;
  while (read_number(flags) && read_number(size)) {
    std::string text(size, '\0');
    if (std::fread(text.data(), 1, size, stdin) != size) return 1;
    const double before = now_seconds();
    const std::vector<int> ids = (*tokenizer)->encode(text, (flags & 1) != 0);
    const double after = now_seconds();
    write_number(ids.size());
    std::fwrite(ids.data(), sizeof(int), ids.size(), stdout);
    write_string((*tokenizer)->decode(ids, false));
    Detokenizer stream(**tokenizer, false);
    std::string streamed;
    for (const int id : ids) streamed += stream.push(id);
    write_string(streamed + stream.flush());
    write_number(static_cast<size_t>((after - before) * 1e6));
  }
  return 0;
}
