#include "hub/download.h"

#include <algorithm>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <set>

#include "base/clock.h"
#include "hub/blob_file.h"
#include "hub/retry.h"
#include "net/http_text.h"

namespace anabranch::hub {
namespace {

constexpr uint64_t kRangeBytes = 16u << 20;  // requested at once
constexpr size_t kRequests = 8;              // parallel requests
constexpr size_t kRanges = 12;               // parallel ranges: those that run, and those held in memory
constexpr size_t kOpenFiles = 4;
constexpr int kMostRedirects = 8;
constexpr int kPatience = 4;  // a download may be slow for this multiple of Settings::stall_seconds

// A range of a file. Ranges arrive in parallel but are written in order: bytes of the first range at once,
// those of later ranges when it is their turn.
struct Range {
  uint64_t from = 0, to = 0;  // to: exclusive
  std::string held;           // bytes from `from` on that wait to be written
  std::string url;            // of the running request
  bool running = false;
  bool wrong_part = false;  // the answer was not the requested part
  int redirects = 0;
  double not_before = 0;  // earliest time of the next attempt
  Retry retry;
  bool all_came() const { return from + held.size() == to; }
};

struct File {
  RepoFile info;
  std::string hub_url, url;  // the hub's address, and where it redirected
  BlobFile blob;
  std::list<Range> ranges{};  // requested and not fully written yet, in order
  uint64_t next = 0;          // where the next range begins
  bool answers = false;       // bytes have arrived, so further ranges may be requested
  bool whole = false;         // the server does not support ranges
  bool restarted = false;     // downloads again after a wrong hash
};

// Whether an answer contains the file's bytes from `at` on.
bool is_wanted_part(const File& file, const Range& range, uint64_t at, const net::Response& head) {
  if (head.status == 200) return at == 0 && range.to == file.info.size;
  const std::string text = head.header("content-range");
  return text.starts_with(fmt::format("bytes {}-", at)) &&
         (text.ends_with(fmt::format("/{}", file.info.size)) || text.ends_with("/*"));
}

Error wrong_bytes(const File& file, const Range& range, int status) {
  return make_error(
      ErrorKind::invalid,
      "{} sends other bytes of {} than were asked for (HTTP {}, {} bytes expected in all): check "
      "HF_ENDPOINT and the network",
      net::origin_of(range.url), file.info.path, status, file.info.size);
}

class Downloader {
 public:
  Downloader(const Settings& settings, Api& api, const Store& store, const DownloadPlan& plan,
             const Watcher& watcher)
      : api_(api),
        store_(store),
        plan_(plan),
        watcher_(watcher),
        settings_(settings),
        pace_(kPatience * settings.stall_seconds) {
    std::set<std::string> seen;
    for (const RepoFile& file : plan.files) {
      if (!seen.insert(file.oid).second) continue;
      if (store.has_blob(plan.name.repo, file))
        finished_bytes_ += file.size;
      else
        waiting_.push_back(file);
    }
    std::ranges::stable_sort(waiting_, {}, &RepoFile::size);
  }

  Result<void> run(const std::function<void(uint64_t)>& progress) {
    while (!waiting_.empty() || !files_.empty()) {
      if (watcher_.cancelled()) return interrupted();
      TRY_VOID(open_files());
      start_requests();
      if (http_.running() == 0) pace_.pause();  // the hub asked to wait, or another process downloads
      http_.run(100);
      if (error_) return *error_;
      if (!pace_.keeps_up(received_, now_seconds())) return too_slow();
      progress(done());
    }
    return {};
  }

 private:
  Error too_slow() const {
    return make_error(
        ErrorKind::io,
        "less than {} bytes a second came of {} for {} s: given up, and what came is kept. Try again "
        "later, or name a mirror with HF_ENDPOINT",
        Pace::kLeastRate, plan_.name.text(), kPatience * settings_.stall_seconds);
  }

  uint64_t done() const {
    uint64_t bytes = finished_bytes_;
    for (const auto& file : files_) {
      bytes += file->blob.size();
      for (const Range& range : file->ranges) bytes += range.held.size();
    }
    return bytes;
  }

  // Opens waiting files. A file that another process downloads goes to the end of the queue.
  Result<void> open_files() {
    for (size_t tries = waiting_.size(); tries > 0 && files_.size() < kOpenFiles; tries--) {
      const RepoFile info = waiting_.front();
      waiting_.pop_front();
      TRY(auto blob, BlobFile::open(store_, plan_.name.repo, info));
      if (!blob) {
        if (noted_.insert(info.oid).second)
          watcher_.note(fmt::format("another process downloads {}: waiting for it", info.path));
        waiting_.push_back(info);
        continue;
      }
      const std::string url = api_.file_url(plan_.name.repo, plan_.commit, info.path);
      auto file = std::make_unique<File>(File{info, url, url, std::move(*blob)});
      file->next = file->blob.size();
      if (file->blob.is_done() || file->next == info.size) TRY_VOID(complete(*file));
      if (!file->blob.is_done()) files_.push_back(std::move(file));
    }
    return {};
  }

  size_t ranges() const {
    size_t count = 0;
    for (const auto& file : files_) count += file->ranges.size();
    return count;
  }

  // Starts requests for each file in turn, so that files arrive in parallel.
  void start_requests() {
    const double now = now_seconds();
    if (now < not_before_) return;
    for (bool more = true; more;) {
      more = false;
      for (const auto& file : files_)
        if (http_.running() < kRequests) more |= start_one(*file, now);
    }
  }

  // Starts the next request of the file, if one may start now.
  bool start_one(File& file, double now) {
    for (Range& range : file.ranges)
      if (!range.running && !range.all_came() && range.not_before <= now) return start(file, range);
    if (file.next == file.info.size) return false;
    if (!file.ranges.empty() && (!file.answers || ranges() >= kRanges)) return false;
    const uint64_t end = file.whole ? file.info.size : std::min(file.next + kRangeBytes, file.info.size);
    file.ranges.push_back({file.next, end});
    file.next = end;
    return start(file, file.ranges.back());
  }

  bool start(File& file, Range& range) {
    const uint64_t at = range.from + range.held.size();
    HttpRequest request{.url = file.url, .token = api_.token_for(file.url)};
    if (at > 0 || range.to < file.info.size) request.range = {{at, range.to}};
    request.on_body = [this, &file, &range, at](const net::Response& head, std::string_view bytes) {
      return take(file, range, at, head, bytes);
    };
    range.running = true;
    range.wrong_part = false;
    range.url = file.url;
    http_.start(transfer_of(std::move(request), settings_),
                [this, &file, &range](const net::Response& response) {
                  range.running = false;
                  if (!error_) ended(file, range, response);
                });
    return true;
  }

  bool fail(Error error) {
    if (!error_) error_ = std::move(error);
    return false;
  }

  // Handles bytes of the answer to the request that began at `at`.
  bool take(File& file, Range& range, uint64_t at, const net::Response& head, std::string_view bytes) {
    if (error_) return false;
    if (!is_wanted_part(file, range, at, head)) {
      range.wrong_part = true;
      return false;
    }
    if (bytes.size() > range.to - range.from - range.held.size())
      return fail(wrong_bytes(file, range, head.status));
    file.answers = came_ = true;
    received_ += bytes.size();
    if (!file.whole) range.retry.progress(bytes.size());
    if (&range != &file.ranges.front()) {
      range.held.append(bytes);
      return true;
    }
    if (auto done = file.blob.append(bytes); !done) return fail(done.error());
    range.from += bytes.size();
    return true;
  }

  void ended(File& file, Range& range, const net::Response& response) {
    if (range.all_came() && response.good()) return flush(file);
    if (range.wrong_part && !file.answers && !file.whole && response.status == 200) {
      file.whole = true;
      return restart(file);
    }
    if (response.problem.empty() && !response.location.empty()) return redirect(file, range, response);
    // Redirect targets on other hosts expire.
    const bool elsewhere = net::origin_of(range.url) != net::origin_of(file.hub_url);
    const bool past_end = response.problem.empty() && response.status == 416;
    const bool expired =
        elsewhere && response.problem.empty() && response.status >= 400 && response.status < 500 && !past_end;
    const bool again = expired || range.wrong_part || response.good() || may_pass(response);
    const auto wait = again ? range.retry.wait_after(response, came_) : std::nullopt;
    if (!wait) {
      give_up(file, range, response);
      return;
    }
    if (expired) file.url = file.hub_url;
    range.redirects = 0;
    range.not_before = now_seconds() + *wait;
    if (file.whole) rewind(file, range);
    if (response.status == 429) not_before_ = std::max(not_before_, range.not_before);
    note_wait(range, response, *wait);
  }

  // Reports a wait, once for parallel requests.
  void note_wait(const Range& range, const net::Response& response, double wait) {
    constexpr double kWorthANote = 2;
    const bool asked = retry_after(response).has_value();
    if (now_seconds() < noted_until_ || (!asked && wait < kWorthANote)) return;
    noted_until_ = range.not_before;
    watcher_.note(asked ? fmt::format("the hub asks to wait {:.0f} s", wait)
                        : fmt::format("{} fails ({}): trying again in {:.0f} s", net::origin_of(range.url),
                                      response.failure(), wait));
  }

  void give_up(const File& file, const Range& range, const net::Response& response) {
    const std::string host = net::origin_of(range.url);
    if (range.wrong_part)
      fail(wrong_bytes(file, range, response.status));
    else if (response.good() || response.status == 416)
      fail(make_error(ErrorKind::io, "{} sends fewer bytes of {} than the hub tells ({}): try again later",
                      host, file.info.path, file.info.size));
    else
      fail(api_.explain(response, range.url, plan_.name, file.info.path));
  }

  void redirect(File& file, Range& range, const net::Response& response) {
    auto target = redirect_target(range.url, response);
    if (!target)
      fail(target.error());
    else if (++range.redirects > kMostRedirects)
      fail(api_.explain(response, range.url, plan_.name, file.info.path));
    else
      file.url = std::move(*target);
  }

  // Downloads the file again from the first byte, with new requests. No request of the file may be running.
  void restart(File& file) {
    if (auto emptied = file.blob.restart(); !emptied) fail(emptied.error());
    file.ranges.clear();
    file.next = 0;
    file.answers = false;
  }

  // Like restart(), for a file with a single range, whose count of failures is kept.
  void rewind(File& file, Range& range) {
    if (auto emptied = file.blob.restart(); !emptied) fail(emptied.error());
    range.from = 0;
  }

  // Writes what has arrived for the first ranges to the file.
  void flush(File& file) {
    while (!file.ranges.empty()) {
      Range& first = file.ranges.front();
      if (auto done = file.blob.append(first.held); !done) {
        fail(done.error());
        return;
      }
      first.from += first.held.size();
      first.held = {};
      if (first.from < first.to || first.running) return;
      file.ranges.pop_front();
    }
    if (file.blob.size() < file.info.size) return;
    if (auto done = complete(file); !done) fail(done.error());
    if (file.blob.is_done()) std::erase_if(files_, [&](const auto& f) { return f.get() == &file; });
  }

  // All bytes have arrived: checks the hash. A file that an earlier download began is downloaded again once.
  Result<void> complete(File& file) {
    if (!file.blob.is_done()) {
      const bool second_chance = file.blob.resumed() && !file.restarted;
      TRY(const bool right, file.blob.finish());
      if (!right && !second_chance)
        return make_error(
            ErrorKind::invalid,
            "what came for {} does not have the hash that the hub tells ({}): it was thrown away. "
            "Try again; if it happens again, the network or the mirror changes files",
            file.info.path, file.info.oid);
      if (!right) {
        watcher_.note(fmt::format("what was kept of {} was damaged: it is downloaded again", file.info.path));
        file.restarted = true;
        restart(file);
        return {};
      }
    }
    finished_bytes_ += file.info.size;
    return {};
  }

  Api& api_;
  const Store& store_;
  const DownloadPlan& plan_;
  const Watcher& watcher_;
  const Settings& settings_;
  Pace pace_;
  uint64_t received_ = 0;
  std::deque<RepoFile> waiting_;
  std::vector<std::unique_ptr<File>> files_;
  std::set<std::string> noted_;
  uint64_t finished_bytes_ = 0;
  bool came_ = false;      // any bytes have arrived
  double not_before_ = 0;  // for all requests, when the hub asks for a pause
  double noted_until_ = 0;
  std::optional<Error> error_;
  net::Transfers http_;  // destroyed first: its requests refer to the members above
};

}  // namespace

Result<void> download(const Settings& settings, Api& api, const Store& store, const DownloadPlan& plan,
                      const Watcher& watcher, const std::function<void(uint64_t)>& progress) {
  return Downloader(settings, api, store, plan, watcher).run(progress);
}

}  // namespace anabranch::hub
