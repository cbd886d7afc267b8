#include <CLI/CLI.hpp>
#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cli/command.h"
#include "simulator/cli/output.h"
#include "simulator/cli/trace_options.h"
#include "simulator/exporters/chakra/chakra_writer.h"

namespace foretrace {
namespace {

struct ConvertOptions {
  TraceOptions traces;
  std::string output;
  std::string prefix = "trace";
};

absl::Status RunConvert(const ConvertOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, options.traces.Load());
  ChakraWriterOptions writer;
  writer.prefix = options.prefix;
  FORETRACE_RETURN_IF_ERROR(WriteChakra(store, options.output, writer));
  return Print(fmt::format("wrote {} rank{}, {} nodes, to {}\n", store.ranks().size(),
                           store.ranks().size() == 1 ? "" : "s", store.node_count(),
                           options.output));
}

}  // namespace

void AddConvertCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "any accepted input to Chakra .et, execution trace and Kineto linked into one");
  options->traces.Register(*command, true);
  command->add_option("-o,--output", options->output, "folder to write to")
      ->required()
      ->type_name("DIR");
  command->add_option("--prefix", options->prefix, "files are PREFIX.RANK.et")
      ->capture_default_str();
  command->footer(Examples({
      "foretrace convert kineto/ et/ -o chakra/",
      "foretrace convert run1.tar.gz -o chakra/ --prefix run1",
  }));
  command->callback(
      [options, &context] { context.run = [options] { return RunConvert(*options); }; });
}

}  // namespace foretrace
