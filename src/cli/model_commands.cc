#include "cli/model_commands.h"

#include "cli/flags.h"

namespace anabranch::cli {

CLI::App* add_pull(CLI::App& app, PullOptions& o) {
  auto* command = app.add_subcommand("pull", "Download a model from the Hugging Face hub");
  command
      ->add_option("name", o.name,
                   "ORG/NAME, or ORG/NAME:QUANT or ORG/NAME/FILE of a GGUF repository (docs/models.md)")
      ->required();
  command->add_option("--revision", o.revision, "A branch, tag or commit (default: main)");
  command->add_flag("--anyway", o.anyway, "Download it even if this program cannot run it");
  return command;
}

CLI::App* add_ls(CLI::App& app, ListOptions& o) {
  auto* command =
      app.add_subcommand("ls", "List the models that are stored here, Ollama's and LM Studio's too");
  auto* json = command->add_flag("--json", o.json, "Print JSON");
  command->add_flag("--names", o.names, "Print names only, of models that can be used")->excludes(json);
  return command;
}

CLI::App* add_show(CLI::App& app, ShowOptions& o) {
  auto* command = app.add_subcommand(
      "show",
      "Describe a model: family, size, quantisation, context, and whether it fits; it need not be stored");
  command->add_option("model", o.model, "A path, or a name on the hub")->required();
  add_device_flag(*command, o.device);
  command->add_flag("--json", o.json, "Print JSON");
  return command;
}

CLI::App* add_rm(CLI::App& app, RemoveOptions& o) {
  auto* command = app.add_subcommand("rm", "Remove a stored model");
  command
      ->add_option("model", o.model,
                   "ORG/NAME (all its revisions), ORG/NAME@REVISION, ORG/NAME:QUANT or ORG/NAME/FILE")
      ->required();
  command->add_flag("-y,--yes", o.yes, "Do not ask");
  return command;
}

}  // namespace anabranch::cli
