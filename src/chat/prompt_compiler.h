// Converts chat requests to prompt tokens. Parts that many requests share (tool schemas, system prompts,
// earlier turns) are tokenised once. The positions where prompts are likely to diverge are also found once.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "chat/cache_mark.h"
#include "chat/prompt_pictures.h"
#include "jinja/chat_template.h"
#include "tokenizer/encode_limit.h"
#include "tokenizer/segment_memo.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

struct CompiledPrompt {
  std::vector<PromptPiece> pieces;  // as the template rendered them
  std::vector<int> tokens;
  std::vector<int> images;  // where each image begins
  // Prefix lengths of the prompt at which a cached state is useful, ascending: up to the first message after
  // the system prompt (other conversations share that much), up to the last message (which may come again in
  // another form, or not at all), and up to the answer's opening (the next turn repeats that much, however
  // the answer is rendered then: templates drop old reasoning). Fewer if the template cannot be rendered
  // without the later parts.
  std::vector<int> stable_lengths;
  int before_last = 0;  // the one up to the last message; 0: unknown
  // The prefixes that end at the marks, without those of unknown length.
  std::vector<MarkedLength> marked;
};

// An assistant message whose sampled tokens are known, without the end of the turn.
struct KnownTurn {
  size_t message = 0;  // index in the list of messages
  std::vector<int> tokens;
  // Where its content begins. The tokens before it are its reasoning, behind the opening tag.
  size_t answer = 0;
};

// Thread-safe. The template and the tokenizer must outlive it.
class PromptCompiler {
 public:
  // images: how prompts represent images; null: they have none.
  PromptCompiler(const ChatTemplate& chat, const Tokenizer& tokenizer, const ImageFormat* images = nullptr)
      : template_(chat), tokenizer_(tokenizer), image_format_(images) {}

  // salt: token sequences remembered from requests with another salt are not used, so that response times
  // reveal nothing about those requests. turns: in the order of the messages; their tokens replace the
  // template's rendering of their content and tool calls, and of their reasoning where the template writes
  // it. All turns are ignored if the template cannot be rendered with marks in their place. A turn with calls
  // is also ignored if text in place of calls would change what the template writes around them. images:
  // those of the messages, in order. If `limit` stops the tokenising, compiling fails. marks: each takes
  // another rendering. Errors: see ChatTemplate::render; invalid (the template does not write each image
  // once).
  Result<CompiledPrompt> compile(const Json& messages, const Json& tools, const TemplateOptions& options,
                                 std::string_view salt = {}, std::span<const KnownTurn> turns = {},
                                 EncodeLimit* limit = nullptr, std::span<const RequestImage> images = {},
                                 std::span<const CacheMark> marks = {});

 private:
  // Token sequences with which prompts of a kind were seen to begin, or to end. kind: a text made from
  // everything that the sequence depends on, such as the salt and the template's options.
  class SeenTokens {
   public:
    explicit SeenTokens(bool at_end) : at_end_(at_end) {}
    // Length of the longest sequence of this kind with which the prompt begins (ends); 0: none.
    int match(std::string_view kind, std::span<const int> prompt);
    void put(std::string kind, std::span<const int> tokens);

   private:
    struct Entry {
      std::string kind;
      std::vector<int> tokens;
    };
    const bool at_end_;
    std::mutex mutex_;
    std::list<Entry> entries_;  // most recently used first
  };

  struct Chat {
    const Json& messages;
    const Json& tools;
    const TemplateOptions& options;
    std::string_view salt;
    std::span<const KnownTurn> turns;
    std::span<const RequestImage> images = {};
    EncodeLimit* limit = nullptr;
  };
  Result<CompiledPrompt> tokens_of(const Chat& chat);
  // Texts that stand for turns while the template is rendered. All have the same random beginning.
  struct Marks {
    std::string name;
    std::vector<const KnownTurn*> turns;
    std::string text(size_t turn) const { return name + std::to_string(turn) + "-mark"; }
    std::string thought(size_t turn) const { return name + std::to_string(turn) + "-thought"; }
  };
  Result<std::vector<PromptPiece>> render(const Json& messages, const Chat& chat) const;
  Result<void> put_images_in(CompiledPrompt& prompt, const Chat& chat) const;
  bool calls_can_be_text();
  std::optional<CompiledPrompt> tokens_around(const Chat& chat, bool thoughts);
  std::optional<std::vector<int>> splice(std::span<const PromptPiece> pieces, const Chat& chat,
                                         const Marks& marks);
  std::optional<int> common_length(const Chat& chat, std::span<const int> prompt);
  std::optional<int> instruction_length(const Chat& chat, std::span<const int> prompt);
  std::optional<int> earlier_length(const Chat& chat, std::span<const int> prompt);
  std::optional<int> closed_length(const Chat& chat, std::span<const int> prompt);
  std::optional<int> marked_length(CacheMark mark, const Chat& chat, std::span<const int> prompt);

  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  const ImageFormat* const image_format_;
  SegmentMemo memo_{size_t{32} << 20};
  SeenTokens beginnings_{false}, openings_{true};
  std::once_flag probed_;
  bool calls_can_be_text_ = false;
};

}  // namespace anabranch
