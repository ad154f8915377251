#include "jinja/text.h"

#include <string.h>  // memmem

#include <algorithm>

namespace anabranch::jinja {

std::vector<Text::Run>::const_iterator Text::run_at(size_t at) const {
  return std::upper_bound(runs_.begin(), runs_.end(), at,
                          [](size_t v, const Run& run) { return v < run.end; });
}

bool Text::trusted_at(size_t at) const {
  auto run = run_at(at);
  return run != runs_.end() && run->trusted;
}

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().trusted == trusted)
    runs_.back().end = bytes_.size();
  else
    runs_.push_back({bytes_.size(), trusted});
}

void Text::append_slice(const Text& other, size_t begin, size_t end) {
  for (auto run = other.run_at(begin); begin < end; ++run) {
    size_t stop = std::min(end, run->end);
    append(std::string_view(other.bytes_).substr(begin, stop - begin), run->trusted);
    begin = stop;
  }
}

Text Text::slice(size_t begin, size_t end) const {
  Text out;
  out.append_slice(*this, begin, end);
  return out;
}

size_t find_bytes(std::string_view hay, std::string_view needle, size_t from) {
  if (from > hay.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(hay.data() + from, hay.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - hay.data());
}

}  // namespace anabranch::jinja
