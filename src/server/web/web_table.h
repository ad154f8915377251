// The files of the page as the build put them into the program (deps.cmake writes the table).
#pragma once

#include <span>
#include <string_view>

namespace anabranch::server {

struct EmbeddedFile {
  std::string_view path, raw, gzip;
};
std::span<const EmbeddedFile> embedded_files();

}  // namespace anabranch::server
