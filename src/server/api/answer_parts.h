// Helpers that the source files of Answer share.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "server/api/answer_services.h"
#include "server/api/prepare.h"

namespace anabranch::server {

inline Error preparing_failed(const std::exception& e) {
  log_error("preparing a request failed: {}", e.what());
  return {ErrorKind::internal, "Internal error while preparing the request"};
}

// Turns exceptions into errors, because jobs of a worker must not throw.
template <class Work>
auto safely(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& e) {
    return preparing_failed(e);
  }
}

// Sums the usage of answers. first_of_prompt: the prompt was not counted yet.
Usage add_up(Usage total, const Usage& usage, bool first_of_prompt);

// Notes the answer's cache entries, so that they are deleted together with its conversation.
void note_traces(AnswerServices& services, const std::string& sender,
                 std::shared_ptr<ConversationKeeper> keeper, std::vector<std::string> traces);

}  // namespace anabranch::server
