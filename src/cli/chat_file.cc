#include "cli/chat_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file_descriptor.h"
#include "base/mapped_file.h"
#include "base/private_file.h"

namespace anabranch::cli {
namespace {

constexpr size_t kMostBytes = 64u << 20;
constexpr size_t kMostMessages = 100'000;

Result<void> check_message(const Json& message, size_t i) {
  const std::string role = string_at(message, "role");
  for (const char* known : {"system", "developer", "user", "assistant", "tool"}) {
    if (role != known) continue;
    const auto content = message.find("content");
    const bool good =
        content == message.end() || content->is_string() || content->is_array() || content->is_null();
    if (!good)
      return make_error(ErrorKind::invalid, "message {}: its content is neither text nor parts", i + 1);
    return {};
  }
  return make_error(ErrorKind::invalid,
                    "message {} has no role that there is (system, developer, user, assistant, tool)", i + 1);
}

}  // namespace

Result<void> save_messages(const std::string& path, const Json& messages) {
  const std::string text = dump_json({{"messages", messages}}, 1) + "\n";
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.ok() && errno == EEXIST)
    return make_error(ErrorKind::invalid, "{} is there already: give another name", path);
  if (!file.ok()) return make_error(ErrorKind::io, "cannot write {}: {}", path, std::strerror(errno));
  if (!write_all(*file, text)) {
    const int error = errno;
    ::unlink(path.c_str());
    return make_error(ErrorKind::io, "cannot write {}: {}", path, std::strerror(error));
  }
  return {};
}

Result<Json> load_messages(const std::string& path) {
  TRY(const std::string text, read_file(path, kMostBytes));
  auto json = parse_json(text, {.bytes = kMostBytes});
  if (!json) return make_error(ErrorKind::invalid, "{}: {}", path, json.error().message);
  Json messages = json->is_object() && json->contains("messages") ? (*json)["messages"] : *json;
  if (!messages.is_array() || messages.size() > kMostMessages)
    return make_error(ErrorKind::invalid, "{} holds no conversation: {{\"messages\": [...]}} is expected",
                      path);
  for (size_t i = 0; i < messages.size(); i++)
    if (auto good = check_message(messages[i], i); !good)
      return make_error(good.error().kind, "{}: {}", path, good.error().message);
  return messages;
}

}  // namespace anabranch::cli
