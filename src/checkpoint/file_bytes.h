// A file's bytes and what keeps them alive: lets the parsers run on mapped files and on memory alike.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/mapped_file.h"
#include "base/outside_text.h"
#include "base/result.h"

namespace anabranch {

// How much of a file is looked at. `headers`: of weights only the headers, because there are zeros after them
// (a model that is not downloaded yet) or because the values are not needed: these are then not judged, and
// nothing may be loaded. `some_headers`: files that an index names may be missing as well.
enum class Extent { whole, headers, some_headers };

struct FileBytes {
  std::string path;  // for messages
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;
  std::shared_ptr<const MappedFile> map = nullptr;  // null: bytes in memory
  Extent extent = Extent::whole;
};

Result<FileBytes> map_file(const std::string& path, Extent extent = Extent::whole);

// "[4, 3]"
std::string shape_text(std::span<const int64_t> shape);

}  // namespace anabranch
