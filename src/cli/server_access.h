// Helpers for clients of a server in the terminal: the key, and whether to skip checking the server's
// certificate.
#pragma once

#include <string>

#include "base/result.h"

namespace anabranch::cli {

// The first key of the file, else $ANABRANCH_API_KEY, else "". Errors: those of read_key_file().
Result<std::string> key_to_show(const std::string& api_key_file);

// Whether the address is one of this machine's own ("http://127.0.0.1:8080/v1"). Requests to it do not use
// the network, so they go through no proxy, and the certificate is not checked.
bool is_this_machine(const std::string& url);

}  // namespace anabranch::cli
