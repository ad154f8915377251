// llama-server's slots: POST /slots/{id}?action=save|restore|erase. Here a slot is a name for the last prompt
// that was read for it; the state cache holds the states, for all slots together. Reference: llama.cpp's
// tools/server/README.md.
//
// I/O thread only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "server/api/model_pool.h"
#include "server/http/types.h"

namespace anabranch::server {

struct SlotPrompt {
  std::vector<int> tokens;          // of the prompt and its answer
  std::vector<int> keep_at;         // see Request; at most kMaxKept
  std::string salt;                 // see Request::cache_salt
  std::vector<std::string> states;  // Event::states; not in files
  static constexpr size_t kMaxKept = 64;
};

// A slot's prompt as the text of a file, and back. vocab: number of token ids. context: the model's length.
// Errors: invalid (no such text, or one of another model), exhausted (more tokens than the context has).
std::string slot_text(const SlotPrompt& prompt, const std::string& model);
Result<SlotPrompt> parse_slot(std::string_view text, const std::string& model, int vocab, int context);
// Whether a client may choose this name for a file.
bool is_slot_file_name(std::string_view name);

class Slots {
 public:
  // directory: for the files; empty: slots are not kept, and requests get 501. models and workers must
  // outlive it.
  Slots(ModelPool& models, WorkerPool& workers, Post post, std::string directory)
      : models_(models), workers_(workers), post_(std::move(post)), directory_(std::move(directory)) {}

  bool enabled() const { return !directory_.empty(); }
  // The prompt that a slot of this model has read last.
  void note(const ModelLease& model, int slot, SlotPrompt prompt);
  // id: from the path.
  void start(const std::string& id, const HttpRequest& request, std::shared_ptr<ResponseStream> out);

 private:
  struct Call;
  void save(const std::shared_ptr<Call>& call);
  void restore(const std::shared_ptr<Call>& call);
  void reread(const std::shared_ptr<Call>& call, SlotPrompt prompt);
  void restored(const std::shared_ptr<Call>& call, SlotPrompt prompt);
  void erase(const std::shared_ptr<Call>& call);

  ModelPool& models_;
  WorkerPool& workers_;
  const Post post_;
  const std::string directory_;
  std::map<std::pair<std::string, int>, SlotPrompt> prompts_;  // by model and slot
};

}  // namespace anabranch::server
