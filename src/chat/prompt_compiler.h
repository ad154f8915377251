// Chat requests to prompt tokens. What many requests have in common (tool schemas, system prompts, earlier
// turns) is tokenised once, and where prompts are likely to part from each other is found once.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

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
  // Lengths of the prompt's beginnings that are worth keeping a state of, ascending: up to the first message
  // that is not the system's (other conversations share that much), up to the last message (which may come
  // again in another form, or not at all), and up to where the answer's opening begins (the next turn repeats
  // that much, however the answer is rendered then: templates drop old reasoning). Fewer when the template
  // cannot be rendered without what comes after.
  std::vector<int> stable_lengths;
};

// An assistant's message whose tokens are known: what the model sampled, without its reasoning and the end of
// the turn.
struct KnownTurn {
  size_t message = 0;  // its place in the list
  std::vector<int> tokens;
};

// Thread-safe. The template and the tokenizer must outlive it.
class PromptCompiler {
 public:
  // images: how prompts hold them; null: they hold none.
  PromptCompiler(const ChatTemplate& chat, const Tokenizer& tokenizer, const ImageFormat* images = nullptr)
      : template_(chat), tokenizer_(tokenizer), image_format_(images) {}

  // salt: what was learned of requests with another one is not used, so that time tells nothing about them.
  // turns: ascending; the prompt has their tokens in place of what the template makes of content and tool
  // calls. It has none of them where the template cannot be rendered with other text there, and none with
  // calls where text in their place would change what is around. images: of the messages, in order. limit:
  // may end it early (an error, then).
  // Errors: as ChatTemplate::render; invalid (the template does not write each image once).
  Result<CompiledPrompt> compile(const Json& messages, const Json& tools, const TemplateOptions& options,
                                 std::string_view salt = {}, std::span<const KnownTurn> turns = {},
                                 EncodeLimit* limit = nullptr, std::span<const RequestImage> images = {});

 private:
  // Token sequences that prompts of a kind were seen to begin, or to end, with.
  class SeenTokens {
   public:
    explicit SeenTokens(bool at_end) : at_end_(at_end) {}
    // The longest of this kind that the prompt begins (ends) with; 0: none.
    int match(std::string_view kind, std::span<const int> prompt);
    void put(std::string kind, std::span<const int> tokens);

   private:
    struct Entry {
      std::string kind;
      std::vector<int> tokens;
    };
    const bool at_end_;
    std::mutex mutex_;
    std::list<Entry> entries_;  // latest use first
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
  // Text that stands for turns while the template is rendered: all begin alike, as nothing else does.
  struct Marks {
    std::string name;
    std::vector<const KnownTurn*> turns;
    std::string text(size_t turn) const { return name + std::to_string(turn) + "-mark"; }
  };
  Result<std::vector<PromptPiece>> render(const Json& messages, const Chat& chat) const;
  Result<void> put_images_in(CompiledPrompt& prompt, const Chat& chat) const;
  bool calls_can_be_text();
  std::optional<CompiledPrompt> tokens_around(const Chat& chat);
  std::optional<std::vector<int>> splice(std::span<const PromptPiece> pieces, const Chat& chat,
                                         const Marks& marks);
  std::optional<int> common_length(const Chat& chat, std::span<const int> prompt);
  std::optional<int> instruction_length(const Chat& chat, std::span<const int> prompt);
  std::optional<int> earlier_length(const Chat& chat, std::span<const int> prompt);
  std::optional<int> closed_length(const Chat& chat, std::span<const int> prompt);

  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  const ImageFormat* const image_format_;
  SegmentMemo memo_{size_t{32} << 20};
  SeenTokens beginnings_{false}, openings_{true};
  std::once_flag probed_;
  bool calls_can_be_text_ = false;
};

}  // namespace anabranch
