#include "mcp/stdio_server.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "mcp/line_reader.h"
#include "mcp/message.h"
#include "mcp/text.h"
#include "mcp/versions.h"

namespace anabranch::mcp {
namespace {

constexpr size_t kThreads = 4;      // calls that run at the same time
constexpr size_t kMaxWaiting = 64;  // calls that wait
constexpr double kProgressSeconds = 0.25;

class StdioServer {
 public:
  StdioServer(const std::string& name, const std::string& version, const std::vector<ServedTool>& tools,
              int output)
      : name_(name), version_(version), tools_(tools), output_(output) {
    for (size_t i = 0; i < kThreads; i++) threads_.emplace_back([this] { work(); });
  }

  ~StdioServer() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
      waiting_.clear();
      for (auto& [id, job] : jobs_) job->cancelled = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void take_line(std::string_view line) {
    if (line.empty()) return;
    const auto messages = parse_messages(line, limits_);
    if (!messages) return send(error_text(nullptr, kParseError, messages.error().message));
    for (const Message& message : *messages) {
      if (message.kind == Message::Kind::request) answer(message);
      if (message.kind == Message::Kind::notification) note(message);
    }
  }

  bool broken() const { return broken_; }

 private:
  struct Job {
    Json id, params;
    const ServedTool* tool = nullptr;
    std::atomic<bool> cancelled{false};
    double told = 0;  // time of the last progress message
  };

  void send(const std::string& text) {
    std::lock_guard lock(output_mutex_);
    const std::string line = text + "\n";
    for (size_t at = 0; at < line.size() && !broken_;) {
      const ssize_t put = ::write(output_, line.data() + at, line.size() - at);
      if (put > 0) at += static_cast<size_t>(put);
      if (put < 0 && errno != EINTR) broken_ = true;
    }
  }

  void answer(const Message& request) {
    const Json& id = request.id;
    if (request.method == "initialize") return send(result_text(id, greeting(request.body)));
    if (request.method == "ping") return send(result_text(id, Json::object()));
    if (request.method == "tools/list") return send(result_text(id, {{"tools", listed()}}));
    if (request.method == "tools/call") return start(request);
    send(error_text(id, kMethodNotFound, "there is no method '" + one_line(request.method, 100) + "'"));
  }

  Json greeting(const Json& params) const {
    const std::string wanted = string_at(params, "protocolVersion");
    return {{"protocolVersion", is_known_version(wanted) ? wanted : kVersions[0]},
            {"capabilities", {{"tools", {{"listChanged", false}}}}},
            {"serverInfo", {{"name", name_}, {"title", "Anabranch"}, {"version", version_}}}};
  }

  Json listed() const {
    Json out = Json::array();
    for (const ServedTool& tool : tools_)
      out.push_back({{"name", tool.name},
                     {"title", tool.title},
                     {"description", tool.description},
                     {"inputSchema", tool.input_schema},
                     {"annotations", {{"readOnlyHint", tool.read_only}}}});
    return out;
  }

  void start(const Message& request) {
    const std::string name = string_at(request.body, "name");
    const auto tool =
        std::find_if(tools_.begin(), tools_.end(), [&](const ServedTool& one) { return one.name == name; });
    if (tool == tools_.end())
      return send(error_text(request.id, kInvalidParams, "there is no tool '" + one_line(name, 100) + "'"));
    const auto arguments = request.body.find("arguments");
    if (arguments != request.body.end() && !arguments->is_object() && !arguments->is_null())
      return send(error_text(request.id, kInvalidParams, "'arguments' must be an object"));
    auto job = std::make_shared<Job>();
    job->id = request.id;
    job->params = request.body;
    job->tool = &*tool;
    std::unique_lock lock(mutex_);
    if (waiting_.size() >= kMaxWaiting || jobs_.contains(dump_json(request.id))) {
      lock.unlock();
      return send(
          error_text(request.id, kInternalError, "too many calls at a time, or an id that is in use"));
    }
    jobs_[dump_json(request.id)] = job;
    waiting_.push_back(std::move(job));
    ready_.notify_one();
  }

  void note(const Message& notification) {
    const auto id = notification.body.find("requestId");
    if (notification.method != "notifications/cancelled" || id == notification.body.end()) return;
    std::lock_guard lock(mutex_);
    if (const auto at = jobs_.find(dump_json(*id)); at != jobs_.end()) at->second->cancelled = true;
  }

  void work() {
    name_thread("mcp calls");
    for (;;) {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
      if (closing_) return;
      const std::shared_ptr<Job> job = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      if (!job->cancelled) run(*job);
      lock.lock();
      jobs_.erase(dump_json(job->id));
    }
  }

  void run(Job& job) {
    ServedCall call{job.params.value("arguments", Json::object()), job.cancelled,
                    [&](double done, const std::string& message) { tell_progress(job, done, message); }};
    if (call.arguments.is_null()) call.arguments = Json::object();
    const auto text = job.tool->run(call);
    if (job.cancelled) return;  // a cancelled request gets no answer
    Json content = {{"type", "text"}, {"text", text ? *text : text.error().message}};
    send(result_text(job.id, {{"content", Json::array({std::move(content)})}, {"isError", !text.ok()}}));
  }

  void tell_progress(Job& job, double done, const std::string& message) {
    const auto meta = job.params.find("_meta");
    const auto token = meta != job.params.end() && meta->is_object() ? meta->find("progressToken") : meta;
    if (meta == job.params.end() || !meta->is_object() || token == meta->end()) return;
    if (now_seconds() - job.told < kProgressSeconds || job.cancelled) return;
    job.told = now_seconds();
    send(notification_text("notifications/progress",
                           {{"progressToken", *token}, {"progress", done}, {"message", message}}));
  }

  const std::string name_, version_;
  const std::vector<ServedTool>& tools_;
  const int output_;
  const Limits limits_;
  std::mutex output_mutex_;
  std::atomic<bool> broken_{false};
  std::mutex mutex_;  // guards the members below
  std::condition_variable ready_;
  bool closing_ = false;
  std::deque<std::shared_ptr<Job>> waiting_;
  std::map<std::string, std::shared_ptr<Job>> jobs_;  // by id, until they have ended
  std::vector<std::thread> threads_;
};

}  // namespace

Result<void> serve_stdio(const std::string& name, const std::string& version,
                         const std::vector<ServedTool>& tools, int input, int output,
                         const std::function<bool()>& stop) {
  StdioServer server(name, version, tools, output);
  LineReader lines(Limits{}.message_bytes);
  char bytes[64 << 10];
  for (;;) {
    const ssize_t got = ::read(input, bytes, sizeof bytes);
    if (got < 0 && errno != EINTR) return make_error(ErrorKind::io, "the input: {}", std::strerror(errno));
    if (got == 0 || stop() || server.broken()) return {};
    if (got < 0) continue;
    const bool good = lines.push({bytes, static_cast<size_t>(got)}, [&](std::string_view line) {
      server.take_line(line);
      return true;
    });
    if (!good)
      return make_error(ErrorKind::exhausted, "a message is longer than {} bytes", Limits{}.message_bytes);
  }
}

}  // namespace anabranch::mcp
