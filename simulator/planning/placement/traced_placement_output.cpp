#include <fmt/format.h>

#include <algorithm>

#include "simulator/base/json_writer.h"
#include "simulator/planning/placement/traced_placement.h"
#include "simulator/report/time_unit.h"

namespace foretrace {
namespace {

double Percent(SimTime part, SimTime whole) {
  return whole > SimTime() ? 100 * part.seconds() / whole.seconds() : 0;
}

std::string Change(const char* what, SimTime before, SimTime after) {
  const TimeUnit unit(std::max(before, after));
  return fmt::format("{} takes {}, {} without ({:+.2f} %)\n", what, unit.Text(after),
                     unit.Text(before), Percent(after - before, before));
}

void WriteRegion(const ReplacedRegion& region, JsonWriter& json) {
  json.StartObject();
  json.Field("backend", region.backend);
  json.Field("types", region.types);
  json.Field("times", region.times);
  json.Field("kernels", region.kernels);
  json.Field("before_us", region.before.us());
  json.Field("after_us", region.after.us());
  json.Field("source", std::string(Name(region.source)));
  json.EndObject();
}

}  // namespace

std::string TracedPlacementText(const TracedPlacement& p, const TextStyle& style) {
  using Align = TextTable::Align;
  std::string text =
      "Verdict: " + Change("with the backends the step", p.step_before, p.step_after);
  if (p.period_before.has_value() && p.period_after.has_value()) {
    text += Change("from step to step it", *p.period_before, *p.period_after);
  }
  text += fmt::format(
      "{}: {} ranks, {} iterations, {} kernels; {} operators with known work have {:.1f} % of the "
      "device time\n",
      p.trace, p.ranks, p.iterations, p.kernels, p.operators,
      Percent(p.operator_time, p.device_time));
  text += fmt::format(
      "replaced: {:.1f} % of the device time, {:.1f} us -> {:.1f} us; {} kernels and launches "
      "gone, "
      "and {:.1f} us of CPU time for them\n\n",
      Percent(p.replaced, p.device_time), p.replaced.us(), p.replacement.us(), p.kernels_gone,
      p.cpu_saved.us());
  TextTable table({{"backend", Align::kLeft},
                   {"times"},
                   {"kernels"},
                   {"us before"},
                   {"us after"},
                   {"source", Align::kLeft},
                   {"operators", Align::kLeft, true}});
  for (const ReplacedRegion& region : p.regions) {
    table.AddRow({region.backend, std::to_string(region.times), std::to_string(region.kernels),
                  fmt::format("{:.1f}", region.before.us()),
                  fmt::format("{:.1f}", region.after.us()), std::string(Name(region.source)),
                  region.types});
  }
  text += p.regions.empty() ? "No backend has a cheaper kernel for anything here.\n"
                            : table.Format(style);
  if (!p.ablation.empty()) {
    TextTable steps({{"backends up to", Align::kLeft}, {"step us"}, {"change %"}});
    for (const TracedStep& step : p.ablation) {
      steps.AddRow({step.added, fmt::format("{:.1f}", step.step.us()),
                    fmt::format("{:+.2f}", Percent(step.step - p.step_before, p.step_before))});
    }
    text += "\n" + steps.Format(style);
  }
  if (p.graph.has_value()) text += PlacementDetails(*p.graph, style);
  for (const std::string& note : p.notes) text += "Note: " + note + "\n";
  return text;
}

std::string TracedPlacementJson(const TracedPlacement& p) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("trace", p.trace);
  json.Field("ranks", p.ranks);
  json.Field("iterations", p.iterations);
  json.Field("kernels", p.kernels);
  json.Field("operators", p.operators);
  json.Field("device_time_us", p.device_time.us());
  json.Field("known_operator_time_us", p.operator_time.us());
  json.Field("replaced_us", p.replaced.us());
  json.Field("replacement_us", p.replacement.us());
  json.Field("kernels_gone", p.kernels_gone);
  json.Field("cpu_saved_us", p.cpu_saved.us());
  json.Field("step_before_us", p.step_before.us());
  json.Field("step_after_us", p.step_after.us());
  if (p.period_before.has_value() && p.period_after.has_value()) {
    json.Field("period_before_us", p.period_before->us());
    json.Field("period_after_us", p.period_after->us());
  }
  json.Key("regions");
  json.StartArray();
  for (const ReplacedRegion& region : p.regions) WriteRegion(region, json);
  json.EndArray();
  json.Key("ablation");
  json.StartArray();
  for (const TracedStep& step : p.ablation) {
    json.StartObject();
    json.Field("backends_up_to", step.added);
    json.Field("step_us", step.step.us());
    if (step.period.has_value()) json.Field("period_us", step.period->us());
    json.EndObject();
  }
  json.EndArray();
  if (p.graph.has_value()) WritePlacementDetails(*p.graph, json);
  json.Field("notes", p.notes);
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
