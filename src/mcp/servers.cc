#include "mcp/servers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/nearest.h"
#include "mcp/text.h"

namespace anabranch::mcp {
namespace {

constexpr size_t kKeptCalls = 256;
constexpr size_t kLogBytes = 16 << 20;
constexpr size_t kLoggedArgumentBytes = 4 << 10, kLoggedErrorBytes = 300;
// Pause after a failed start before the next one; it doubles after each failure.
constexpr double kFirstPauseSeconds = 1, kLongestPauseSeconds = 60;
constexpr int kMaxDoublings = 10;
constexpr std::chrono::milliseconds kStartPoll(20);

// A cached list, and the server's count of changes at that time.
template <class T>
struct Kept {
  std::optional<Listed<T>> list;
  unsigned changes = 0;
  double at = 0;
};

unsigned changes_of(const Client& client, const Tool*) {
  return client.changes().tools;
}
unsigned changes_of(const Client& client, const Resource*) {
  return client.changes().resources;
}
unsigned changes_of(const Client& client, const PromptInfo*) {
  return client.changes().prompts;
}

}  // namespace

struct Servers::Slot {
  ServerConfig config;

  std::mutex mutex;       // guards the members below
  bool starting = false;  // a thread connects the client: one at a time
  std::condition_variable started;
  std::shared_ptr<Client> client;
  std::string error;
  double retry_at = 0;
  int failures = 0;
  Kept<Tool> tools;
  Kept<Resource> resources;
  Kept<PromptInfo> prompts;

  Kept<Tool>& kept(const Tool*) { return tools; }
  Kept<Resource>& kept(const Resource*) { return resources; }
  Kept<PromptInfo>& kept(const PromptInfo*) { return prompts; }

  // Call with `mutex` held, like note_failure.
  void note_start(std::shared_ptr<Client> opened) {
    client = std::move(opened);
    error.clear();
    failures = 0;
    tools = {};
    resources = {};
    prompts = {};
    log_debug("MCP server '{}' is connected (protocol {})", config.name, client->protocol_version());
  }
  // Sets the pause before the next start, unless the start was only cancelled.
  Error note_failure(const Error& failure) {
    if (failure.kind == ErrorKind::busy) return failure;
    error = failure.message;
    retry_at = now_seconds() + std::min(kLongestPauseSeconds,
                                        kFirstPauseSeconds * (1 << std::min(failures++, kMaxDoublings)));
    log_warning("{}", error);
    return failure;
  }
};

Servers::Servers(std::vector<ServerConfig> configs, const Limits& limits) : limits_(limits) {
  for (ServerConfig& config : configs) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->config = std::move(config);
  }
}

Servers::~Servers() {
  std::vector<std::thread> threads;
  for (const auto& slot : slots_)
    if (slot->client) threads.emplace_back([&slot] { slot->client.reset(); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::string> Servers::names() const {
  std::vector<std::string> out;
  for (const auto& slot : slots_) out.push_back(slot->config.name);
  return out;
}

Servers::Slot* Servers::find(const std::string& server) const {
  for (const auto& slot : slots_)
    if (slot->config.name == server) return slot.get();
  return nullptr;
}

bool Servers::has(const std::string& server) const {
  return find(server) != nullptr;
}

Result<void> Servers::log_calls_to(const std::string& path) {
  TRY(log_, RotatingLog::open(path, kLogBytes));
  // An existing file may be readable by others.
  std::error_code error;
  std::filesystem::permissions(path, std::filesystem::perms(0600), error);
  if (error) return make_error(ErrorKind::io, "'{}' cannot be made yours alone: {}", path, error.message());
  return {};
}

Patience Servers::time_for(const std::string& server, const Cancelled& cancelled) const {
  const Slot* slot = find(server);
  const double own = slot ? slot->config.call_timeout_s : 0;
  return {own > 0 ? own : limits_.call_seconds, cancelled};
}

// The server's client; opens a new one if none is alive. The time to start a process is added to the time of
// `patience`.
Result<std::shared_ptr<Client>> Servers::client(Slot& slot, Patience& patience) {
  const bool process = !slot.config.http;
  Patience start(process ? limits_.start_seconds : std::min(limits_.start_seconds, patience.seconds),
                 patience.cancelled);
  if (!process) start.until = std::min(start.until, patience.until);
  auto not_counted = [&, began = now_seconds()]() mutable {
    const double now = now_seconds();
    if (process) patience.until += now - std::exchange(began, now);
  };
  std::unique_lock lock(slot.mutex);
  while (slot.starting) {
    slot.started.wait_for(lock, kStartPoll);
    lock.unlock();
    if (patience.cancelled && patience.cancelled()) return cancelled_error(slot.config.name, "its start");
    if (start.over()) return late_error(slot.config.name, "its start", start.seconds);
    lock.lock();
  }
  not_counted();
  if (slot.client && slot.client->alive()) return slot.client;
  if (now_seconds() < slot.retry_at)
    return make_error(ErrorKind::busy, "{} (it is tried again in {:.0f} s)", slot.error,
                      slot.retry_at - now_seconds() + 0.5);
  slot.starting = true;
  std::shared_ptr<Client> old = std::move(slot.client);
  lock.unlock();
  old.reset();
  auto opened = Client::open(slot.config, limits_, start);
  not_counted();
  lock.lock();
  slot.starting = false;
  slot.started.notify_all();
  if (!opened) return slot.note_failure(opened.error());
  slot.note_start(std::move(*opened));
  return slot.client;
}

// Asks the client. Retries once if the server has forgotten the session, because then it has not done
// anything yet.
template <class T, class Ask>
Result<T> Servers::with_client(const std::string& server, Patience& patience, const Ask& ask) {
  Slot* slot = find(server);
  if (!slot)
    return make_error(ErrorKind::not_found, "there is no MCP server '{}'{}", one_line(server, 80),
                      did_you_mean(server, names()));
  for (bool again = false;; again = true) {
    TRY(const std::shared_ptr<Client> client, this->client(*slot, patience));
    Result<T> answer = ask(*slot, *client);
    if (answer || again || answer.error().kind != ErrorKind::not_found) return answer;
  }
}

template <class T, class Ask>
Result<std::vector<T>> Servers::listed(const std::string& server, Patience& patience, const Ask& ask) {
  const T* const type = nullptr;
  return with_client<std::vector<T>>(
      server, patience, [&](Slot& slot, Client& client) -> Result<std::vector<T>> {
        const unsigned changes = changes_of(client, type);
        {
          std::lock_guard lock(slot.mutex);
          const Kept<T>& kept = slot.kept(type);
          const bool fresh = client.hears_changes() || now_seconds() - kept.at < limits_.list_seconds;
          if (kept.list && kept.changes == changes && fresh) return kept.list->items;
        }
        auto list = ask(client);
        std::lock_guard lock(slot.mutex);
        if (!list) {
          if (list.error().kind != ErrorKind::busy) slot.error = list.error().message;
          return list.error();
        }
        slot.error.clear();
        for (const std::string& note : list->notes) log_warning("MCP server '{}': {}", server, note);
        slot.kept(type) = {*list, changes, now_seconds()};
        return std::move(list->items);
      });
}

Result<std::vector<Tool>> Servers::tools(const std::string& server, const Cancelled& cancelled) {
  Patience time = time_for(server, cancelled);
  return tools(server, time);
}

Result<std::vector<Tool>> Servers::tools(const std::string& server, Patience& time) {
  return listed<Tool>(server, time, [&](Client& client) { return client.tools(time); });
}

Result<std::vector<Resource>> Servers::resources(const std::string& server, const Cancelled& cancelled) {
  Patience time = time_for(server, cancelled);
  return listed<Resource>(server, time, [&](Client& client) { return client.resources(time); });
}

Result<std::vector<PromptInfo>> Servers::prompts(const std::string& server, const Cancelled& cancelled) {
  Patience time = time_for(server, cancelled);
  return listed<PromptInfo>(server, time, [&](Client& client) { return client.prompts(time); });
}

// The user consented to the tool as it was described. So it is compared with the server's current list, which
// is requested again only if it may have changed.
Result<Output> Servers::call_checked(const Tool& tool, const Json& arguments, const Cancelled& cancelled) {
  if (!arguments.is_object())
    return make_error(ErrorKind::invalid, "the arguments of '{}' must be a JSON object", tool.name);
  Patience time = time_for(tool.server, cancelled);
  TRY(const std::vector<Tool> now, tools(tool.server, time));
  const auto at =
      std::find_if(now.begin(), now.end(), [&](const Tool& one) { return one.name == tool.name; });
  if (at == now.end())
    return make_error(ErrorKind::invalid, "MCP server '{}' has no tool '{}' (any more)", tool.server,
                      tool.name);
  if (*at != tool)
    return make_error(ErrorKind::invalid,
                      "MCP server '{}' has changed its tool '{}' since it was offered: it was not called",
                      tool.server, tool.name);
  return with_client<Output>(tool.server, time,
                             [&](Slot&, Client& client) { return client.call(tool.name, arguments, time); });
}

CallResult Servers::call(const Tool& tool, const Json& arguments, const Cancelled& cancelled,
                         const std::string& owner) {
  CallRecord call{unix_seconds(), tool.server, tool.name, 0, 0, "", owner};
  const double began = now_seconds();
  const auto output = call_checked(tool, arguments, cancelled);
  CallResult result;
  result.seconds = call.seconds = now_seconds() - began;
  if (output) {
    result.text = output->text;
    result.is_error = output->is_error;
    result.truncated = output->truncated;
    if (output->is_error) call.error = one_line(output->text, kLoggedErrorBytes);
  } else {
    result.text = call.error = output.error().message;
    result.is_error = true;
  }
  call.output_bytes = result.text.size();
  record(std::move(call), arguments);
  return result;
}

Result<Output> Servers::read_resource(const std::string& server, const std::string& uri,
                                      const Cancelled& cancelled) {
  Patience time = time_for(server, cancelled);
  return with_client<Output>(server, time,
                             [&](Slot&, Client& client) { return client.read_resource(uri, time); });
}

Result<Json> Servers::get_prompt(const std::string& server, const std::string& name,
                                 const std::map<std::string, std::string>& arguments,
                                 const Cancelled& cancelled) {
  Patience time = time_for(server, cancelled);
  return with_client<Json>(server, time,
                           [&](Slot&, Client& client) { return client.get_prompt(name, arguments, time); });
}

void Servers::record(CallRecord call, const Json& arguments) {
  if (log_) {
    const std::string given = dump_json(arguments);
    Json line = {{"at", rfc3339(call.at * 1'000'000'000)}, {"server", call.server}, {"tool", call.tool}};
    line["arguments"] =
        given.size() <= kLoggedArgumentBytes ? arguments : Json(one_line(given, kLoggedArgumentBytes));
    line["seconds"] = call.seconds;
    line["output_bytes"] = call.output_bytes;
    line["error"] = call.error.empty() ? Json() : Json(call.error);
    log_->write(dump_json(line));
  }
  std::lock_guard lock(calls_mutex_);
  calls_.push_front(std::move(call));
  const std::string& owner = calls_.front().owner;
  size_t kept = 0;
  for (auto it = calls_.begin(); it != calls_.end();)
    it = it->owner == owner && ++kept > kKeptCalls ? calls_.erase(it) : it + 1;
}

std::vector<CallRecord> Servers::recent_calls(const std::string& owner) const {
  std::lock_guard lock(calls_mutex_);
  std::vector<CallRecord> out;
  for (const CallRecord& call : calls_)
    if (call.owner == owner) out.push_back(call);
  return out;
}

std::vector<ServerState> Servers::states() const {
  std::vector<ServerState> out;
  for (const auto& slot : slots_) {
    std::lock_guard lock(slot->mutex);
    ServerState state;
    state.name = slot->config.name;
    state.http = slot->config.http;
    state.error = slot->error;
    const bool alive = slot->client && slot->client->alive();
    state.state = alive                 ? ServerState::State::connected
                  : slot->error.empty() ? ServerState::State::idle
                                        : ServerState::State::failed;
    if (slot->client) {
      state.title = slot->client->title();
      state.instructions = slot->client->instructions();
    }
    state.tools = slot->tools.list.value_or(Listed<Tool>{});
    state.resources = slot->resources.list.value_or(Listed<Resource>{});
    state.prompts = slot->prompts.list.value_or(Listed<PromptInfo>{});
    out.push_back(std::move(state));
  }
  return out;
}

}  // namespace anabranch::mcp
