// Other workers of a fleet, whose kept states an engine may fetch.
#pragma once

#include <string>
#include <vector>

namespace anabranch {

struct PeerOptions {
  std::vector<std::string> urls;  // as of peer_origin(); empty: nothing is fetched
  std::string api_key;            // that they want to see; empty: none
  double timeout_s = 2;           // the most that a prompt waits for peers
};

}  // namespace anabranch
