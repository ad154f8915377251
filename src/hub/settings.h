// Where models come from and where they are stored: the environment variables of Hugging Face's own tools.
#pragma once

#include <string>

#include "base/result.h"

namespace anabranch::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT, without a slash at the end
  std::string token;       // HF_TOKEN, or the file that HF_TOKEN_PATH names; "": none
  std::string token_path;  // that file, whether or not it exists
  std::string cache;       // HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub
  std::string ca_file;     // SSL_CERT_FILE; "": the system's certificates
  bool offline = false;    // HF_HUB_OFFLINE
  int stall_seconds = 30;  // HF_HUB_DOWNLOAD_TIMEOUT: the longest time without a byte
};

// Errors: invalid (a variable holds nonsense, or no variable names a directory for the cache).
Result<Settings> settings_from_environment();

}  // namespace anabranch::hub
