#include "simulator/planning/files/trace_files.h"

#include <utility>

namespace foretrace {

ChakraWriterOptions TraceFiles(std::string prefix, const CommandContext& context) {
  return {std::move(prefix), context.inputs, context.stop,
          [console = context.console](int64_t done, int64_t total) {
            console->Progress("ranks written", done, total);
          }};
}

}  // namespace foretrace
