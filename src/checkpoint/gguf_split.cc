#include "checkpoint/gguf_split.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "base/part_name.h"

namespace anabranch {

namespace {

constexpr size_t kMaxTensors = 1u << 17;  // the same limit as for one file

// A file's own metadata about the split. A model in one file is part 1 of 1.
struct Split {
  int64_t part = 1, count = 1;
  std::optional<int64_t> tensors;  // of all parts
};

std::optional<int64_t> split_number(const GgufFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

Split split_of(const GgufFile& file) {
  const int64_t count = split_number(file, "split.count").value_or(1);
  if (count <= 1) return {};
  return {split_number(file, "split.no").value_or(0) + 1, count, split_number(file, "split.tensors.count")};
}

Result<void> check_part(const FileBytes& file, const Split& split, size_t part, size_t count) {
  if (split.part == static_cast<int64_t>(part) && split.count == static_cast<int64_t>(count)) return {};
  return make_error(ErrorKind::invalid,
                    "{}: by its metadata it is part {} of {}, but part {} of {} is needed", file.path,
                    split.part, split.count, part, count);
}

Result<void> add_tensors(GgufFile part, size_t file, std::vector<GgufTensor>& tensors) {
  if (part.tensors.size() > kMaxTensors - tensors.size())
    return make_error(ErrorKind::invalid, "a split model of more than {} tensors is absurd", kMaxTensors);
  for (GgufTensor& tensor : part.tensors) tensor.file = file;
  std::ranges::move(part.tensors, std::back_inserter(tensors));
  return {};
}

Result<void> check_joined(const GgufParts& parts, const Split& split) {
  const auto& tensors = parts.joined.tensors;
  const std::string& path = parts.files.front().path;
  const size_t count = tensors.size() + parts.joined.unread.size();
  if (split.tensors && *split.tensors != static_cast<int64_t>(count))
    return make_error(ErrorKind::invalid,
                      "{}: it promises {} tensors, but its {} parts hold {}: a part is of another model",
                      path, *split.tensors, parts.files.size(), count);
  const auto twice = std::ranges::adjacent_find(tensors, {}, &GgufTensor::name);
  if (twice == tensors.end()) return {};
  return make_error(ErrorKind::invalid, "tensor \"{}\" is both in {} and in {}: a part is of another model",
                    shown(twice->name), parts.files[twice->file].path, parts.files[(twice + 1)->file].path);
}

}  // namespace

Result<GgufParts> join_gguf(std::vector<FileBytes> files) {
  GgufParts out{std::move(files), {}};
  std::vector<GgufTensor> tensors;
  Split first;
  for (size_t i = 0; i < out.files.size(); i++) {
    TRY(GgufFile part, parse_gguf(out.files[i].bytes, out.files[i].path));
    const Split split = split_of(part);
    TRY_VOID(check_part(out.files[i], split, i + 1, out.files.size()));
    if (i == 0) {
      first = split;
      out.joined.metadata = std::move(part.metadata);
      out.joined.texts = std::move(part.texts);
      out.joined.extent = out.files[i].extent;
    }
    std::ranges::move(part.unread, std::back_inserter(out.joined.unread));
    TRY_VOID(add_tensors(std::move(part), i, tensors));
  }
  std::ranges::stable_sort(tensors, {}, &GgufTensor::name);
  out.joined.tensors = std::move(tensors);
  TRY_VOID(check_joined(out, first));
  return out;
}

Result<GgufParts> open_gguf_parts(const std::string& path, Extent extent) {
  TRY(auto named, map_file(path, extent));
  TRY(const GgufFile parsed, parse_gguf(named.bytes, path));
  const Split split = split_of(parsed);
  if (split.count == 1) return join_gguf({std::move(named)});
  const auto name = parse_part_name(path);
  const std::vector<std::string> paths = paths_of_parts(path);
  if (!name || name->part != split.part || split.count != static_cast<int64_t>(paths.size()))
    return make_error(
        ErrorKind::invalid,
        "{}: it is part {} of {} of a split model; its name must end in -{:05}-of-{:05}.gguf, the "
        "other parts must lie beside it, and at most {} are read",
        path, split.part, split.count, split.part, split.count, kMostParts);
  std::vector<FileBytes> files;
  for (const std::string& other : paths) {
    std::error_code code;
    if (!std::filesystem::exists(other, code))
      return make_error(ErrorKind::not_found,
                        "{}: part {} of {} is missing: there is no {}. Is the download complete?", path,
                        files.size() + 1, paths.size(), other);
    TRY(auto file, map_file(other, extent));
    files.push_back(std::move(file));
  }
  return join_gguf(std::move(files));
}

}  // namespace anabranch
