#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/console/command.h"
#include "simulator/console/glossary.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"

namespace foretrace {
namespace {

struct HelpOptions {
  std::vector<std::string> words;  // a command, with its own ("calibrate kernel")
  bool markdown = false;
};

absl::Status RunHelp(const HelpOptions& options, const CommandContext& context) {
  const std::string topic = fmt::format("{}", fmt::join(options.words, " "));
  if (topic == "terms") {
    return context.console->Print(options.markdown ? GlossaryMarkdown()
                                                   : GlossaryText(context.console->style().width));
  }
  if (options.markdown) return InvalidInput("--markdown goes with `foretrace help terms` alone");
  const std::string text = context.help(topic);
  if (!text.empty()) return context.console->Print(text);
  return InvalidInput(
      "help: \"{}\" is neither a command nor \"terms\"; `foretrace --help` lists commands", topic);
}

}  // namespace

void AddHelpCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<HelpOptions>();
  CLI::App* command =
      app.add_subcommand("help", "help on a command, or what the words of reports mean (terms)");
  command->add_option("topic", options->words, "a command, or terms");
  command->add_flag("--markdown", options->markdown, "with terms: as docs/glossary.md");
  command->callback([options, &context] {
    context.run = [options, &context] { return RunHelp(*options, context); };
  });
}

}  // namespace foretrace
