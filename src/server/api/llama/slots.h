// llama-server's slots: POST /slots/{id}?action=save|restore|erase. Here a slot is a name for the last prompt
// that was read for it; the prefix cache holds the states, for all slots together. Each owner has slots and
// files of its own: an owner is a key's cache space (KeyUse::cache_space()), or "" for all that share the
// cache. Reference: llama.cpp's tools/server/README.md.
//
// I/O thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "server/api/deadline.h"
#include "server/api/model_pool.h"
#include "server/http/api_keys.h"
#include "server/http/types.h"

namespace anabranch::server {

struct SlotPrompt {
  std::vector<int> tokens;          // of the prompt and its answer
  std::vector<int> keep_at;         // see Request; at most kMaxKept
  std::string salt;                 // see Request::cache_salt; any bytes
  std::vector<std::string> states;  // Event::states; not in files
  static constexpr size_t kMaxKept = 64;
};

// A slot's prompt as the text of a file, and back. vocab: number of token ids. context: the model's length.
// Errors: invalid (no such text, or one of another model), not_found (another owner's), exhausted (more
// tokens than the context has).
std::string slot_text(const SlotPrompt& prompt, const std::string& owner, const std::string& model);
Result<SlotPrompt> parse_slot(std::string_view text, const std::string& owner, const std::string& model,
                              int vocab, int context);
// Whether a client may choose this name for a file.
bool is_slot_file_name(std::string_view name);

class Slots {
 public:
  // directory: for the files; empty: slots are not kept, and requests get 501. Parts of files that an earlier
  // process left there are removed. timeout_s: see AnswerServices. models and workers must outlive it.
  Slots(ModelPool& models, WorkerPool& workers, Post post, const After& after, double timeout_s,
        std::string directory);

  bool enabled() const { return !directory_.empty(); }
  // The prompt that a slot of this model has read last for this owner.
  void note(const std::string& owner, const ModelLease& model, int slot, SlotPrompt prompt);
  // Forgets the prompts whose longest state is among these (full_name() of records): their conversation was
  // deleted.
  void forget(std::span<const std::string> states);
  // id: from the path. use: ends with the request.
  void start(const std::string& id, const HttpRequest& request, KeyUse use,
             std::shared_ptr<ResponseStream> out);
  // Ends every request with an error.
  void fail_all();

 private:
  struct Call;
  using CallPtr = std::shared_ptr<Call>;
  void act(const CallPtr& call);
  void save(const CallPtr& call);
  void restore(const CallPtr& call);
  void reread(const CallPtr& call, SlotPrompt prompt);
  void restored(const CallPtr& call, SlotPrompt prompt);
  void erase(const CallPtr& call);
  void respond(const CallPtr& call, Json json, const char* time);
  void fail(const CallPtr& call, const ApiError& error);
  void end(const CallPtr& call);
  bool end_late_ones();

  ModelPool& models_;
  WorkerPool& workers_;
  const Post post_;
  const double timeout_s_;
  const std::string directory_;
  std::map<std::tuple<std::string, std::string, int>, SlotPrompt> prompts_;  // by owner, model and slot
  uint64_t next_ = 0;
  std::map<uint64_t, CallPtr> calls_;  // that have no answer yet
  DeadlineWatch watch_;
};

}  // namespace anabranch::server
