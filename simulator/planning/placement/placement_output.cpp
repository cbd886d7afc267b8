#include "simulator/planning/placement/placement_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "simulator/mapping/device_measurements.h"
#include "simulator/report/time_unit.h"

namespace foretrace {
namespace {

using Align = TextTable::Align;

const KernelChoice& Chosen(const PlacementAnswer& answer, int32_t choice) {
  return answer.choices[static_cast<size_t>(choice)];
}

const std::string& BackendName(const PlacementAnswer& answer, int32_t backend) {
  return answer.backends[static_cast<size_t>(backend)].name;
}

std::string OpNames(const OperatorView& dag, const std::vector<int32_t>& ops) {
  std::string text;
  for (const int32_t op : ops) text += (text.empty() ? "" : "+") + dag.op(op).name;
  return text;
}

struct Share {
  int64_t ops = 0;
  int64_t kernels = 0;
  SimTime time;  // with launches
};

// Of the cheapest placement; a call's launch and fixed part count to its first kernel.
std::vector<Share> Shares(const PlacementAnswer& answer) {
  std::vector<Share> shares(answer.backends.size());
  const OpPlacement& best = answer.best();
  std::set<int32_t> begun;
  for (size_t i = 0; i < best.choices.size(); ++i) {
    const KernelChoice& kernel = Chosen(answer, best.choices[i]);
    Share& share = shares[static_cast<size_t>(kernel.backend)];
    share.ops += static_cast<int64_t>(kernel.ops.size());
    ++share.kernels;
    if (best.calls[i] < 0) {
      share.time += kernel.Alone(answer.launch);
      continue;
    }
    share.time += answer.engine->Within(kernel);
    if (begun.insert(best.calls[i]).second) share.time += answer.engine->Opening(answer.launch);
  }
  return shares;
}

// Time of the cheapest placement's kernels by where it comes from, without launches.
CostSources SourcesOf(const PlacementAnswer& answer) {
  CostSources sources;
  for (const int32_t choice : answer.best().choices) {
    const KernelChoice& kernel = Chosen(answer, choice);
    sources.Add(kernel.time.seconds(), {kernel.time, kernel.source, kernel.extrapolated});
  }
  return sources;
}

// By operator.
SimTime LaunchesOf(const PlacementAnswer& answer) {
  SimTime sum;
  for (const int32_t choice : answer.placement.choices) {
    const KernelChoice& kernel = Chosen(answer, choice);
    sum += kernel.Alone(answer.launch) - kernel.time;
  }
  return sum;
}

std::string SourceLine(const CostSources& sources) {
  std::string line = "Kernel time by source:";
  const char* between = " ";
  for (const EstimateSource source :
       {EstimateSource::kRecorded, EstimateSource::kCalibrated, EstimateSource::kAnalytic}) {
    if (sources.share(source) == 0) continue;
    line += fmt::format("{}{} {:.1f} %", between, Name(source), 100 * sources.share(source));
    between = ", ";
  }
  if (sources.extrapolated > 0) {
    line +=
        fmt::format(" ({:.1f} % beyond what was calibrated)", 100 * sources.extrapolated_share());
  }
  return line + "\n";
}

// By rank: what it costs, and how many operators each backend runs.
std::string RankedText(const PlacementAnswer& answer, const TextStyle& style) {
  std::vector<TextTable::Column> columns = {{"rank"}, {"us"}, {"kernels"}};
  for (const Backend& backend : answer.backends) columns.push_back({backend.name + " operators"});
  TextTable table(columns);
  for (size_t rank = 0; rank < answer.ranked.size(); ++rank) {
    const OpPlacement& placed = answer.ranked[rank];
    std::vector<size_t> ops(answer.backends.size());
    for (const int32_t choice : placed.choices) {
      const KernelChoice& kernel = Chosen(answer, choice);
      ops[static_cast<size_t>(kernel.backend)] += kernel.ops.size();
    }
    std::vector<std::string> row = {std::to_string(rank + 1),
                                    fmt::format("{:.3f}", placed.cost.us()),
                                    std::to_string(placed.choices.size())};
    for (const size_t count : ops) row.push_back(std::to_string(count));
    table.AddRow(row);
  }
  return "\n" + table.Format(style);
}

std::string GraphLevelText(const PlacementAnswer& answer) {
  const GraphPlacement& graph = *answer.graph;
  const std::string& engine = answer.backends[static_cast<size_t>(answer.engine->backend)].name;
  const auto gain = [&](SimTime cost) { return answer.placement.cost.seconds() / cost.seconds(); };
  std::string text = fmt::format(
      "\nWith calls of {} (a call pays {:.3f} us of its measured times and one launch):\n"
      "evolution {:.3f} us, {:.3f} times the op-level speed ({} bits, {} generations, {} "
      "placements evaluated)\n",
      engine, answer.engine->fixed.us(), graph.evolved.cost.us(), gain(graph.evolved.cost),
      graph.groups, graph.evolution.generations, graph.evolution.evaluations);
  if (graph.fixed_groups > 0) {
    text += fmt::format("{} kernels stay where they are: {} has none for their operators\n",
                        graph.fixed_groups, engine);
  }
  if (graph.proven) {
    return text + fmt::format("exact: {:.3f} us, {:.3f} times; no placement is cheaper\n",
                              graph.exact.cost.us(), gain(graph.exact.cost));
  }
  text += fmt::format("best found over frontiers: {:.3f} us, {:.3f} times\n", graph.exact.cost.us(),
                      gain(graph.exact.cost));
  const double gap = graph.best().cost.seconds() / graph.bound.seconds() - 1;
  return text + fmt::format("no placement is below {:.3f} us: the best is within {:.1f} % of it\n",
                            graph.bound.us(), 100 * gap);
}

void WriteGraphLevel(const PlacementAnswer& answer, JsonWriter& json) {
  const GraphPlacement& graph = *answer.graph;
  json.Key("graph_level");
  json.StartObject();
  json.Field("engine", BackendName(answer, answer.engine->backend));
  json.Field("call_fixed_us", answer.engine->fixed.us());
  json.Field("op_level_us", answer.placement.cost.us());
  json.Field("evolved_us", graph.evolved.cost.us());
  json.Field("exact_us", graph.exact.cost.us());
  json.Field("proven", graph.proven);
  json.Field("bound_us", graph.bound.us());
  json.Field("groups", graph.groups);
  json.Field("generations", graph.evolution.generations);
  json.Field("evaluations", graph.evolution.evaluations);
  json.Key("evolved_by_generation_us");
  json.StartArray();
  for (const int64_t cost : graph.evolution.best_cost) json.Double(SimTime::FromPs(cost).us());
  json.EndArray();
  json.EndObject();
}

// Kernels that have the operator, fastest first.
std::vector<const KernelChoice*> Candidates(const PlacementAnswer& answer, int32_t op) {
  std::vector<const KernelChoice*> candidates;
  for (const KernelChoice& choice : answer.choices) {
    if (std::ranges::binary_search(choice.ops, op)) candidates.push_back(&choice);
  }
  std::ranges::stable_sort(candidates, {}, [](const KernelChoice* c) {
    return c->time.us() / static_cast<double>(c->ops.size());
  });
  return candidates;
}

bool IsChosen(const PlacementAnswer& answer, const KernelChoice* candidate) {
  return std::ranges::any_of(answer.best().choices,
                             [&](int32_t choice) { return &Chosen(answer, choice) == candidate; });
}

std::string ExplanationText(const PlacementAnswer& answer, const TextStyle& style) {
  const int32_t op = *answer.explained;
  TextTable table({{"backend", Align::kLeft},
                   {"time us"},
                   {"with launch us"},
                   {"source", Align::kLeft},
                   {"placed", Align::kLeft},
                   {"operators", Align::kLeft, true}});
  for (const KernelChoice* candidate : Candidates(answer, op)) {
    table.AddRow({BackendName(answer, candidate->backend),
                  fmt::format("{:.3f}", candidate->time.us()),
                  fmt::format("{:.3f}", candidate->Alone(answer.launch).us()),
                  std::string(Name(candidate->source)), IsChosen(answer, candidate) ? "yes" : "",
                  OpNames(*answer.dag, candidate->ops)});
  }
  std::string text = fmt::format("\nKernels that can run {}, by time an operator\n{}",
                                 answer.dag->op(op).name, table.Format(style));
  for (const RefusedMatch& refused : answer.refused) {
    if (refused.root != op) continue;
    text += fmt::format("{}: refused {}\n", BackendName(answer, refused.backend), refused.why);
  }
  return text;
}

void WriteKernel(const PlacementAnswer& answer, const KernelChoice& kernel, int32_t call,
                 JsonWriter& json) {
  json.StartObject();
  if (call >= 0) json.Field("call", call);
  json.Field("backend", BackendName(answer, kernel.backend));
  json.Field("time_us", kernel.time.us());
  json.Field("source", std::string(Name(kernel.source)));
  std::vector<std::string> names;
  for (const int32_t op : kernel.ops) names.push_back(answer.dag->op(op).name);
  json.Field("operators", names);
  json.EndObject();
}

}  // namespace

std::string PlacementDetails(const PlacementAnswer& answer, const TextStyle& style) {
  std::string text;
  if (answer.ranked.size() > 1) text += RankedText(answer, style);
  if (answer.explained.has_value()) text += ExplanationText(answer, style);
  return text;
}

void WritePlacementDetails(const PlacementAnswer& answer, JsonWriter& json) {
  json.Key("ranked_us");
  json.StartArray();
  for (const OpPlacement& placed : answer.ranked) json.Double(placed.cost.us());
  json.EndArray();
  if (!answer.explained.has_value()) return;
  json.Key("candidates");
  json.StartArray();
  for (const KernelChoice* kernel : Candidates(answer, *answer.explained)) {
    WriteKernel(answer, *kernel, -1, json);
  }
  json.EndArray();
}

std::string PlacementText(const PlacementAnswer& answer, const TextStyle& style) {
  const OpPlacement& placement = answer.placement;
  const TimeUnit unit(placement.cost);
  std::string text = fmt::format(
      "Verdict: {} takes {} at best, in {} kernels for {} operators; {} of it are launches of {} "
      "us each\nBest of {:.4g} placements (exact). {} of {} fitting kernels have no known time and "
      "were not considered.\n",
      answer.dag->name(), unit.Text(placement.cost), placement.choices.size(), answer.dag->size(),
      unit.Text(LaunchesOf(answer)), fmt::format("{:g}", answer.launch.us()), placement.placements,
      answer.matches - answer.choices.size(), answer.matches);
  text += SourceLine(SourcesOf(answer)) + "\n";
  TextTable table({{"backend", Align::kLeft}, {"operators"}, {"kernels"}, {"us"}, {"share %"}});
  const std::vector<Share> shares = Shares(answer);
  for (size_t i = 0; i < shares.size(); ++i) {
    table.AddRow({answer.backends[i].name, std::to_string(shares[i].ops),
                  std::to_string(shares[i].kernels), fmt::format("{:.3f}", shares[i].time.us()),
                  fmt::format("{:.1f}", 100 * shares[i].time.us() / answer.best().cost.us())});
  }
  text += table.Format(style);
  if (answer.ranked.size() > 1) text += RankedText(answer, style);
  if (answer.graph.has_value()) text += GraphLevelText(answer);
  if (!answer.unknown_types.empty()) {
    text += "\nOf the tables, operators that no backend here names were not used: ";
    for (size_t i = 0; i < answer.unknown_types.size(); ++i) {
      text += (i > 0 ? ", " : "") + answer.unknown_types[i];
    }
    text += "\n";
  }
  if (!answer.ablation.empty()) {
    TextTable steps({{"backends up to", Align::kLeft}, {"us"}, {"operators not covered"}});
    for (const AblationStep& step : answer.ablation) {
      steps.AddRow({step.added,
                    step.cost.has_value() ? fmt::format("{:.3f}", step.cost->us()) : "-",
                    std::to_string(step.uncovered)});
    }
    text += "\n" + steps.Format(style);
  }
  if (answer.explained.has_value()) text += ExplanationText(answer, style);
  for (const std::string& note : answer.notes) text += "Note: " + note + "\n";
  return text;
}

std::string PlacementJson(const PlacementAnswer& answer) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("network", answer.dag->name());
  json.Field("operators", int64_t{answer.dag->size()});
  json.Field("cost_us", answer.best().cost.us());
  json.Field("launch_us", answer.launch.us());
  json.Field("placements", answer.placement.placements);
  json.Field("exact", !answer.graph.has_value() || answer.graph->proven);
  json.Field("unknown_operators", answer.unknown_types);
  const CostSources sources = SourcesOf(answer);
  json.Key("source_shares");
  json.StartObject();
  for (const EstimateSource source :
       {EstimateSource::kRecorded, EstimateSource::kCalibrated, EstimateSource::kAnalytic}) {
    json.Field(std::string(Name(source)), sources.share(source));
  }
  json.EndObject();
  if (answer.graph.has_value()) WriteGraphLevel(answer, json);
  json.Field("notes", answer.notes);
  json.Key("kernels");
  json.StartArray();
  for (size_t i = 0; i < answer.best().choices.size(); ++i) {
    WriteKernel(answer, Chosen(answer, answer.best().choices[i]), answer.best().calls[i], json);
  }
  json.EndArray();
  json.Key("backends");
  json.StartArray();
  const std::vector<Share> shares = Shares(answer);
  for (size_t i = 0; i < shares.size(); ++i) {
    json.StartObject();
    json.Field("name", answer.backends[i].name);
    json.Field("operators", shares[i].ops);
    json.Field("kernels", shares[i].kernels);
    json.Field("time_us", shares[i].time.us());
    json.EndObject();
  }
  json.EndArray();
  json.Key("ablation");
  json.StartArray();
  for (const AblationStep& step : answer.ablation) {
    json.StartObject();
    json.Field("backends_up_to", step.added);
    json.Key("cost_us");
    if (step.cost.has_value()) {
      json.Double(step.cost->us());
    } else {
      json.Null();
    }
    json.Field("operators_not_covered", static_cast<int64_t>(step.uncovered));
    json.EndObject();
  }
  json.EndArray();
  WritePlacementDetails(answer, json);
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
