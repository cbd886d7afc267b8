// calibrate trace-overheads: T1..T5 of the CPU from captured traces.

#include <fmt/ranges.h>

#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cli/command.h"
#include "simulator/cli/options.h"
#include "simulator/cli/output.h"
#include "simulator/cli/rank_list.h"
#include "simulator/cli/trace_options.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/cpu_overhead/overhead_statistics.h"

namespace foretrace {
namespace {

struct TraceOverheadsOptions {
  TraceOptions traces;
  std::string output;
  std::string ranks;
  std::string date;
};

std::string Table(const OverheadStatistics& statistics) {
  using Align = TextTable::Align;
  TextTable table({{"overhead", Align::kLeft}, {"mean us"}, {"std us"}, {"count"}, {"ops"}});
  for (size_t k = 0; k < static_cast<size_t>(OverheadKind::kCount); ++k) {
    const auto kind = static_cast<OverheadKind>(k);
    const OverheadMoments& m = statistics.global(kind);
    table.AddRow({std::string(Name(kind)), fmt::format("{:.2f}", m.mean_us()),
                  fmt::format("{:.2f}", m.std_us()), fmt::format("{}", m.count),
                  fmt::format("{}", statistics.by_op(kind).size())});
  }
  return table.Format(OutputStyle());
}

absl::Status RunTraceOverheads(const TraceOverheadsOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, options.traces.Load());
  OverheadFilter filter;
  if (!options.ranks.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const std::set<int32_t> ranks, ParseRankList(options.ranks));
    filter = [ranks](int32_t rank, int64_t) { return ranks.contains(rank); };
  }
  const OverheadStatistics statistics = OverheadStatistics::Extract(store, filter);
  if (statistics.empty()) {
    return InvalidInput("{}: no CPU calls that issue device work, so no overheads",
                        store.ranks().front().info().source);
  }
  FORETRACE_RETURN_IF_ERROR(Print(Table(statistics)));
  if (options.output.empty()) return absl::OkStatus();
  std::vector<std::pair<std::string, std::string>> provenance = {
      {"source", fmt::format("{}", fmt::join(options.traces.paths, " "))},
      {"device", store.ranks().front().info().device_name},
      {"command", "foretrace calibrate trace-overheads"}};
  if (!options.ranks.empty()) provenance.emplace_back("ranks", options.ranks);
  if (!options.date.empty()) provenance.emplace_back("date", options.date);
  FORETRACE_RETURN_IF_ERROR(WriteFileAtomically(options.output, statistics.ToYaml(provenance)));
  return Print(fmt::format("wrote {}\n", options.output));
}

}  // namespace

void AddTraceOverheads(CLI::App& calibrate, CommandContext& context) {
  auto options = std::make_shared<TraceOverheadsOptions>();
  CLI::App* command =
      calibrate.add_subcommand("trace-overheads",
                               "statistics of the CPU overheads T1..T5 from captured traces, for "
                               "predict --overheads FILE");
  options->traces.Register(*command, true);
  command->add_option("-o,--output", options->output, "file to write")->type_name("YAML");
  command->add_option("--ranks", options->ranks, "only these ranks, e.g. 0-3");
  command->add_option("--date", options->date, "date to write into the file")
      ->type_name("YYYY-MM-DD");
  command->callback(
      [options, &context] { context.run = [options] { return RunTraceOverheads(*options); }; });
}

}  // namespace foretrace
