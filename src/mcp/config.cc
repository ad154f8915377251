#include "mcp/config.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/json.h"

namespace anabranch::mcp {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxServers = 64, kMaxNameBytes = 64;
// Clients disagree about the unit of "timeout": milliseconds from this number on, seconds below it.
constexpr double kFirstMilliseconds = 1000;
constexpr double kMaxTimeoutSeconds = 86400;

// Reads one server's object. `error` keeps the first error; after it all values read as empty.
class Reader {
 public:
  Reader(const Json& object, std::string where, const Variables& variables)
      : object_(object), where_(std::move(where)), variables_(variables) {}

  std::optional<Error> error;

  std::string text(const char* key) {
    const Json* value = find(key);
    return value ? as_text(*value, key) : std::string();
  }

  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> out;
    const Json* value = find(key);
    if (value && !value->is_array()) fail("'{}' must be an array of strings", key);
    if (value && value->is_array())
      for (const Json& element : *value) out.push_back(as_text(element, key));
    return out;
  }

  std::map<std::string, std::string> map(const char* key) {
    std::map<std::string, std::string> out;
    const Json* value = find(key);
    if (value && !value->is_object()) fail("'{}' must be an object of strings", key);
    if (value && value->is_object())
      for (const auto& [name, element] : value->items()) out[name] = as_text(element, key);
    return out;
  }

  bool flag(const char* key) {
    const Json* value = find(key);
    if (value && !value->is_boolean()) fail("'{}' must be true or false", key);
    return value && value->is_boolean() && value->get<bool>();
  }

  double seconds(const char* key) {
    const Json* value = find(key);
    if (!value) return 0;
    const double number = value->is_number() ? value->get<double>() : -1;
    const double seconds = number >= kFirstMilliseconds ? number / 1000 : number;
    if (!(number > 0) || seconds > kMaxTimeoutSeconds) {
      fail("'{}' must be a number of milliseconds (below {}: of seconds), at most a day", key,
           static_cast<int>(kFirstMilliseconds));
      return 0;
    }
    return seconds;
  }

  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (error) return;
    error =
        make_error(ErrorKind::invalid, "{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const Json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  std::string as_text(const Json& value, const char* key) {
    if (!value.is_string()) {
      fail("'{}' must hold strings", key);
      return {};
    }
    return expanded(value.get<std::string>(), key);
  }

  // Replaces ${VAR} and ${VAR:-default}; other dollar signs stay.
  std::string expanded(const std::string& text, const char* key) {
    std::string out;
    size_t at = 0;
    for (;;) {
      const size_t open = text.find("${", at);
      const size_t close = open == text.npos ? text.npos : text.find('}', open);
      out += text.substr(at, close == text.npos ? text.npos : open - at);
      if (close == text.npos) break;
      out += variable(text.substr(open + 2, close - open - 2), key);
      at = close + 1;
    }
    if (out.find('\0') != out.npos) fail("'{}' holds a zero byte", key);
    return out;
  }

  std::string variable(const std::string& inside, const char* key) {
    const size_t mark = inside.find(":-");
    const std::string name = inside.substr(0, mark);
    const auto value = variables_(name);
    if (mark != inside.npos) return value && !value->empty() ? *value : inside.substr(mark + 2);
    if (!value)
      fail("'{}' needs the variable {}, which is not set: set it, or write ${{{}:-DEFAULT}}", key, name,
           name);
    return value.value_or("");
  }

  const Json& object_;
  const std::string where_;
  const Variables& variables_;
};

bool is_web_address(const std::string& url) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (url.starts_with(scheme))
      return url.size() > scheme.size() && url.find_first_of(" \t\r\n") == url.npos;
  return false;
}

void check_names(Reader& reader, const ServerConfig& server) {
  for (const auto& [name, value] : server.env)
    if (name.empty() || name.find('=') != name.npos || name.find('\0') != name.npos)
      reader.fail("'env' has a variable '{}', which is no name", name);
  for (const auto& [name, value] : server.headers) {
    const bool good = name.find_first_not_of(
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                          "0123456789!#$%&'*+-.^_`|~") == name.npos;
    if (name.empty() || !good) reader.fail("'headers' has '{}', which is no name of a header", name);
    if (value.find_first_of("\r\n") != value.npos)
      reader.fail("the header '{}' has more than one line", name);
  }
}

Result<ServerConfig> read_server(const std::string& name, const Json& object, const std::string& where,
                                 const Variables& variables) {
  Reader reader(object, where, variables);
  ServerConfig server;
  server.name = name;
  std::string type = reader.text("type");
  server.command = reader.text("command");
  server.args = reader.texts("args");
  server.env = reader.map("env");
  server.cwd = reader.text("cwd");
  server.url = reader.text("url");
  server.headers = reader.map("headers");
  server.call_timeout_s = reader.seconds("timeout");
  if (reader.error) return *reader.error;
  if (type == "sse")
    return make_error(
        ErrorKind::unsupported,
        "{}: type \"sse\" is MCP's old transport, which Anabranch does not speak. Most such servers "
        "also offer streamable HTTP: give that address with type \"http\"",
        where);
  if (type.empty()) type = server.command.empty() ? "http" : "stdio";
  server.http = type == "http" || type == "streamable-http" || type == "streamableHttp";
  if (!server.http && type != "stdio")
    reader.fail("type \"{}\" is unknown: it is \"stdio\" or \"http\"", type);
  if (server.http && !is_web_address(server.url))
    reader.fail("needs a 'command' to start, or a 'url' such as http://127.0.0.1:8000/mcp");
  if (!server.http && server.command.empty()) reader.fail("needs a 'command' to start");
  check_names(reader, server);
  if (reader.error) return *reader.error;
  return server;
}

}  // namespace

Result<std::vector<ServerConfig>> parse_config(std::string_view text, const std::string& where,
                                               const Variables& variables) {
  const auto json = parse_json(text, {.bytes = kMaxFileBytes, .depth = 32});
  if (!json) return make_error(json.error().kind, "{}: {}", where, json.error().message);
  const auto servers = json->is_object() ? json->find("mcpServers") : json->end();
  if (servers == json->end() || !servers->is_object())
    return make_error(ErrorKind::invalid,
                      "{}: it must have an object \"mcpServers\", such as {{\"mcpServers\": {{\"time\": "
                      "{{\"command\": \"mcp-server-time\"}}}}}}",
                      where);
  if (servers->size() > kMaxServers)
    return make_error(ErrorKind::exhausted, "{}: more than {} servers", where, kMaxServers);
  std::vector<ServerConfig> out;
  for (const auto& [name, object] : servers->items()) {
    const std::string place = fmt::format("{}: server '{}'", where, name);
    if (name.empty() || name.size() > kMaxNameBytes ||
        std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      return make_error(ErrorKind::invalid, "{}: a name has 1 to {} printable characters", place,
                        kMaxNameBytes);
    if (!object.is_object()) return make_error(ErrorKind::invalid, "{}: it must be an object", place);
    Reader flags(object, place, variables);
    const bool disabled = flags.flag("disabled");
    if (flags.error) return *flags.error;
    if (disabled) continue;
    TRY(ServerConfig server, read_server(name, object, place, variables));
    out.push_back(std::move(server));
  }
  return out;
}

Result<std::vector<ServerConfig>> read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return make_error(ErrorKind::not_found, "--mcp-config '{}': there is no such file that can be read",
                      path);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return make_error(ErrorKind::io, "--mcp-config '{}': it cannot be read", path);
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_config(text, path, [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
}

std::string origin_of(const ServerConfig& server) {
  return dump_json(Json::array(
      {server.http, server.command, server.args, server.env, server.cwd, server.url, server.headers}));
}

}  // namespace anabranch::mcp
