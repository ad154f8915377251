// Where a server keeps files, and from where its clients may have some read.
#pragma once

#include <string>
#include <vector>

namespace anabranch::server {

struct Directories {
  std::string cache;  // for cached states and sampled turns (turns.db); empty: nothing on disk
  std::string slots;  // for the files of slots (slots.h), made if missing; empty: none are kept
  std::vector<std::string> adapters;  // from which clients may load adapters; none: they may not
};

}  // namespace anabranch::server
