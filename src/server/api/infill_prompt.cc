#include "server/api/infill_prompt.h"

#include <initializer_list>
#include <optional>

namespace anabranch::server {
namespace {

std::optional<int> first_token(const Tokenizer& tokenizer, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto id = tokenizer.find(name)) return id;
  return std::nullopt;
}

}  // namespace

// The order of the parts is that of Qwen2.5-Coder's report (arXiv:2409.12186, section 3), which other
// families share.
ApiResult<std::vector<int>> infill_prompt(const std::string& prefix, const std::string& suffix,
                                          const std::vector<FileText>& extra, RequestEncoder& texts) {
  const Tokenizer& tokenizer = texts.tokenizer();
  const auto before = first_token(tokenizer, {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>",
                                              "<｜fim▁begin｜>", "<|code_prefix|>", "▁<PRE>", "<PRE>"});
  const auto after = first_token(tokenizer, {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>",
                                             "<｜fim▁hole｜>", "<|code_suffix|>", "▁<SUF>", "<SUF>"});
  const auto middle = first_token(tokenizer, {"<|fim_middle|>", "<fim_middle>", "<fim-middle>",
                                              "<｜fim▁end｜>", "<|code_middle|>", "▁<MID>", "<MID>"});
  if (!before || !after || !middle)
    return ApiError{400, "The model cannot fill in the middle: its tokenizer lacks the tokens for it", "",
                    "unsupported_value"};
  std::vector<int> ids;
  const auto add = [&](std::optional<int> mark, const std::string& text) {
    if (mark) ids.push_back(*mark);
    const auto more = texts.encode(text, false, ids.size());
    ids.insert(ids.end(), more.begin(), more.end());
  };
  if (const auto bos = leading_bos(tokenizer)) ids.push_back(*bos);
  if (!extra.empty()) {
    const auto file = first_token(tokenizer, {"<|file_sep|>", "<file_sep>"});
    if (const auto project = first_token(tokenizer, {"<|repo_name|>", "<repo_name>", "<reponame>"}))
      add(project, "myproject\n");
    for (const FileText& one : extra)
      add(file, file ? fmt::format("{}\n{}\n", one.name, one.text) : one.text + "\n");
    if (file) add(file, "filename\n");
  }
  add(before, prefix);
  add(after, suffix);
  ids.push_back(*middle);
  if (texts.stopped()) return texts.error("prompt");
  return ids;
}

}  // namespace anabranch::server
