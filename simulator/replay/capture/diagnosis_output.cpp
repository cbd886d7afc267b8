// A diagnosis as a table and as JSON.

#include <fmt/format.h>

#include "simulator/base/json_writer.h"
#include "simulator/console/output.h"
#include "simulator/replay/capture/diagnosis.h"

namespace foretrace {

std::string DiagnosisText(const Diagnosis& diagnosis, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{"evidence", Align::kLeft}, {"", Align::kLeft}, {"found", Align::kLeft, true}});
  std::string losses;
  for (const Finding& f : diagnosis.findings) {
    table.AddRow({f.what, std::string(Name(f.state)), f.found});
    if (f.cost.empty() && f.remedy.empty()) continue;
    losses += fmt::format("{}: {}\n", f.what, Wrapped(f.cost, style.width, f.what.size() + 2, 4));
    if (!f.remedy.empty()) {
      losses += fmt::format("    {}\n", Wrapped(f.remedy, style.width, 4, 6));
    }
  }
  std::string text =
      fmt::format("{}: {}\n\n{}", diagnosis.source, diagnosis.Verdict(), table.Format(style));
  if (!losses.empty()) text += "\nWhat is lost, and the lines that record it\n" + losses;
  return text;
}

std::string DiagnosisJson(const Diagnosis& diagnosis) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("source", diagnosis.source);
  json.Field("sound", diagnosis.Sound());
  json.Field("verdict", diagnosis.Verdict());
  json.Key("findings");
  json.StartArray();
  for (const Finding& f : diagnosis.findings) {
    json.StartObject();
    json.Field("evidence", f.what);
    json.Field("state", f.state == FindingState::kHolds      ? "holds"
                        : f.state == FindingState::kLacks    ? "lacks"
                        : f.state == FindingState::kOptional ? "optional"
                                                             : "doubt");
    json.Field("found", f.found);
    json.Field("cost", f.cost);
    json.Field("remedy", f.remedy);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
