// `pull`: a model from the hub into the store.
#include <cstdio>

#include "cli/conversation.h"
#include "cli/preflight.h"
#include "cli/pull_display.h"
#include "hub/address.h"

namespace anabranch::cli {
namespace {

Result<int> pull_model(const PullOptions& options) {
  auto name = hub::parse_model_name(options.name);
  if (!name)
    return make_error(ErrorKind::invalid, "'{}' is no model's name: {}", options.name,
                      hub::advice_on(options.name));
  if (!options.revision.empty()) {
    const auto with_revision = hub::parse_model_name(name->repo + "@" + options.revision);
    if (!with_revision || name->revision != "main")
      return make_error(ErrorKind::invalid,
                        "--revision '{}': give one branch, tag or commit, either there or behind @",
                        options.revision);
    name->revision = with_revision->revision;
  }
  TRY(const auto settings, hub::settings_from_environment());
  PullDisplay display(stdout, name->text(), 1.0);
  const auto& interrupt = catch_interrupts();
  const hub::Watcher watcher{[&](const std::string& sentence) { display.note(sentence); },
                             [&] { return interrupt.load(); }};
  const auto report = hub::pull(
      settings, *name, hub::Purpose::model, watcher,
      [&](const hub::PullProgress& now) { display.progress(now); }, options.anyway ? nullptr : &inspector());
  if (report) {
    display.finish(*report);
    return 0;
  }
  display.clear();
  fail(report.error());
  return interrupt ? 130 : 1;
}

}  // namespace

int run_pull(const PullOptions& options) {
  const auto result = pull_model(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
