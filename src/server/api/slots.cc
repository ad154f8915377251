#include "server/api/slots.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/private_file.h"
#include "server/api/json_fields.h"
#include "server/api/sealed_text.h"
#include "server/api/trace_eraser.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

constexpr int kFileVersion = 1;
constexpr size_t kMaxFileName = 200, kMaxFiles = 1024;
constexpr size_t kMaxFileBytes = 64u << 20;

// A list of whole numbers from `least` to `most`; nothing: it is none.
std::optional<std::vector<int>> numbers_in(const Json& json, const char* name, int least, int most) {
  const auto list = json.find(name);
  if (list == json.end() || !list->is_array()) return std::nullopt;
  std::vector<int> numbers;
  for (const Json& one : *list) {
    if (!one.is_number_integer()) return std::nullopt;
    const auto value = one.get<int64_t>();
    if (value < least || value > most) return std::nullopt;
    numbers.push_back(static_cast<int>(value));
  }
  return numbers;
}

Result<void> write_slot(const std::string& directory, const std::string& name, const std::string& text) {
  const std::string path = directory + "/" + name, part = directory + "/." + random_id("slot-");
  std::error_code error;
  size_t files = 0;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    files++;
  if (files >= kMaxFiles && !std::filesystem::exists(path, error))
    return make_error(ErrorKind::exhausted, "The directory of slots has {} files already: remove some",
                      kMaxFiles);
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool written = fd >= 0 && write_all(fd, text);
  int fault = errno;
  if (fd >= 0 && ::close(fd) != 0 && std::exchange(written, false)) fault = errno;
  if (written && ::rename(part.c_str(), path.c_str()) == 0) return {};
  if (written) fault = errno;
  if (fd >= 0) ::unlink(part.c_str());
  return make_error(ErrorKind::io, "cannot write {}: {}", path, std::strerror(fault));
}

Result<std::string> read_slot(const std::string& path) {
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::regular)
    return make_error(ErrorKind::not_found, "There is no saved slot of this name");
  const auto size = std::filesystem::file_size(path, error);
  if (error || size > kMaxFileBytes)
    return make_error(ErrorKind::invalid, "The file is too large for a slot's: at most {} MiB are read",
                      kMaxFileBytes >> 20);
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    return make_error(ErrorKind::io, "cannot read {}", path);
  return text;
}

ApiError error_of(const Error& error) {
  if (error.kind == ErrorKind::not_found) return {400, error.message, "filename", "slot_not_found"};
  return {error.kind == ErrorKind::io ? 500 : 400, error.message, "filename", "invalid_slot_file"};
}

}  // namespace

bool is_slot_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileName && !name.starts_with('.') &&
         std::ranges::none_of(name, [](unsigned char c) {
           return c < 0x20 || c == 0x7F || c == '/' || c == '\\' || c == ':';
         });
}

std::string slot_text(const SlotPrompt& prompt, const std::string& model) {
  return dump_json({{"anabranch_slot", kFileVersion},
                    {"model", model},
                    {"salt", prompt.salt},
                    {"keep_at", prompt.keep_at},
                    {"tokens", prompt.tokens}});
}

Result<SlotPrompt> parse_slot(std::string_view text, const std::string& model, int vocab, int context) {
  const auto json = parse_json(text);
  if (!json || !json->is_object() || json->value("anabranch_slot", Json()) != kFileVersion)
    return make_error(ErrorKind::invalid, "The file is no slot that this version saved");
  if (const std::string other = string_at(*json, "model"); other != model)
    return make_error(ErrorKind::invalid, "The file is of the model '{}', but '{}' is served", other, model);
  const auto tokens = numbers_in(*json, "tokens", 0, vocab - 1);
  if (!tokens || tokens->empty())
    return make_error(ErrorKind::invalid, "The file has no list of the model's tokens");
  if (static_cast<int64_t>(tokens->size()) >= context)
    return make_error(ErrorKind::exhausted,
                      "The saved prompt has {} tokens, and does not fit into the context of {}",
                      tokens->size(), context);
  auto keep_at = numbers_in(*json, "keep_at", 1, static_cast<int>(tokens->size()));
  if (!keep_at || keep_at->size() > SlotPrompt::kMaxKept)
    return make_error(ErrorKind::invalid, "The file has no list of lengths to keep");
  std::ranges::sort(*keep_at);
  return SlotPrompt{*tokens, std::move(*keep_at), string_at(*json, "salt"), {}};
}

void Slots::note(const ModelLease& model, int slot, SlotPrompt prompt) {
  if (!enabled() || slot >= model->engine->info().max_running) return;
  if (prompt.keep_at.size() > SlotPrompt::kMaxKept) prompt.keep_at.resize(SlotPrompt::kMaxKept);
  prompts_[{model->name, slot}] = std::move(prompt);
}

// One request for an action.
struct Slots::Call {
  std::shared_ptr<ResponseStream> out;
  ModelLease model;
  int slot = 0;
  std::string file;
  const double begun = now_seconds();

  std::pair<std::string, int> key() const { return {model->name, slot}; }
  void fail(const ApiError& error) const { out->respond(error_response(error)); }
  void respond(Json json, const char* time) const {
    json["id_slot"] = slot;
    if (!file.empty()) json["filename"] = file;
    if (time) json["timings"] = {{time, (now_seconds() - begun) * 1000}};
    out->respond(json_response(json));
  }
};

void Slots::start(const std::string& id, const HttpRequest& request, std::shared_ptr<ResponseStream> out) {
  const auto call = std::make_shared<Call>();
  call->out = std::move(out);
  if (!enabled())
    return call->fail(
        {501, "This server does not keep slots: start it with --slot-save-path DIR", "", "slots_not_kept"});
  const std::string action = query_value(request.target, "action").value_or("");
  if (action != "save" && action != "restore" && action != "erase")
    return call->fail({400, "'action' must be save, restore or erase", "action", "invalid_value"});
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), call->slot);
  const bool number = error == std::errc() && end == id.data() + id.size() && call->slot >= 0;
  const auto body = parse_json(request.body.empty() ? "{}" : request.body);
  if (!body || !body->is_object())
    return call->fail({400, "The body must be a JSON object", "", "invalid_json"});
  JsonFields fields(*body);
  if (action != "erase") call->file = fields.required_string("filename");
  const std::string* model = fields.string("model");
  if (!fields.error() && action != "erase" && !is_slot_file_name(call->file))
    fields.fail(
        "filename", "invalid_value",
        fmt::format("'filename' must be 1 to {} bytes without a path, control characters, or a dot at "
                    "its beginning",
                    kMaxFileName));
  if (fields.error()) return call->fail(*fields.error());
  models_.acquire(model ? *model : "", [this, call, action, number, id](ApiResult<ModelLease> taken) {
    if (!taken) return call->fail(taken.error());
    call->model = std::move(*taken);
    const int slots = call->model->engine->info().max_running;
    if (!number || call->slot >= slots)
      return call->fail({400, fmt::format("There is no slot '{}': the slots are 0 to {}", id, slots - 1), "",
                         "invalid_slot"});
    if (action == "restore") return restore(call);
    if (!prompts_.contains(call->key())) {
      if (action == "erase") return call->respond({{"n_erased", 0}}, nullptr);
      return call->fail(
          {400, fmt::format("Slot {} has read no prompt that could be saved", call->slot), "", "empty_slot"});
    }
    action == "save" ? save(call) : erase(call);
  });
}

void Slots::save(const std::shared_ptr<Call>& call) {
  workers_.submit([call, prompt = prompts_.at(call->key()), post = post_, directory = directory_] {
    const std::string text = slot_text(prompt, call->model->name);
    const auto written = write_slot(directory, call->file, text);
    post([call, written, bytes = text.size(), tokens = prompt.tokens.size()] {
      if (!written) return call->fail(error_of(written.error()));
      call->respond({{"n_saved", tokens}, {"n_written", bytes}}, "save_ms");
    });
  });
}

void Slots::restore(const std::shared_ptr<Call>& call) {
  workers_.submit([this, call, post = post_, path = directory_ + "/" + call->file] {
    const Engine& engine = *call->model->engine;
    auto prompt = [&]() -> Result<SlotPrompt> {
      TRY(const std::string text, read_slot(path));
      return parse_slot(text, call->model->name, engine.tokenizer().vocab_size(),
                        engine.info().context_length);
    }();
    post([this, call, prompt = std::make_shared<Result<SlotPrompt>>(std::move(prompt))] {
      if (!*prompt) return call->fail(error_of(prompt->error()));
      reread(call, std::move(**prompt));
    });
  });
}

// Reads the prompt once more, which costs nothing where its states are still cached.
void Slots::reread(const std::shared_ptr<Call>& call, SlotPrompt prompt) {
  Engine& engine = *call->model->engine;
  if (!engine.stats().cache) return restored(call, std::move(prompt));
  Request request;
  request.prompt = prompt.tokens;
  request.keep_at = prompt.keep_at;
  request.cache_salt = prompt.salt;
  request.max_tokens = 0;
  request.name_states = true;
  const auto kept = std::make_shared<SlotPrompt>(std::move(prompt));
  const auto accepted =
      engine.submit(std::move(request), [this, call, kept, post = post_](const Event& event) {
        if (event.finish == FinishReason::none) return;
        post([this, call, kept, event] {
          if (event.finish == FinishReason::error || event.finish == FinishReason::cancelled)
            return call->fail({500, "The engine failed: " + event.error, "", "engine_error"});
          kept->states = event.states;
          restored(call, std::move(*kept));
        });
      });
  if (!accepted) call->fail(accepted.error());
}

void Slots::restored(const std::shared_ptr<Call>& call, SlotPrompt prompt) {
  const size_t tokens = prompt.tokens.size(), bytes = slot_text(prompt, call->model->name).size();
  note(call->model, call->slot, std::move(prompt));
  call->respond({{"n_restored", tokens}, {"n_read", bytes}}, "restore_ms");
}

// Forgets the prompt, and the cached states that it used.
void Slots::erase(const std::shared_ptr<Call>& call) {
  const auto prompt = prompts_.extract(call->key());
  workers_.submit(
      [call, post = post_, states = prompt.mapped().states, tokens = prompt.mapped().tokens.size()] {
        if (SharedStates* cached = call->model->engine->shared_states())
          cached->forget(parse_traces(states).records);
        post([call, tokens] { call->respond({{"n_erased", tokens}}, nullptr); });
      });
}

}  // namespace anabranch::server
