#include <memory>
#include <string>

#include "simulator/base/error.h"
#include "simulator/console/command.h"
#include "simulator/console/glossary.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"

namespace foretrace {
namespace {

struct HelpOptions {
  std::string topic;
  bool markdown = false;
};

absl::Status RunHelp(const HelpOptions& options, const CommandContext& context) {
  if (options.topic == "terms") {
    return context.console->Print(options.markdown ? GlossaryMarkdown()
                                                   : GlossaryText(context.console->style().width));
  }
  const std::string text = context.help(options.topic);
  if (!text.empty()) return context.console->Print(text);
  return InvalidInput("help: \"{}\" is neither a command nor \"terms\"", options.topic);
}

}  // namespace

void AddHelpCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<HelpOptions>();
  CLI::App* command =
      app.add_subcommand("help", "help on a command, or what the words of reports mean (terms)");
  command->add_option("topic", options->topic, "a command, or terms");
  command->add_flag("--markdown", options->markdown, "with terms: as docs/glossary.md");
  command->callback([options, &context] {
    context.run = [options, &context] { return RunHelp(*options, context); };
  });
}

}  // namespace foretrace
