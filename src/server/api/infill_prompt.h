// Prompts for filling in the middle of a text.
#pragma once

#include <string>
#include <vector>

#include "server/api/request_encoder.h"

namespace anabranch::server {

struct FileText {
  std::string name, text;
};
// A prompt made of the prefix and the suffix of a gap, which the model continues with the missing text.
// extra: names and texts of other files. Error: 400 if the tokenizer lacks the tokens for it.
ApiResult<std::vector<int>> infill_prompt(const std::string& prefix, const std::string& suffix,
                                          const std::vector<FileText>& extra, RequestEncoder& texts);

}  // namespace anabranch::server
