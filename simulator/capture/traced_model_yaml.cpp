// An operator graph read off a trace, as a workload file.

#include <fmt/format.h>

#include <string>

#include "simulator/capture/traced_model.h"
#include "simulator/workload/operator_call_yaml.h"

namespace foretrace {

std::string WorkloadYaml(const TracedModel& model) {
  const Workload& w = model.workload;
  std::string text =
      "# Read off a trace by `foretrace convert --workload`. Quantities are per sample.\n";
  for (const std::string& note : model.notes) text += fmt::format("# {}\n", note);
  text += fmt::format("name: \"{}\"\ngraph:\n  dtype: {}\n  call_samples: {}\n  operators:\n",
                      w.name, Name(w.dtype), w.call_samples);
  for (const Operator& op : w.operators) {
    std::string calls, function;
    for (const OperatorCall& call : op.calls) {
      if (std::holds_alternative<ElementwiseOp>(call.shape)) {
        function = fmt::format(", function: \"{}\"", op.function);
      }
      calls += (calls.empty() ? "" : ", ") + OperatorCallYaml(call);
    }
    text += fmt::format(
        "    - {{name: \"{}\", parameters: {}, forward_flop: {}, backward_flop: {}, forward_bytes: "
        "{}, backward_bytes: {}, stash_bytes: {}, output_bytes: {}{},\n       calls: "
        "[{}]}}\n",
        op.name, op.parameters, op.forward_flop.count(), op.backward_flop.count(),
        op.forward_bytes.count(), op.backward_bytes.count(),
        (op.stash_tensor + op.stash_sequence).count(), op.output_bytes.count(), function, calls);
  }
  text += "  edges:\n";
  for (const OperatorEdge& e : w.edges) {
    text +=
        fmt::format("    - [\"{}\", \"{}\", {}]\n", w.operators[static_cast<size_t>(e.from)].name,
                    w.operators[static_cast<size_t>(e.to)].name, e.bytes.count());
  }
  if (w.edges.empty()) text += "    []\n";
  return text;
}

}  // namespace foretrace
