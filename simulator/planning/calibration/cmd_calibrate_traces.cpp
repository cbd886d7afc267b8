// calibrate trace-overheads: T1..T5 of the CPU from captured traces.

#include <fmt/ranges.h>

#include <array>
#include <memory>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/cpu_overhead/overhead_statistics.h"
#include "simulator/reconstruct/recorded_accelerators.h"
#include "simulator/replay/rank_list.h"
#include "simulator/replay/trace_options.h"

namespace foretrace {
namespace {

struct TraceOverheadsOptions {
  TraceOptions traces;
  std::string output;
  std::string ranks;
  std::string date;
  bool json = false;
};

std::string Table(const OverheadStatistics& statistics, const TextStyle& style) {
  using Align = TextTable::Align;
  constexpr std::array<std::string_view, 5> kWhere = {
      "between operators", "before its first launch", "after its last launch", "of a launch call",
      "between its launches"};
  static_assert(kWhere.size() == static_cast<size_t>(OverheadKind::kCount));
  TextTable table({{"overhead", Align::kLeft},
                   {"of an operator", Align::kLeft},
                   {"mean us"},
                   {"std us"},
                   {"count"},
                   {"ops"}});
  for (size_t k = 0; k < static_cast<size_t>(OverheadKind::kCount); ++k) {
    const auto kind = static_cast<OverheadKind>(k);
    const OverheadMoments& m = statistics.global(kind);
    table.AddRow({std::string(Name(kind)), std::string(kWhere[k]),
                  fmt::format("{:.2f}", m.mean_us()), fmt::format("{:.2f}", m.std_us()),
                  fmt::format("{}", m.count), fmt::format("{}", statistics.by_op(kind).size())});
  }
  return table.Format(style);
}

// The overhead that takes the most time in all.
std::string Verdict(const OverheadStatistics& statistics) {
  const auto total = [&](OverheadKind kind) {
    const OverheadMoments& m = statistics.global(kind);
    return m.mean_us() * static_cast<double>(m.count);
  };
  double all = 0;
  auto most = static_cast<OverheadKind>(0);
  for (size_t k = 0; k < static_cast<size_t>(OverheadKind::kCount); ++k) {
    const auto kind = static_cast<OverheadKind>(k);
    all += total(kind);
    if (total(kind) > total(most)) most = kind;
  }
  return fmt::format("Verdict: {:.1f} us of CPU overheads in all; the most, {:.1f} %, is {}\n", all,
                     all > 0 ? 100 * total(most) / all : 0, Name(most));
}

std::string Json(const OverheadStatistics& statistics, const std::string& written) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("overheads");
  json.StartArray();
  for (size_t k = 0; k < static_cast<size_t>(OverheadKind::kCount); ++k) {
    const auto kind = static_cast<OverheadKind>(k);
    const OverheadMoments& m = statistics.global(kind);
    json.StartObject();
    json.Field("name", Name(kind));
    json.Field("mean_us", m.mean_us());
    json.Field("std_us", m.std_us());
    json.Field("count", m.count);
    json.Field("ops", static_cast<int64_t>(statistics.by_op(kind).size()));
    json.EndObject();
  }
  json.EndArray();
  json.Field("written", written.empty() ? std::vector<std::string>() : std::vector{written});
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

// A rank that is asked for and has no trace would be left out in silence.
absl::Status CheckThere(const std::set<int32_t>& ranks, const TraceStore& store) {
  for (const int32_t wanted : ranks) {
    const bool there = std::ranges::any_of(
        store.ranks(), [&](const RankTrace& rank) { return rank.info().rank == wanted; });
    if (!there) return InvalidInput("--ranks: the traces have no rank {}", wanted);
  }
  return absl::OkStatus();
}

absl::Status RunTraceOverheads(const TraceOverheadsOptions& options,
                               const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const auto loaded, options.traces.Load(context));
  const TraceStore& store = *loaded;
  OverheadFilter filter;
  if (!options.ranks.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const std::set<int32_t> ranks,
                               ParseNumberList("--ranks", options.ranks));
    FORETRACE_RETURN_IF_ERROR(CheckThere(ranks, store));
    filter = [ranks](int32_t rank, int64_t) { return ranks.contains(rank); };
  }
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog accelerators,
                             LoadRecordedAccelerators(store));
  // For runs to come, which take these costs unless they say otherwise.
  const OverheadStatistics statistics =
      OverheadStatistics::Extract(store, accelerators, SyncCosts(), filter);
  if (statistics.empty()) {
    return InvalidInput("{}: no CPU calls that issue device work, so no overheads",
                        store.ranks().front().info().source);
  }
  const auto print = [&]() -> absl::Status {
    const std::string document = Json(statistics, options.output);
    FORETRACE_RETURN_IF_ERROR(
        context.WriteAnswer("calibrate trace-overheads", [&] { return document; }));
    if (options.json) return context.console->PrintJson("calibrate trace-overheads", document);
    std::string text = Verdict(statistics) + Table(statistics, context.console->style());
    if (!options.output.empty()) text += fmt::format("wrote {}\n", options.output);
    return context.console->Print(text);
  };
  if (options.output.empty()) return print();
  std::vector<std::pair<std::string, std::string>> provenance = {
      {"source", fmt::format("{}", fmt::join(options.traces.paths, " "))},
      {"device", store.ranks().front().info().device_name},
      {"command", "foretrace calibrate trace-overheads"}};
  if (!options.ranks.empty()) provenance.emplace_back("ranks", options.ranks);
  if (!options.date.empty()) provenance.emplace_back("date", options.date);
  FORETRACE_RETURN_IF_ERROR(WriteFile(options.output, statistics.ToYaml(provenance)));
  return print();
}

}  // namespace

void AddTraceOverheads(CLI::App& calibrate, CommandContext& context) {
  auto options = std::make_shared<TraceOverheadsOptions>();
  CLI::App* command =
      calibrate.add_subcommand("trace-overheads",
                               "statistics of the CPU overheads T1..T5 from captured traces, for "
                               "predict --overheads FILE");
  options->traces.RegisterRanks(*command, true, "refuse input that needs repairs");
  command->add_option("-o,--output", options->output, "file to write")
      ->group(kOutputGroup)
      ->type_name("YAML");
  command->add_flag("--json", options->json, "one JSON document instead of tables");
  command->add_option("--ranks", options->ranks, "only these ranks, e.g. 0-3");
  command->add_option("--date", options->date, "date to write into the file")
      ->type_name("YYYY-MM-DD");
  command->footer(Examples({
      "foretrace calibrate trace-overheads run1/ --ranks 0-3 -o overheads.yaml",
      "foretrace predict run1/ --overheads overheads.yaml",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunTraceOverheads(*options, context); };
  });
}

}  // namespace foretrace
