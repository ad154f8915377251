// `sessions`: lists, searches, shows, renames, removes, exports and imports stored conversations.
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "base/private_file.h"
#include "cli/chat_session.h"
#include "cli/confirm.h"
#include "cli/conversation.h"
#include "cli/print.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "mcp/text.h"
#include "server/api/trace_eraser.h"
#include "sessions/session_text.h"

namespace anabranch::cli {
namespace {

using Action = SessionsOptions::Action;
constexpr size_t kMaxImport = 1u << 30;  // bytes

// Text from elsewhere, made safe for a terminal.
std::string shown(const std::string& text) {
  return mcp::one_line(text, 1000);
}

Json session_json(const Session& session) {
  return {{"id", session.id},
          {"title", session.title},
          {"model", session.model},
          {"owner", session.owner},
          {"messages", session.messages},
          {"bytes", session.bytes},
          {"created_at", session.created_at},
          {"updated_at", session.updated_at}};
}

void print_list(const SessionList& list, bool json) {
  if (json) {
    Json all = Json::array();
    for (const Session& session : list.sessions) all.push_back(session_json(session));
    return say_json(all, 2);
  }
  for (const Session& session : list.sessions) {
    say("{}  {:>12}  {:>12}  {}\n", session.id, age_text(session.updated_at * 1'000'000'000),
        count_text(static_cast<uint64_t>(session.messages), "message"), shown(session.title));
    if (session.snippet.empty()) continue;
    std::string text;
    for (const SnippetPart& part : session.snippet) text += part.match ? "[" + part.text + "]" : part.text;
    say("      {}\n", shown(text));
  }
  if (list.sessions.empty()) say("there are none\n");
  if (list.more) say("... and more: --limit N lists them\n");
}

Result<void> list(SessionStore& store, const SessionsOptions& options) {
  SessionQuery query;
  query.limit = options.limit;
  query.text = options.text;
  query.unlisted = options.all;
  TRY(const SessionList found, store.list(query));
  print_list(found, options.json);
  return {};
}

// The session as text in one of the export formats.
Result<std::string> text_of(SessionStore& store, const std::string& wanted, const std::string& format) {
  TRY(const Session session, find_session(store, wanted));
  TRY(const auto messages, store.path({}, session.id));
  return format == "markdown" ? to_markdown(session, messages) : to_json_lines(session, messages);
}

Result<void> write_out(const std::string& text, const std::string& file) {
  if (file.empty()) {
    if (isatty(STDOUT_FILENO))
      say_lines(text);
    else
      say_bytes(stdout, text);
    return {};
  }
  TRY_VOID(make_private_file(file));
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return make_error(ErrorKind::io, "cannot write {}", file);
  return {};
}

Result<void> import(SessionStore& store, const SessionsOptions& options) {
  std::string text;
  if (options.file == "-") {
    TRY(text, read_standard_input(kMaxImport));
  } else {
    TRY(text, read_file(options.file, kMaxImport));
  }
  TRY(const auto sessions, from_json_lines(text));
  TRY(const auto made, store.create_all(sessions));
  for (const Session& session : made) say("{}  {}\n", session.id, shown(session.title));
  return {};
}

// Requires a name, because an empty one would mean the last session.
Result<void> check_named(const SessionsOptions& options) {
  if (!options.session.empty()) return {};
  return make_error(ErrorKind::invalid, "name the session: `anabranch sessions ls` lists them");
}

// Removes cache entries on disk that only removed conversations used. Running servers keep some in memory for
// a while.
Result<void> erase_traces(SessionStore& store) {
  auto names = store.take_released();
  TRY_VOID(store.drop_used(names));
  const std::string directory = state_directory("");
  return directory.empty() ? Result<void>() : server::erase_on_disk(directory, server::parse_traces(names));
}

Result<void> remove(SessionStore& store, const SessionsOptions& options) {
  TRY_VOID(check_named(options));
  TRY(const Session session, find_session(store, options.session));
  if (!options.yes) {
    TRY(const bool yes,
        confirmed(fmt::format("Remove '{}' ({}) for good?", shown(session.title),
                              count_text(static_cast<uint64_t>(session.messages), "message"))));
    if (!yes) return {};
  }
  TRY_VOID(store.erase({}, session.id));
  TRY_VOID(store.scrub());
  TRY_VOID(erase_traces(store));
  say("removed {}\n", session.id);
  return {};
}

Result<void> rename(SessionStore& store, const SessionsOptions& options) {
  TRY_VOID(check_named(options));
  TRY(const Session session, find_session(store, options.session));
  TRY_VOID(store.change({}, session.id, {.title = options.text}));
  return {};
}

Result<void> run(const SessionsOptions& options) {
  TRY(const std::string directory, session_directory(options.directory));
  std::error_code ignored;
  if (options.action != Action::import && !std::filesystem::exists(session_file(directory), ignored)) {
    if (options.action != Action::list)
      return make_error(ErrorKind::not_found, "no conversation was ever kept in {}", directory);
    print_list({}, options.json);
    return {};
  }
  TRY(const auto store, SessionStore::open(directory, {}));
  switch (options.action) {
    case Action::list:
      return list(*store, options);
    case Action::show:
    case Action::export_text: {
      TRY(const std::string text,
          text_of(*store, options.session, options.action == Action::show ? "markdown" : options.format));
      return write_out(text, options.file);
    }
    case Action::import:
      return import(*store, options);
    case Action::remove:
      return remove(*store, options);
    case Action::rename:
      return rename(*store, options);
  }
  return {};
}

}  // namespace

int run_sessions(const SessionsOptions& options) {
  const auto done = run(options);
  return done ? 0 : fail(done.error());
}

}  // namespace anabranch::cli
