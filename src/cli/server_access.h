// What a client of a server in the terminal needs: its key, and whether it may skip the server's certificate.
#pragma once

#include <string>

#include "base/result.h"

namespace anabranch::cli {

// The first key of the file, else $ANABRANCH_API_KEY, else "". Errors: those of read_key_file().
Result<std::string> key_to_show(const std::string& api_key_file);

// Whether the address is one of this machine's own ("http://127.0.0.1:8080/v1"). What is sent there meets no
// network: it goes through no proxy, and the certificate does not matter.
bool is_this_machine(const std::string& url);

}  // namespace anabranch::cli
