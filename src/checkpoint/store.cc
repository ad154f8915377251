#include "checkpoint/store.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "checkpoint/dense.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/model_name.h"
#include "tensor/device.h"

namespace anabranch {

namespace {

constexpr size_t kMaxSideFile = 256u << 20;

class Store : public Checkpoint {
 public:
  explicit Store(StoreParts parts) : parts_(std::move(parts)), state_(parts_.entries.size(), State::open) {}

  const Json& config() const override { return parts_.config; }
  const Json& gguf_metadata() const override { return parts_.gguf_metadata; }
  const GgufTexts& gguf_texts() const override { return parts_.gguf_texts; }
  std::string path() const override { return parts_.path; }

  std::string name() const override { return model_name_of(parts_.path); }

  std::vector<TensorInfo> tensors() const override {
    std::vector<TensorInfo> out;
    out.reserve(parts_.entries.size());
    for (const Entry& entry : parts_.entries) out.push_back(entry.info);
    return out;
  }

  size_t left_out() const override { return parts_.left_out; }

  void set_vision(std::unique_ptr<Checkpoint> vision) { vision_ = std::move(vision); }
  Checkpoint* vision() const override { return vision_.get(); }

  void release_pages() const override {
    for (const auto& map : parts_.maps) map->release_pages();
  }

  bool has(std::string_view name) const override { return index_of(name).has_value(); }

  std::optional<TensorInfo> find(std::string_view name) const override {
    const auto at = index_of(name);
    return at ? std::optional(parts_.entries[*at].info) : std::nullopt;
  }

  Result<Tensor> take(std::string_view name, const std::vector<int64_t>& shape) override {
    TRY(const Entry* entry, claim(name, shape));
    std::vector<int> dims(shape.begin(), shape.end());
    if (dims.size() > Shape::kMaxDims)
      dims = {static_cast<int>(entry->source.rows), static_cast<int>(entry->source.cols)};
    Tensor out = host_device().empty(Shape(dims), Dtype::f32);
    if (out.size() > 0) read_values(entry->source, 0, entry->source.rows, out.data<float>());
    return out;
  }

  Result<WeightSource> take_matrix(std::string_view name, int64_t rows, int64_t cols) override {
    TRY(const Entry* entry, claim(name, {rows, cols}));
    return named_source(*entry);
  }

  Result<WeightSource> take_matrices(std::string_view name, int64_t count, int64_t rows,
                                     int64_t cols) override {
    TRY(const Entry* entry, claim(name, {count, rows, cols}));
    return named_source(*entry);
  }

  void reopen(std::string_view prefix) override {
    for (size_t i = 0; i < parts_.entries.size(); i++)
      if (parts_.entries[i].info.name.starts_with(prefix) && state_[i] == State::taken)
        state_[i] = State::open;
  }

  int ignore(std::string_view prefix) override {
    int count = 0;
    for (size_t i = 0; i < state_.size(); i++) {
      if (!parts_.entries[i].info.name.starts_with(prefix)) continue;
      count++;
      if (state_[i] == State::open) state_[i] = State::ignored;
    }
    return count;
  }

  Result<void> check_types(std::span<const std::string> aside) const override {
    for (const Entry& entry : parts_.entries) {
      const auto begins = [&](const std::string& prefix) { return entry.info.name.starts_with(prefix); };
      if (entry.unreadable && std::ranges::none_of(aside, begins)) return *entry.unreadable;
    }
    return {};
  }

  Result<void> finish() const override {
    constexpr int kNamed = 8;
    std::string names;
    int count = 0;
    for (size_t i = 0; i < state_.size(); i++) {
      const auto& shape = parts_.entries[i].info.shape;
      const bool empty = std::ranges::find(shape, 0) != shape.end();  // of shared experts of no width
      if (state_[i] != State::open || is_optional(parts_.entries[i]) || empty) continue;
      if (count++ < kNamed) names += (count > 1 ? ", " : "") + shown(parts_.entries[i].info.name);
    }
    if (count == 0) return {};
    return make_error(ErrorKind::invalid, "{}: {} tensor{} that the model does not use: {}{}", parts_.path,
                      count, count == 1 ? "" : "s", names, count > kNamed ? ", ..." : "");
  }

  std::optional<std::string> side_file(std::string_view name) const override {
    const bool below = name.find('/') != std::string_view::npos && name != kPoolingFile;
    if (parts_.side_directory.empty() || below) return std::nullopt;
    auto text = read_file((std::filesystem::path(parts_.side_directory) / name).string(), kMaxSideFile);
    if (text.ok()) return std::move(text).value();
    if (text.error().kind != ErrorKind::not_found) log_warning("{}", text.error().message);
    return std::nullopt;
  }

 private:
  enum class State : uint8_t { open, taken, ignored };

  static bool is_optional(const Entry& entry) {
    if (!entry.zeros_optional || entry.unreadable) return false;
    std::vector<float> values(static_cast<size_t>(entry.source.rows * entry.source.cols));
    read_values(entry.source, 0, entry.source.rows, values.data());
    return std::ranges::all_of(values, [](float v) { return v == 0; });
  }

  static WeightSource named_source(const Entry& entry) {
    WeightSource out = entry.source;
    out.name = entry.info.name;
    return out;
  }

  std::optional<size_t> index_of(std::string_view name) const {
    const auto& entries = parts_.entries;
    const auto at = std::lower_bound(entries.begin(), entries.end(), name,
                                     [](const Entry& e, std::string_view n) { return e.info.name < n; });
    if (at == entries.end() || at->info.name != name) return std::nullopt;
    return static_cast<size_t>(at - entries.begin());
  }

  // The entry, marked as taken.
  Result<const Entry*> claim(std::string_view name, const std::vector<int64_t>& shape) {
    const auto at = index_of(name);
    if (!at)
      return make_error(ErrorKind::not_found, "{}: tensor \"{}\" is missing", parts_.path, shown(name));
    const Entry& entry = parts_.entries[*at];
    const auto fail = [&](const std::string& why) {
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\" {}", entry.info.file, shown(name), why);
    };
    if (entry.unreadable) return *entry.unreadable;
    if (entry.info.shape != shape)
      return fail("has shape " + shape_text(entry.info.shape) + "; the model needs " + shape_text(shape));
    if (state_[*at] == State::taken) return fail("was taken twice");
    state_[*at] = State::taken;
    return &entry;
  }

  StoreParts parts_;  // entries sorted by name
  std::unique_ptr<Checkpoint> vision_;
  std::vector<State> state_;
};

}  // namespace

std::pair<int64_t, int64_t> rows_and_cols(const std::vector<int64_t>& shape) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); i++) rows *= shape[i];
  return {rows, shape.empty() ? 1 : shape.back()};
}

Result<std::unique_ptr<Checkpoint>> make_store(StoreParts parts) {
  auto& entries = parts.entries;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.info.name < b.info.name; });
  for (size_t i = 1; i < entries.size(); i++) {
    const TensorInfo &a = entries[i - 1].info, &b = entries[i].info;
    if (a.name != b.name) continue;
    if (a.file == b.file)
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\" is there twice", a.file, shown(a.name));
    return make_error(
        ErrorKind::invalid,
        "tensor \"{}\" is both in {} and in {}: remove the file that does not belong to the model",
        shown(a.name), a.file, b.file);
  }
  const std::shared_ptr<StoreParts> vision = std::move(parts.vision);
  auto store = std::make_unique<Store>(std::move(parts));
  if (vision && !vision->entries.empty()) {
    TRY(auto tower, make_store(std::move(*vision)));
    store->set_vision(std::move(tower));
  }
  return std::unique_ptr<Checkpoint>(std::move(store));
}

}  // namespace anabranch
