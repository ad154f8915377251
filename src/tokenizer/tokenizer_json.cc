// Reads Hugging Face's tokenizer.json.
#include <simdjson.h>

#include <algorithm>
#include <climits>
#include <unordered_map>

#include "base/long_integers.h"
#include "base/mapped_file.h"
#include "base/outside_text.h"
#include "base/wrong_file.h"
#include "tokenizer/tokenizer_impl.h"

namespace anabranch {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr size_t kMaxFile = 256u << 20;
constexpr int kMaxNesting = 8;       // of sequences in sequences
constexpr size_t kMaxSteps = 64;     // of one pipeline
constexpr size_t kMaxGrowth = 4096;  // the factor by which a pipeline may lengthen a text
constexpr size_t kMaxAdded = 100'000;

simdjson::simdjson_result<element> parse_text(simdjson::dom::parser& parser, std::string_view text) {
  const auto root = parser.parse(text.data(), text.size());
  if (root.error() != simdjson::NUMBER_ERROR) return root;
  return parser.parse(with_exponents_on_long_integers(text));
}

// Absent and null are alike.
bool present(const object& o, std::string_view key, element& out) {
  return o.at_key(key).get(out) == simdjson::SUCCESS && !out.is_null();
}

Error wrong(std::string_view where, std::string_view key, std::string_view expected) {
  return make_error(ErrorKind::invalid, "{}: '{}' should be {}", where, key, expected);
}

Result<object> as_object(const element& e, std::string_view where) {
  object o;
  if (e.get(o) != simdjson::SUCCESS) return make_error(ErrorKind::invalid, "{} should be an object", where);
  return o;
}

Result<std::string> get_string(const object& o, std::string_view key, std::string_view where) {
  element e;
  std::string_view s;
  if (!present(o, key, e) || e.get(s) != simdjson::SUCCESS) return wrong(where, key, "a string");
  if (s.size() > (64u << 10)) return wrong(where, key, "shorter than 64 KiB");
  return std::string(s);
}

Result<std::string> get_string_or(const object& o, std::string_view key, std::string fallback,
                                  std::string_view where) {
  element e;
  if (!present(o, key, e)) return fallback;
  return get_string(o, key, where);
}

Result<bool> get_bool_or(const object& o, std::string_view key, bool fallback, std::string_view where) {
  element e;
  if (!present(o, key, e)) return fallback;
  bool b = false;
  if (e.get(b) != simdjson::SUCCESS) return wrong(where, key, "true or false");
  return b;
}

Result<int> get_count_or(const object& o, std::string_view key, int fallback, std::string_view where) {
  element e;
  if (!present(o, key, e)) return fallback;
  int64_t n = 0;
  if (e.get(n) != simdjson::SUCCESS || n < 0 || n > INT_MAX) return wrong(where, key, "a number from 0 on");
  return static_cast<int>(n);
}

Error unsupported(std::string_view where, std::string_view type) {
  return make_error(ErrorKind::unsupported, "{} of type '{}' is not supported", where, shown(type));
}

// Counts a pipeline's steps, and how much longer than its input they could make a text.
class Growth {
 public:
  explicit Growth(std::string_view where) : where_(where) {}
  Result<void> add(size_t factor) {
    if (++steps_ > kMaxSteps)
      return make_error(ErrorKind::exhausted, "{} has more than {} steps", where_, kMaxSteps);
    factor_ *= std::max<size_t>(factor, 1);
    if (factor_ > kMaxGrowth)
      return make_error(ErrorKind::exhausted, "{} could make a text more than {} times as long", where_,
                        kMaxGrowth);
    return {};
  }

 private:
  std::string_view where_;
  size_t steps_ = 0, factor_ = 1;
};

// The growth from replacing a literal, or a regex (literal is empty), which may match between any two
// characters.
size_t growth_of_replace(const std::string& literal, const std::string& content) {
  return literal.empty() ? content.size() + 1 : (content.size() + literal.size() - 1) / literal.size();
}

// Calls add(type, object) for a component and, when it is a Sequence, for each part of it under `list_key`.
template <class Add>
Result<void> flatten(const element& e, std::string_view where, std::string_view list_key, int depth,
                     const Add& add) {
  if (depth > kMaxNesting) return make_error(ErrorKind::exhausted, "{}: sequences nested too deep", where);
  TRY(const object o, as_object(e, where));
  TRY(const std::string type, get_string(o, "type", where));
  if (type != "Sequence") return add(type, o);
  array parts;
  if (o.at_key(list_key).get(parts) != simdjson::SUCCESS) return wrong(where, list_key, "a list");
  if (parts.size() > kMaxSteps)
    return make_error(ErrorKind::exhausted, "{} has {} parts", where, parts.size());
  for (const element part : parts) TRY_VOID(flatten(part, where, list_key, depth + 1, add));
  return {};
}

// {"String": "..."} or {"Regex": "..."}
Result<Regex> get_pattern(const object& o, std::string_view where, std::string* literal = nullptr) {
  element e;
  if (!present(o, "pattern", e)) return wrong(where, "pattern", "an object");
  TRY(const object pattern, as_object(e, where));
  if (present(pattern, "String", e)) {
    TRY(std::string text, get_string(pattern, "String", where));
    if (text.empty()) return make_error(ErrorKind::unsupported, "{}: empty pattern", where);
    if (literal) *literal = text;
    return Regex::literal(text);
  }
  TRY(const std::string regex, get_string(pattern, "Regex", where));
  return Regex::compile(regex);
}

Result<Normalizer> read_normalizer(const element& e) {
  using Kind = NormalizerStep::Kind;
  constexpr std::string_view where = "normalizer";
  std::vector<NormalizerStep> steps;
  Growth growth(where);
  const auto add = [&](const std::string& type, const object& o) -> Result<void> {
    NormalizerStep step;
    size_t factor = 1;
    if (type == "NFC") {
      step.kind = Kind::nfc;
      factor = 3;
    } else if (type == "NFD") {
      step.kind = Kind::nfd;
      factor = 3;
    } else if (type == "NFKC") {
      step.kind = Kind::nfkc;
      factor = 11;
    } else if (type == "NFKD") {
      step.kind = Kind::nfkd;
      factor = 11;
    } else if (type == "Lowercase") {
      step.kind = Kind::lowercase;
      factor = 2;
    } else if (type == "StripAccents") {
      step.kind = Kind::strip_accents;
    } else if (type == "Strip") {
      step.kind = Kind::strip;
      TRY(step.left, get_bool_or(o, "strip_left", true, where));
      TRY(step.right, get_bool_or(o, "strip_right", true, where));
    } else if (type == "Prepend") {
      step.kind = Kind::prepend;
      TRY(step.content, get_string(o, "prepend", where));
      factor = step.content.size() + 1;
    } else if (type == "Replace") {
      step.kind = Kind::replace;
      TRY(Regex regex, get_pattern(o, where, &step.literal));
      step.pattern.push_back(std::move(regex));
      TRY(step.content, get_string(o, "content", where));
      factor = growth_of_replace(step.literal, step.content);
    } else {
      return unsupported(where, type);
    }
    steps.push_back(std::move(step));
    return growth.add(factor);
  };
  TRY_VOID(flatten(e, where, "normalizers", 0, add));
  return Normalizer(std::move(steps));
}

Result<SplitBehavior> read_behavior(const std::string& name) {
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  return make_error(ErrorKind::unsupported, "pre_tokenizer: split behavior '{}' is not supported",
                    shown(name));
}

// Old files say add_prefix_space instead of prepend_scheme.
Result<PreTokenizerStep::Prepend> read_prepend(const object& o, std::string_view where) {
  using Prepend = PreTokenizerStep::Prepend;
  TRY(const bool add_prefix_space, get_bool_or(o, "add_prefix_space", true, where));
  TRY(const std::string scheme,
      get_string_or(o, "prepend_scheme", add_prefix_space ? "always" : "never", where));
  if (scheme == "always") return Prepend::always;
  if (scheme == "first") return Prepend::first;
  if (scheme == "never") return Prepend::never;
  return make_error(ErrorKind::unsupported, "{}: prepend_scheme '{}' is not supported", where, shown(scheme));
}

Result<void> read_metaspace(const object& o, PreTokenizerStep& step) {
  constexpr std::string_view where = "pre_tokenizer Metaspace";
  step.kind = PreTokenizerStep::Kind::metaspace;
  TRY(step.replacement, get_string(o, "replacement", where));
  if (step.replacement.empty()) return wrong(where, "replacement", "a character");
  TRY(step.prepend, read_prepend(o, where));
  TRY(step.split, get_bool_or(o, "split", true, where));
  return {};
}

Result<PreTokenizer> read_pre_tokenizer(const element& e) {
  using Kind = PreTokenizerStep::Kind;
  constexpr std::string_view where = "pre_tokenizer";
  std::vector<PreTokenizerStep> steps;
  Growth growth(where);
  const auto add = [&](const std::string& type, const object& o) -> Result<void> {
    PreTokenizerStep step;
    size_t factor = 1;
    if (type == "ByteLevel") {
      step.kind = Kind::byte_level;
      TRY(step.add_prefix_space, get_bool_or(o, "add_prefix_space", true, where));
      factor = step.add_prefix_space ? 4 : 2;
      TRY(const bool use_regex, get_bool_or(o, "use_regex", true, where));
      if (use_regex) {
        TRY(Regex regex, Regex::compile(kGpt2Pattern));
        step.pattern.push_back(std::move(regex));
      }
    } else if (type == "Split") {
      step.kind = Kind::split;
      TRY(Regex regex, get_pattern(o, where));
      step.pattern.push_back(std::move(regex));
      TRY(const std::string behavior, get_string(o, "behavior", where));
      TRY(step.behavior, read_behavior(behavior));
      TRY(step.invert, get_bool_or(o, "invert", false, where));
    } else if (type == "Digits") {
      step.kind = Kind::digits;
      TRY(step.individual, get_bool_or(o, "individual_digits", false, where));
    } else if (type == "Metaspace") {
      TRY_VOID(read_metaspace(o, step));
      factor = 2 * step.replacement.size();
    } else if (type == "Whitespace") {
      step.kind = Kind::whitespace;
    } else if (type == "WhitespaceSplit") {
      step.kind = Kind::whitespace_split;
    } else if (type == "Punctuation") {
      step.kind = Kind::punctuation;
      TRY(const std::string behavior, get_string_or(o, "behavior", "Isolated", where));
      TRY(step.behavior, read_behavior(behavior));
    } else {
      return unsupported(where, type);
    }
    steps.push_back(std::move(step));
    return growth.add(factor);
  };
  TRY_VOID(flatten(e, where, "pretokenizers", 0, add));
  return PreTokenizer(std::move(steps));
}

Result<Decoder> read_decoder(const element& e) {
  using Kind = DecoderStep::Kind;
  constexpr std::string_view where = "decoder";
  std::vector<DecoderStep> steps;
  Growth growth(where);
  const auto add = [&](const std::string& type, const object& o) -> Result<void> {
    DecoderStep step;
    size_t factor = 1;
    if (type == "ByteLevel") {
      step.kind = Kind::byte_level;
    } else if (type == "Replace") {
      step.kind = Kind::replace;
      std::string literal;
      TRY(Regex regex, get_pattern(o, where, &literal));
      step.pattern.push_back(std::move(regex));
      TRY(step.content, get_string(o, "content", where));
      factor = growth_of_replace(literal, step.content);
    } else if (type == "ByteFallback") {
      step.kind = Kind::byte_fallback;
    } else if (type == "Fuse") {
      step.kind = Kind::fuse;
    } else if (type == "Strip") {
      step.kind = Kind::strip;
      TRY(step.content, get_string(o, "content", where));
      if (step.content.empty()) return wrong(where, "content", "a character");
      TRY(step.start, get_count_or(o, "start", 0, where));
      TRY(step.stop, get_count_or(o, "stop", 0, where));
    } else if (type == "Metaspace") {
      step.kind = Kind::metaspace;
      TRY(step.content, get_string(o, "replacement", where));
      if (step.content.empty()) return wrong(where, "replacement", "a character");
      TRY(const auto prepend, read_prepend(o, where));
      step.drop_first = prepend != PreTokenizerStep::Prepend::never;
    } else {
      return unsupported(where, type);
    }
    steps.push_back(std::move(step));
    return growth.add(factor);
  };
  TRY_VOID(flatten(e, where, "decoders", 0, add));
  return Decoder(std::move(steps));
}

// A TemplateProcessing whose template starts with a special token adds this token as BOS. Returns its
// content.
Result<std::string> read_post_processor(const element& e) {
  constexpr std::string_view where = "post_processor";
  std::string first;
  const auto add = [&](const std::string& type, const object& o) -> Result<void> {
    if (type == "ByteLevel") return {};  // offsets only
    if (type != "TemplateProcessing") return unsupported(where, type);
    array single;
    if (o.at_key("single").get(single) != simdjson::SUCCESS) return wrong(where, "single", "a list");
    element token;
    for (const element piece : single) {
      TRY(const object entry, as_object(piece, where));
      if (!present(entry, "SpecialToken", token)) break;
      TRY(const object special, as_object(token, where));
      TRY(first, get_string(special, "id", where));
      break;
    }
    return {};
  };
  TRY_VOID(flatten(e, where, "processors", 0, add));
  return first;
}

Result<std::vector<AddedToken>> read_added(const object& root) {
  std::vector<AddedToken> tokens;
  element e;
  if (!present(root, "added_tokens", e)) return tokens;
  array list;
  if (e.get(list) != simdjson::SUCCESS) return wrong("tokenizer", "added_tokens", "a list");
  for (const element item : list) {
    const std::string where = fmt::format("added_tokens[{}]", tokens.size());
    if (tokens.size() >= kMaxAdded)
      return make_error(ErrorKind::exhausted, "more than {} added_tokens", kMaxAdded);
    TRY(const object o, as_object(item, where));
    AddedToken t;
    TRY(t.id, get_count_or(o, "id", INT_MAX, where));
    if (t.id > Vocab::kMaxId) return wrong(where, "id", fmt::format("at most {}", Vocab::kMaxId));
    TRY(t.content, get_string(o, "content", where));
    if (t.content.empty() || t.content.size() > kMaxTokenBytes)
      return wrong(where, "content", fmt::format("of 1 to {} bytes", kMaxTokenBytes));
    TRY(t.special, get_bool_or(o, "special", false, where));
    TRY(t.normalized, get_bool_or(o, "normalized", !t.special, where));
    TRY(t.lstrip, get_bool_or(o, "lstrip", false, where));
    TRY(t.rstrip, get_bool_or(o, "rstrip", false, where));
    TRY(t.single_word, get_bool_or(o, "single_word", false, where));
    tokens.push_back(std::move(t));
  }
  return tokens;
}

Result<void> add_token(Vocab& vocab, std::string_view text, int64_t id) {
  if (id < 0 || id > Vocab::kMaxId)
    return make_error(ErrorKind::invalid, "model.vocab: id {} of token '{}' is not in 0..{}", id, shown(text),
                      Vocab::kMaxId);
  if (text.size() > kMaxTokenBytes)
    return make_error(ErrorKind::exhausted, "model.vocab: token {} has {} bytes; the limit is {}", id,
                      text.size(), kMaxTokenBytes);
  if (!vocab.add(text, static_cast<int>(id)))
    return make_error(ErrorKind::invalid, "model.vocab: tokens '{}' and '{}' share the id {}",
                      shown(vocab.text(static_cast<int>(id))), shown(text), id);
  return {};
}

Result<void> read_merges(const element& e, Bpe& bpe) {
  array merges;
  if (e.get(merges) != simdjson::SUCCESS) return wrong("model", "merges", "a list");
  // size() saturates at 2^24 - 1.
  size_t count = merges.size();
  if (count >= 0xFFFFFF) return make_error(ErrorKind::exhausted, "model.merges is too long");
  bpe.reserve_merges(count);
  uint32_t rank = 0;
  for (const element merge : merges) {
    std::string_view left, right;
    array pair;
    if (merge.get(left) == simdjson::SUCCESS) {
      const size_t space = left.find(' ');
      if (space == std::string_view::npos || left.find(' ', space + 1) != std::string_view::npos)
        return make_error(ErrorKind::invalid, "model.merges[{}] is not two tokens: '{}'", rank, shown(left));
      right = left.substr(space + 1);
      left = left.substr(0, space);
    } else if (merge.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
               pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
      return make_error(ErrorKind::invalid, "model.merges[{}] is neither \"a b\" nor [\"a\", \"b\"]", rank);
    }
    TRY_VOID(bpe.add_merge(left, right, rank++));
  }
  return {};
}

Result<void> read_bpe(const object& model, TokenizerParts& parts) {
  constexpr std::string_view where = "model";
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    TRY(const std::string affix, get_string_or(model, key, "", where));
    if (!affix.empty())
      return make_error(ErrorKind::unsupported, "model: {} '{}' is not supported", key, shown(affix));
  }
  element e;
  double dropout = 0;
  if (present(model, "dropout", e) && (e.get(dropout) != simdjson::SUCCESS || dropout != 0))
    return make_error(ErrorKind::unsupported, "model: dropout is for training; set it to null");
  object vocab;
  if (model.at_key("vocab").get(vocab) != simdjson::SUCCESS) return wrong(where, "vocab", "an object");
  parts.vocab->reserve(vocab.size());
  for (const auto field : vocab) {
    int64_t id = 0;
    if (field.value.get(id) != simdjson::SUCCESS)
      return make_error(ErrorKind::invalid, "model.vocab: the id of '{}' is not a number", shown(field.key));
    TRY_VOID(add_token(*parts.vocab, field.key, id));
  }
  Bpe::Options options;
  TRY(options.fuse_unk, get_bool_or(model, "fuse_unk", false, where));
  TRY(options.byte_fallback, get_bool_or(model, "byte_fallback", false, where));
  TRY(options.ignore_merges, get_bool_or(model, "ignore_merges", false, where));
  TRY(const std::string unk, get_string_or(model, "unk_token", "", where));
  if (!unk.empty()) options.unk = parts.vocab->lookup(unk);
  if (!unk.empty() && options.unk < 0)
    return make_error(ErrorKind::invalid, "model: unk_token '{}' is not in the vocabulary", shown(unk));
  Bpe bpe(parts.vocab.get(), options);
  bpe.set_blocked(control_ids(parts.added));
  if (!present(model, "merges", e)) return wrong(where, "merges", "a list");
  TRY_VOID(read_merges(e, bpe));
  parts.model = std::move(bpe);
  return {};
}

Result<void> read_unigram(const object& model, TokenizerParts& parts) {
  constexpr std::string_view where = "model";
  array vocab;
  if (model.at_key("vocab").get(vocab) != simdjson::SUCCESS) return wrong(where, "vocab", "a list");
  std::vector<double> scores;
  for (const element item : vocab) {
    array pair;
    std::string_view text;
    double score = 0;
    if (item.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
        pair.at(0).get(text) != simdjson::SUCCESS || pair.at(1).get(score) != simdjson::SUCCESS)
      return make_error(ErrorKind::invalid, "model.vocab[{}] is not [\"token\", score]", scores.size());
    TRY_VOID(add_token(*parts.vocab, text, static_cast<int64_t>(scores.size())));
    scores.push_back(score);
  }
  TRY(const int unk, get_count_or(model, "unk_id", -1, where));
  if (unk >= static_cast<int>(scores.size())) return wrong(where, "unk_id", "the id of a token");
  TRY(const bool byte_fallback, get_bool_or(model, "byte_fallback", false, where));
  parts.model = Unigram(parts.vocab.get(), std::move(scores), unk, byte_fallback, control_ids(parts.added));
  return {};
}

Result<void> read_model(const object& root, TokenizerParts& parts) {
  element e;
  if (!present(root, "model", e)) return wrong("tokenizer", "model", "an object");
  TRY(const object model, as_object(e, "model"));
  // Old files lack the type.
  element merges;
  TRY(const std::string type,
      get_string_or(model, "type", present(model, "merges", merges) ? "BPE" : "Unigram", "model"));
  if (type == "BPE") return read_bpe(model, parts);
  if (type == "Unigram") return read_unigram(model, parts);
  return unsupported("model", type);
}

// "<s>", {"content": "<s>", ...} or null.
Result<std::string> config_token(const object& root, std::string_view key) {
  element e;
  if (!present(root, key, e)) return std::string();
  object o;
  if (e.get(o) == simdjson::SUCCESS) return get_string(o, "content", key);
  return get_string(root, key, "tokenizer_config.json");
}

// bos, eos and add_bos of tokenizer_config.json.
Result<void> read_config(std::string_view text, TokenizerParts& parts) {
  simdjson::dom::parser parser;
  element e;
  if (const auto error = parse_text(parser, text).get(e))
    return make_error(ErrorKind::invalid, "not JSON: {}{}", simdjson::error_message(error),
                      what_it_is_instead(text));
  TRY(const object root, as_object(e, "tokenizer_config"));
  TRY(const std::string bos, config_token(root, "bos_token"));
  TRY(parts.eos, config_token(root, "eos_token"));
  const std::string from_template = parts.bos;
  if (!bos.empty()) parts.bos = bos;
  parts.add_bos = !from_template.empty() && from_template == parts.bos;
  TRY(parts.add_bos, get_bool_or(root, "add_bos_token", parts.add_bos, "tokenizer_config"));
  return {};
}

// An id must not have one text among the added tokens and another in the model, nor a text two ids. Otherwise
// ordinary text could become a special token.
Result<void> check_added(const TokenizerParts& parts) {
  std::unordered_map<int, std::string_view> contents;
  for (const AddedToken& token : parts.added) {
    const std::string_view same = contents.emplace(token.id, token.content).first->second;
    const int known = parts.vocab->lookup(token.content);
    if (same != token.content || (parts.vocab->has(token.id) && parts.vocab->text(token.id) != token.content))
      return make_error(ErrorKind::invalid, "added_tokens: id {} of '{}' is also that of '{}'", token.id,
                        shown(token.content),
                        shown(same != token.content ? same : parts.vocab->text(token.id)));
    if (known >= 0 && known != token.id)
      return make_error(ErrorKind::invalid, "added_tokens: '{}' has id {}, and id {} in the vocabulary",
                        shown(token.content), token.id, known);
  }
  return {};
}

Result<TokenizerParts> read_tokenizer(std::string_view text) {
  simdjson::dom::parser parser;
  element e;
  if (const auto error = parse_text(parser, text).get(e))
    return make_error(ErrorKind::invalid, "not JSON: {}{}", simdjson::error_message(error),
                      what_it_is_instead(text));
  TRY(const object root, as_object(e, "the file"));
  TokenizerParts parts;
  TRY(parts.added, read_added(root));
  TRY_VOID(read_model(root, parts));
  TRY_VOID(check_added(parts));
  if (present(root, "normalizer", e)) {
    TRY(parts.normalizer, read_normalizer(e));
  }
  if (present(root, "pre_tokenizer", e)) {
    TRY(parts.pre_tokenizer, read_pre_tokenizer(e));
  }
  if (!present(root, "decoder", e))
    return make_error(ErrorKind::unsupported, "a tokenizer without a decoder");
  TRY(parts.decoder, read_decoder(e));
  if (present(root, "post_processor", e)) {
    TRY(parts.bos, read_post_processor(e));
  }
  parts.add_bos = !parts.bos.empty();
  return parts;
}

Error in_file(const std::string& path, Error error) {
  error.message = fmt::format("{}: {}", path, error.message);
  return error;
}

}  // namespace

Result<TokenizerParts> read_tokenizer_json(std::string_view json, std::string_view config) {
  TRY(TokenizerParts parts, read_tokenizer(json));
  if (!config.empty()) TRY_VOID(read_config(config, parts));
  return parts;
}

Result<std::shared_ptr<const Tokenizer>> parse_tokenizer_json(std::string_view json,
                                                              std::string_view config) {
  TRY(TokenizerParts parts, read_tokenizer_json(json, config));
  return make_tokenizer(std::move(parts));
}

Result<TokenizerParts> read_tokenizer_file(const std::string& tokenizer_json) {
  TRY(const std::string json, read_file(tokenizer_json, kMaxFile));
  auto parts = read_tokenizer(json);
  if (!parts.ok()) return in_file(tokenizer_json, parts.error());
  const size_t slash = tokenizer_json.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : tokenizer_json.substr(0, slash + 1);
  const std::string config_path = folder + "tokenizer_config.json";
  const auto config = read_file(config_path, kMaxFile);
  if (!config.ok() && config.error().kind != ErrorKind::not_found) return config.error();
  if (config.ok()) {
    const auto read = read_config(*config, *parts);
    if (!read.ok()) return in_file(config_path, read.error());
  }
  return parts;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_file(const std::string& tokenizer_json) {
  TRY(auto parts, read_tokenizer_file(tokenizer_json));
  return make_tokenizer(std::move(parts));
}

}  // namespace anabranch
