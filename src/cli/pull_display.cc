#include "cli/pull_display.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/json.h"
#include "cli/print.h"
#include "cli/text.h"

namespace anabranch::cli {
namespace {

constexpr double kRedraw = 0.2;   // seconds
constexpr double kRateOver = 10;  // seconds over which the shown rate is averaged
constexpr size_t kBar = 16;       // characters

std::string duration_text(double seconds) {
  const auto s = static_cast<uint64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

size_t columns_of(std::FILE* stream) {
  winsize size{};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void print_line(std::FILE* stream, const Json& json) {
  say_json(stream, json);
  std::fflush(stream);
}

}  // namespace

PullDisplay::PullDisplay(std::FILE* stream, std::string model, double every)
    : stream_(stream), model_(std::move(model)), terminal_(::isatty(::fileno(stream))), every_(every) {}

double PullDisplay::rate(double time, uint64_t done) {
  // The count goes back when a file starts again.
  if (!samples_.empty() && done < samples_.back().done) samples_.clear();
  samples_.push_back({time, done});
  while (samples_.size() > 2 && time - samples_.front().time > kRateOver) samples_.pop_front();
  const double passed = time - samples_.front().time;
  return passed < 0.5 ? 0 : static_cast<double>(done - samples_.front().done) / passed;
}

void PullDisplay::draw(const hub::PullProgress& now, double rate) {
  const double share = now.total == 0 ? 1 : static_cast<double>(now.done) / static_cast<double>(now.total);
  const auto full = std::min(kBar, static_cast<size_t>(share * kBar));
  std::string line =
      fmt::format("{} [{}{}] {:.0f} % of {}", model_, std::string(full, '#'), std::string(kBar - full, '-'),
                  std::floor(100 * share), size_text(now.total));
  if (rate > 0)
    line += fmt::format(", {}/s, {} left", size_text(static_cast<uint64_t>(rate)),
                        duration_text(static_cast<double>(now.total - now.done) / rate));
  say(stream_, "\r\033[K{}", line.substr(0, columns_of(stream_) - 1));
  std::fflush(stream_);
  drawn_ = true;
}

void PullDisplay::progress(const hub::PullProgress& now) {
  const double time = now_seconds();
  if (time < next_) return;
  next_ = time + (terminal_ ? kRedraw : every_);
  const double rate_now = rate(time, now.done);
  if (terminal_) return draw(now, rate_now);
  Json line = {{"event", "progress"}, {"model", model_}, {"done", now.done}, {"total", now.total}};
  if (rate_now > 0) {
    line["bytes_per_second"] = static_cast<uint64_t>(rate_now);
    line["seconds_left"] = static_cast<uint64_t>(static_cast<double>(now.total - now.done) / rate_now);
  }
  print_line(stream_, line);
}

void PullDisplay::note(const std::string& sentence) {
  clear();
  if (terminal_)
    say(stream_, "{}\n", sentence);
  else
    print_line(stream_, {{"event", "note"}, {"model", model_}, {"text", sentence}});
}

void PullDisplay::finish(const hub::PullReport& report) {
  clear();
  if (terminal_) {
    say(stream_, "{}: {} files, {}, {}\n", model_, report.files, size_text(report.bytes),
        report.downloaded == 0 ? "all there already" : size_text(report.downloaded) + " of them new");
    say(stream_, "{}\n", report.path);
    return;
  }
  print_line(stream_, {{"event", "done"},
                       {"model", model_},
                       {"path", report.path},
                       {"commit", report.commit},
                       {"files", report.files},
                       {"bytes", report.bytes},
                       {"downloaded", report.downloaded}});
}

void PullDisplay::clear() {
  if (drawn_) say(stream_, "\r\033[K");
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace anabranch::cli
