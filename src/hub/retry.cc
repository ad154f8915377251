#include "hub/retry.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

#include "net/http_text.h"

namespace anabranch::hub {
namespace {

constexpr int kMostFailures = 5;
// Limits while no connection can be made.
constexpr int kMostWithoutAnswer = 3, kMostWhenPatient = 10;
constexpr double kFirstWait = 0.25, kLongestWait = 20;  // seconds; doubles each time
constexpr double kFirstWait429 = 2;                     // without a Retry-After header
constexpr double kMostAskedFor = 600;                   // the longest wait accepted from Retry-After
constexpr uint64_t kProgressBytes = 256 << 10;          // this much data resets the count of failures

}  // namespace

bool may_pass(const net::Response& response) {
  if (response.end == net::End::untrusted || response.end == net::End::not_taken) return false;
  return !response.problem.empty() || response.status == 408 || response.status == 429 ||
         response.status >= 500;
}

std::optional<double> retry_after(const net::Response& response) {
  const std::string text = response.header("retry-after");
  if (text.empty()) return std::nullopt;
  unsigned seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size()) return seconds;
  const auto date = net::parse_http_date(text);
  if (!date) return std::nullopt;
  return std::max(0.0, std::difftime(*date, std::time(nullptr)));
}

std::optional<double> Retry::wait_after(const net::Response& response, bool patient) {
  const int without_answer = patient ? kMostWhenPatient : kMostWithoutAnswer;
  if (++failures_ > (response.status == 0 ? without_answer : kMostFailures)) return std::nullopt;
  const auto asked = retry_after(response);
  if (asked && *asked > kMostAskedFor) return std::nullopt;
  if (asked) return std::max(*asked, kFirstWait);
  const double first = response.status == 429 ? kFirstWait429 : kFirstWait;
  return std::min(std::ldexp(first, failures_ - 1), kLongestWait);
}

void Retry::progress(uint64_t bytes) {
  came_ += bytes;
  if (came_ < kProgressBytes) return;
  came_ = 0;
  failures_ = 0;
}

bool Pace::keeps_up(uint64_t bytes, double now) {
  if (began_ == 0) {
    began_ = now;
    bytes_ = bytes;
  }
  if (now - began_ < interval_) return true;
  const bool enough = static_cast<double>(bytes - bytes_) >= kLeastRate * (now - began_);
  began_ = now;
  bytes_ = bytes;
  return enough;
}

}  // namespace anabranch::hub
