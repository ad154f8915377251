// Other workers of a fleet, from which an engine may fetch cached states.
#pragma once

#include <string>
#include <vector>

namespace anabranch {

struct PeerOptions {
  std::vector<std::string> urls;  // see peer_origin(); empty: nothing is fetched
  std::string api_key;            // sent to the peers; empty: none
  double timeout_s = 2;           // the longest that a prompt waits for peers
};

}  // namespace anabranch
