#include "server/api/llama/slots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/private_file.h"
#include "server/api/control_characters.h"
#include "server/api/json_fields.h"
#include "server/api/sealed_text.h"
#include "server/api/trace_eraser.h"
#include "server/http/admission.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

constexpr int kFileVersion = 2;
constexpr size_t kMaxFileName = 200, kMaxFiles = 1024;
constexpr size_t kMaxFileBytes = 64u << 20;
constexpr std::string_view kPartPrefix = ".slot-";  // of files that are being written

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

// Two digits for each byte, because JSON holds no bytes that are not UTF-8, and keys' salts have such.
std::string hex_text(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::optional<std::string> bytes_of_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    unsigned char byte = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    if (error != std::errc() || end != text.data() + i + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// The client gets no path of the server; the log does.
Error file_fault(const char* what, const std::string& path, int fault) {
  log_warning("slots: cannot {} {}: {}", what, path, std::strerror(fault));
  if (fault == ENOSPC || fault == EDQUOT || fault == EFBIG)
    return {ErrorKind::exhausted, "The server's disk is full: remove saved slots, or ask its operator", "",
            "disk_full"};
  return {ErrorKind::io, fmt::format("The server cannot {} the file: {}", what, std::strerror(fault))};
}

Result<std::string> read_slot(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!file.ok() || ::fstat(*file, &info) != 0 || !S_ISREG(info.st_mode))
    return make_error(ErrorKind::not_found, "There is no saved slot of this name");
  if (static_cast<uint64_t>(info.st_size) > kMaxFileBytes)
    return make_error(ErrorKind::invalid, "The file is too large for a slot's: at most {} MiB are read",
                      kMaxFileBytes >> 20);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::read(*file, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return file_fault("read", path, n < 0 ? errno : EIO);
    at += static_cast<size_t>(n);
  }
  return text;
}

// The object in a slot's file; nothing: it is none of this version.
std::optional<Json> slot_object(std::string_view text) {
  auto json = parse_json(text);
  if (!json || !json->is_object() || json->value("anabranch_slot", Json()) != kFileVersion)
    return std::nullopt;
  return std::move(*json);
}

Error taken_name() {
  return {ErrorKind::invalid, "There is a file of this name that is no slot of yours: choose another name",
          "", "file_exists"};
}

// Whether a file of this name would be replaced. Errors: file_exists (it must stay: it is no slot's, or
// another owner's).
Result<bool> is_replaceable(const std::string& path, const std::string& owner) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) return false;
  if (const auto text = read_slot(path))
    if (const auto json = slot_object(*text); json && string_at(*json, "owner") == owner) return true;
  return taken_name();
}

// Gives a file its name if no file has it; sets errno and returns false otherwise.
bool publish_new(const std::string& part, const std::string& path) {
  if (::link(part.c_str(), path.c_str()) == 0) return true;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) return false;
  // A file system without links: an empty file keeps the name.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  ::close(fd);
  return ::rename(part.c_str(), path.c_str()) == 0;
}

// If two owners save under the same new name at the same time, the second gets file_exists.
Result<void> write_slot(const std::string& directory, const std::string& name, const std::string& owner,
                        const std::string& text) {
  if (text.size() > kMaxFileBytes)
    return make_error(ErrorKind::invalid, "The prompt is too long to be saved: files have at most {} MiB",
                      kMaxFileBytes >> 20);
  const std::string path = directory + "/" + name;
  const std::string part = directory + "/" + random_id(std::string(kPartPrefix).c_str());
  TRY(const bool replaces, is_replaceable(path, owner));
  std::error_code error;
  size_t files = 0;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    files++;
  if (files >= kMaxFiles && !replaces)
    return make_error(ErrorKind::invalid, "The directory of slots has {} files already: remove some",
                      kMaxFiles);
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool written = fd >= 0 && write_all(fd, text);
  int fault = errno;
  if (fd >= 0 && ::close(fd) != 0 && std::exchange(written, false)) fault = errno;
  if (written) {
    written = replaces ? ::rename(part.c_str(), path.c_str()) == 0 : publish_new(part, path);
    if (!written) fault = errno;
  }
  if (fd >= 0) ::unlink(part.c_str());
  if (written) return {};
  if (fault == EEXIST && !replaces) return taken_name();
  return file_fault("write", path, fault);
}

// Removes parts that no process writes any more.
void remove_old_parts(const std::string& directory) {
  constexpr std::chrono::hours kOld{1};
  std::error_code error;
  const auto now = std::filesystem::file_time_type::clock::now();
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code failed;
    if (!it->path().filename().string().starts_with(kPartPrefix)) continue;
    const auto written = std::filesystem::last_write_time(it->path(), failed);
    if (!failed && now - written > kOld) std::filesystem::remove(it->path(), failed);
  }
}

ApiError error_of(const Error& error) {
  if (error.code == "disk_full") return {507, error.message, "", error.code};
  if (error.code == "file_exists") return {409, error.message, "filename", error.code};
  if (error.kind == ErrorKind::not_found) return {400, error.message, "filename", "slot_not_found"};
  return {error.kind == ErrorKind::io ? 500 : 400, error.message, "filename", "invalid_slot_file"};
}

}  // namespace

bool is_slot_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileName && !name.starts_with('.') &&
         name.find_first_of("/\\:") == name.npos && !has_control_characters(name);
}

namespace {

// Reads the fields of a request. Returns the name of the model that it names, or "".
ApiResult<std::string> read_slot_fields(const std::string& action, std::string_view text, std::string& file) {
  if (action != "save" && action != "restore" && action != "erase")
    return ApiError{400, "'action' must be save, restore or erase", "action", "invalid_value"};
  const auto body = parse_json(text.empty() ? "{}" : text);
  if (!body || !body->is_object()) return ApiError{400, "The body must be a JSON object", "", "invalid_json"};
  JsonFields fields(*body);
  if (action != "erase") file = fields.required_string("filename");
  const std::string* model = fields.string("model");
  if (!fields.error() && action != "erase" && !is_slot_file_name(file))
    fields.fail(
        "filename", "invalid_value",
        fmt::format("'filename' must be 1 to {} bytes without a path, control characters, or a dot at "
                    "its beginning",
                    kMaxFileName));
  if (fields.error()) return *fields.error();
  return model ? *model : "";
}

}  // namespace

std::string slot_text(const SlotPrompt& prompt, const std::string& owner, const std::string& model) {
  return dump_json({{"anabranch_slot", kFileVersion},
                    {"owner", owner},
                    {"model", model},
                    {"salt", hex_text(prompt.salt)},
                    {"keep_at", prompt.keep_at},
                    {"tokens", prompt.tokens}});
}

Result<SlotPrompt> parse_slot(std::string_view text, const std::string& owner, const std::string& model,
                              int vocab, int context) {
  const auto json = slot_object(text);
  if (!json) return make_error(ErrorKind::invalid, "The file is no slot that this version saved");
  if (string_at(*json, "owner") != owner)
    return make_error(ErrorKind::not_found, "There is no saved slot of this name");
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
  auto salt = bytes_of_hex(string_at(*json, "salt"));
  if (!salt) return make_error(ErrorKind::invalid, "The file has no salt in hexadecimal digits");
  return SlotPrompt{*tokens, std::move(*keep_at), std::move(*salt), {}};
}

Slots::Slots(ModelPool& models, WorkerPool& workers, Post post, const After& after, double timeout_s,
             std::string directory)
    : models_(models),
      workers_(workers),
      post_(std::move(post)),
      timeout_s_(timeout_s),
      directory_(std::move(directory)),
      watch_(after, [this] { return end_late_ones(); }) {
  if (enabled()) remove_old_parts(directory_);
}

void Slots::note(const std::string& owner, const ModelLease& model, int slot, SlotPrompt prompt) {
  if (!enabled() || slot >= model->engine->info().max_running) return;
  if (prompt.keep_at.size() > SlotPrompt::kMaxKept) prompt.keep_at.resize(SlotPrompt::kMaxKept);
  prompts_[{owner, model->name, slot}] = std::move(prompt);
}

void Slots::forget(std::span<const std::string> states) {
  // Shorter states may be those of a beginning that other conversations have, too.
  const auto longest = [](const SlotPrompt& prompt) {
    const auto records = parse_traces(prompt.states).records;
    const auto last = std::ranges::max_element(records, {}, &DiskRecord::length);
    return last == records.end() ? "" : full_name(*last);
  };
  std::erase_if(prompts_, [&](const auto& entry) {
    return std::ranges::find(states, longest(entry.second)) != states.end();
  });
}

// One request for an action.
struct Slots::Call {
  uint64_t number = 0;
  std::string action;
  KeyUse use;
  JobOwner job;
  std::shared_ptr<ResponseStream> out;
  ModelLease model;
  int slot = -1;     // -1: the path has no number
  std::string file;  // empty: the action needs none
  Deadline deadline;
  std::optional<RequestId> reading;  // the prompt that the engine reads for it
  size_t bytes = 0;                  // of the file
  const double begun = now_seconds();

  std::tuple<std::string, std::string, int> key() const { return {use.cache_space(), model->name, slot}; }
};

// Ends the request, which has been answered or needs no answer.
void Slots::end(const CallPtr& call) {
  if (call->reading) call->model->engine->cancel(*call->reading);
  call->use = {};
  calls_.erase(call->number);
}

void Slots::fail(const CallPtr& call, const ApiError& error) {
  if (!calls_.contains(call->number)) return;
  call->out->respond(error_response(error));
  end(call);
}

void Slots::respond(const CallPtr& call, Json json, const char* time) {
  if (!calls_.contains(call->number)) return;
  json["id_slot"] = call->slot;
  if (!call->file.empty()) json["filename"] = call->file;
  if (time) json["timings"] = {{time, (now_seconds() - call->begun) * 1000}};
  call->out->respond(json_response(json));
  end(call);
}

bool Slots::end_late_ones() {
  return fail_late_ones(
      calls_, [](const CallPtr& call) -> const Deadline& { return call->deadline; },
      [this](uint64_t number, const ApiError& error) { fail(CallPtr(calls_.at(number)), error); });
}

void Slots::fail_all() {
  while (!calls_.empty())
    fail(CallPtr(calls_.begin()->second), {503, "The server is shutting down", "", "shutting_down"});
}

void Slots::start(const std::string& id, const HttpRequest& request, KeyUse use,
                  std::shared_ptr<ResponseStream> out) {
  const auto call = std::make_shared<Call>();
  call->number = next_++;
  call->action = query_value(request.target, "action").value_or("");
  call->job = {sender_of(use.name(), request.address), request.body.size()};
  call->use = std::move(use);
  call->out = std::move(out);
  calls_[call->number] = call;
  if (!enabled())
    return fail(call, {501, "This server does not keep slots: start it with --slot-save-path DIR", "",
                       "slots_not_kept"});
  const auto model = read_slot_fields(call->action, request.body, call->file);
  if (!model) return fail(call, model.error());
  int slot = 0;
  const auto [end_of_number, error] = std::from_chars(id.data(), id.data() + id.size(), slot);
  if (error == std::errc() && end_of_number == id.data() + id.size()) call->slot = slot;
  call->out->on_client_left([this, call = std::weak_ptr(call)] {
    if (const auto left = call.lock()) end(left);
  });
  call->deadline.limit(call->begun, timeout_s_);
  if (call->deadline.is_set()) watch_.start();
  models_.acquire(*model, [this, call, id](ApiResult<ModelLease> taken) {
    if (!taken) return fail(call, taken.error());
    call->model = std::move(*taken);
    const int slots = call->model->engine->info().max_running;
    if (call->slot < 0 || call->slot >= slots)
      return fail(call, {400, fmt::format("There is no slot '{}': the slots are 0 to {}", id, slots - 1), "",
                         "invalid_slot"});
    act(call);
  });
}

void Slots::act(const CallPtr& call) {
  if (!calls_.contains(call->number)) return;  // the client left while the model was loaded
  if (call->action == "restore") return restore(call);
  if (prompts_.contains(call->key())) return call->action == "save" ? save(call) : erase(call);
  if (call->action == "erase") return respond(call, {{"n_erased", 0}}, nullptr);
  fail(call,
       {400, fmt::format("Slot {} has read no prompt that could be saved", call->slot), "", "empty_slot"});
}

void Slots::save(const CallPtr& call) {
  workers_.submit(call->job, [this, call, owner = call->use.cache_space(), prompt = prompts_.at(call->key()),
                              post = post_, directory = directory_] {
    const std::string text = slot_text(prompt, owner, call->model->name);
    const auto written = write_slot(directory, call->file, owner, text);
    post([this, call, written, bytes = text.size(), tokens = prompt.tokens.size()] {
      if (!written) return fail(call, error_of(written.error()));
      respond(call, {{"n_saved", tokens}, {"n_written", bytes}}, "save_ms");
    });
  });
}

void Slots::restore(const CallPtr& call) {
  workers_.submit(call->job, [this, call, owner = call->use.cache_space(), post = post_,
                              path = directory_ + "/" + call->file] {
    const Engine& engine = *call->model->engine;
    size_t bytes = 0;
    auto prompt = [&]() -> Result<SlotPrompt> {
      TRY(const std::string text, read_slot(path));
      bytes = text.size();
      return parse_slot(text, owner, call->model->name, engine.tokenizer().vocab_size(),
                        engine.info().context_length);
    }();
    post([this, call, bytes, prompt = std::make_shared<Result<SlotPrompt>>(std::move(prompt))] {
      call->bytes = bytes;
      if (!*prompt) return fail(call, error_of(prompt->error()));
      if (calls_.contains(call->number)) reread(call, std::move(**prompt));
    });
  });
}

// Reads the prompt once more, which costs nothing where its states are still cached.
void Slots::reread(const CallPtr& call, SlotPrompt prompt) {
  Engine& engine = *call->model->engine;
  if (!engine.stats().cache) return restored(call, std::move(prompt));
  Request request;
  request.prompt = prompt.tokens;
  request.keep_at = prompt.keep_at;
  request.cache_salt = prompt.salt;
  request.max_tokens = 0;
  request.name_states = true;
  request.priority = call->use.priority().value_or(0);
  const auto kept = std::make_shared<SlotPrompt>(std::move(prompt));
  const auto accepted =
      engine.submit(std::move(request), [this, call, kept, post = post_](const Event& event) {
        if (event.finish == FinishReason::none) return;
        post([this, call, kept, event] {
          call->reading.reset();
          if (event.finish == FinishReason::error || event.finish == FinishReason::cancelled)
            return fail(call, {500, "The engine failed: " + event.error, "", "engine_error"});
          kept->states = event.states;
          restored(call, std::move(*kept));
        });
      });
  if (!accepted) return fail(call, accepted.error());
  call->reading = *accepted;
  call->use.add_tokens(static_cast<int>(kept->tokens.size()), now_seconds());
}

void Slots::restored(const CallPtr& call, SlotPrompt prompt) {
  if (!calls_.contains(call->number)) return;
  const size_t tokens = prompt.tokens.size();
  note(call->use.cache_space(), call->model, call->slot, std::move(prompt));
  respond(call, {{"n_restored", tokens}, {"n_read", call->bytes}}, "restore_ms");
}

// Forgets the prompt, and the cached states that it used.
void Slots::erase(const CallPtr& call) {
  const auto prompt = prompts_.extract(call->key());
  workers_.submit(call->job, [this, call, post = post_, states = prompt.mapped().states,
                              tokens = prompt.mapped().tokens.size()] {
    if (SharedStates* cached = call->model->engine->shared_states())
      cached->forget(parse_traces(states).records);
    post([this, call, tokens] { respond(call, {{"n_erased", tokens}}, nullptr); });
  });
}

}  // namespace anabranch::server
