#include "cli/session_flags.h"

#include "cli/flag_groups.h"
#include "cli/flags.h"
#include "sessions/session_store.h"

namespace anabranch::cli {

void add_server_session_flags(CLI::App& app, ServeOptions& o) {
  const Group group(app, "Sessions");
  app.add_option("--sessions", o.sessions.directory,
                 "Keep conversations and stored responses in this directory; off: keep none (default: "
                 "conversations for which a client asks it, in ~/.local/share/anabranch/sessions)");
  app.add_option("--sessions-days", o.sessions.days,
                 "Remove conversations that were not changed for so many days (default: never)")
      ->check(number_in(0.0, 1e6));
  app.add_option("--sessions-size", o.sessions.bytes,
                 "Remove a key's sessions that were changed longest ago beyond this size of text, such as "
                 "1GB (default: no "
                 "limit)")
      ->transform(size_flag());
}

void add_chat_session_flags(CLI::App& app, ChatOptions& o) {
  const Group group(app, "Sessions");
  const auto* sessions = app.add_option("--sessions", o.sessions.directory,
                                        "Keep the conversation in this directory (without DIR: "
                                        "~/.local/share/anabranch/sessions)")
                             ->type_name("[DIR]")
                             ->expected(0, 1);
  auto* resume =
      app.add_option("--resume", o.sessions.resume,
                     "Go on with a kept conversation: its id, the beginning of it, or a part of the "
                     "title (without it: the last one)")
          ->type_name("[SESSION]")
          ->expected(0, 1)
          ->excludes(app.get_option("--system"));
  app.parse_complete_callback([&o, sessions, resume] {
    o.keep = sessions->count() + resume->count() > 0;
    if (resume->count() > 0 && !o.sessions.resume) o.sessions.resume = "";
  });
}

void add_mcp_session_flag(CLI::App& app, ChatOptions& o) {
  const auto* sessions =
      app.add_option("--sessions", o.sessions.directory,
                     "Also offer the conversations that are kept in this directory (without DIR: "
                     "~/.local/share/anabranch/sessions)")
          ->type_name("[DIR]")
          ->expected(0, 1);
  app.parse_complete_callback([&o, sessions] { o.keep = sessions->count() > 0; });
}

CLI::App* add_sessions(CLI::App& app, SessionsOptions& o) {
  auto* command =
      app.add_subcommand("sessions", "List, search, show, remove, export and import conversations");
  command->require_subcommand(1);
  using Action = SessionsOptions::Action;
  const auto add = [&](const char* name, const char* help, Action action) {
    auto* sub = command->add_subcommand(name, help);
    sub->callback([&o, action] { o.action = action; });
    sub->add_option("--sessions", o.directory, "Where they are (default: ~/.local/share/anabranch/sessions)");
    return sub;
  };
  const auto add_session = [&](CLI::App* sub) {
    sub->add_option("session", o.session,
                    "Its id, the beginning of it, or a part of the title (default: the last one)");
  };
  auto* ls = add("ls", "List them, the last changed first", Action::list);
  ls->add_option("words", o.text, "Only those with these words, or this in their title");
  ls->add_option("--limit", o.limit, "So many at most (default: 50)")
      ->check(CLI::Range(1, SessionStore::kMaxListed));
  ls->add_flag("--all", o.all, "Also those that came about by stored responses");
  ls->add_flag("--json", o.json, "Print JSON");
  add_session(add("show", "Print one as Markdown", Action::show));
  auto* text = add("export", "Write one as text", Action::export_text);
  add_session(text);
  text->add_option("--format", o.format, "jsonl (the default), which import reads, or markdown")
      ->check(CLI::IsMember({"jsonl", "markdown"}));
  text->add_option("-o,--output", o.file, "File to write (default: standard output)");
  add("import", "Make sessions of what export wrote", Action::import)
      ->add_option("file", o.file, "A file; - for standard input")
      ->required();
  auto* rename = add("rename", "Give one another title", Action::rename);
  rename->add_option("session", o.session, "Its id, the beginning of it, or a part of the title")->required();
  rename->add_option("title", o.text, "The title")->required();
  auto* rm = add("rm", "Remove one for good", Action::remove);
  rm->add_option("session", o.session, "Its id, the beginning of it, or a part of the title")->required();
  rm->add_flag("-y,--yes", o.yes, "Do not ask");
  return command;
}

}  // namespace anabranch::cli
