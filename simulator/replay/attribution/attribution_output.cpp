// Attributed time as a table, as JSON, and as a flame graph.

#include <fmt/format.h>

#include "simulator/base/json_writer.h"
#include "simulator/replay/attribution/attribution.h"

namespace foretrace {
namespace {

std::string_view Word(AttributeTo to) {
  switch (to) {
    case AttributeTo::kModule:
      return "module";
    case AttributeTo::kLine:
      return "line";
    case AttributeTo::kRange:
      return "range";
    case AttributeTo::kOp:
      return "op";
    case AttributeTo::kKernel:
      return "kernel";
    case AttributeTo::kStream:
      return "stream";
  }
  return "";
}

bool IsTree(AttributeTo to) {
  return to == AttributeTo::kModule || to == AttributeTo::kLine || to == AttributeTo::kRange;
}

std::string Ms(SimTime time) { return fmt::format("{:.3f}", time.us() / 1000); }

void WriteTime(JsonWriter& json, const char* key, const SpentTime& time) {
  json.Key(key);
  json.StartObject();
  json.Field("cpu_us", time.cpu.us());
  json.Field("device_us", time.device.us());
  json.Field("exposed_communication_us", time.exposed_communication.us());
  json.Field("waiting_us", time.waiting.us());
  json.Field("critical_path_us", time.critical_path.us());
  json.EndObject();
}

}  // namespace

std::string AttributionText(const Attribution& a, size_t most, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{std::string(Word(a.to)), Align::kLeft, true},
                   {"count"},
                   {"device ms"},
                   {"own ms"},
                   {"share %"},
                   {"CPU ms"},
                   {"exposed ms"},
                   {"waits ms"},
                   {"path %"}});
  const auto row = [&](const std::string& name, const std::string& count, const SpentTime& total,
                       SimTime own) {
    table.AddRow({name, count, Ms(total.device), Ms(own),
                  fmt::format("{:.1f}", 100 * Share(total.device, a.device)),
                  IsTree(a.to) ? Ms(total.cpu) : "-", Ms(total.exposed_communication),
                  Ms(total.waiting),
                  fmt::format("{:.1f}", 100 * Share(total.critical_path, a.step))});
  };
  size_t shown = 0;
  for (const AttributedRow& r : a.rows) {
    if (shown == most) break;
    if (r.total.device == SimTime() && r.total.cpu == SimTime()) continue;
    row(std::string(2 * static_cast<size_t>(r.depth), ' ') + r.name, fmt::format("{}", r.count),
        r.total, r.own.device);
    ++shown;
  }
  row(fmt::format("(no {})", Word(a.to)), "", a.outside, a.outside.device);
  if (a.unlaunched.device > SimTime()) {
    row("(issued before the recording)", "", a.unlaunched, a.unlaunched.device);
  }
  std::string text =
      fmt::format("By {}, one step, all ranks together{}{}\n{}", Word(a.to),
                  IsTree(a.to) ? "; with what is within, own: without" : "",
                  a.window == StepWindow::kMarks
                      ? ""
                      : fmt::format("; CPU and waits of its calls: between the marks, all else: {}",
                                    Words(a.window)),
                  table.Format(style));
  if (shown < a.rows.size()) {
    text += fmt::format("{} of {} rows; --top shows more, --json all\n", shown, a.rows.size());
  }
  return text;
}

std::string AttributionJson(const Attribution& a) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("to", Word(a.to));
  json.Field("device_us", a.device.us());
  json.Field("attributed_share", a.attributed_share());
  WriteTime(json, "outside", a.outside);
  WriteTime(json, "issued_before_recording", a.unlaunched);
  json.Key("rows");
  json.StartArray();
  for (const AttributedRow& r : a.rows) {
    json.StartObject();
    json.Field("name", r.name);
    json.Field("parent", r.parent);
    json.Field("depth", r.depth);
    json.Field("count", r.count);
    WriteTime(json, "total", r.total);
    WriteTime(json, "own", r.own);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

namespace {

// Device time by stack of frames, which are the rows, and behind them the two rests.
struct SampledStacks {
  std::vector<std::vector<int32_t>> stacks;
  std::vector<double> weights;
};

SampledStacks StacksOf(const Attribution& a) {
  SampledStacks out;
  for (size_t i = 0; i < a.rows.size(); ++i) {
    if (a.rows[i].own.device == SimTime()) continue;
    std::vector<int32_t>& stack = out.stacks.emplace_back();
    for (auto at = static_cast<int32_t>(i); at >= 0; at = a.rows[static_cast<size_t>(at)].parent) {
      stack.insert(stack.begin(), at);
    }
    out.weights.push_back(a.rows[i].own.device.us());
  }
  auto frame = static_cast<int32_t>(a.rows.size());
  for (const SpentTime* rest : {&a.outside, &a.unlaunched}) {
    if (rest->device > SimTime()) {
      out.stacks.push_back({frame});
      out.weights.push_back(rest->device.us());
    }
    ++frame;
  }
  return out;
}

void WriteFrames(JsonWriter& json, const Attribution& a) {
  const auto frame = [&](std::string_view name) {
    json.StartObject();
    json.Field("name", name);
    json.EndObject();
  };
  json.Key("shared");
  json.StartObject();
  json.Key("frames");
  json.StartArray();
  for (const AttributedRow& r : a.rows) frame(r.name);
  frame(fmt::format("(no {})", Word(a.to)));
  frame("(issued before the recording)");
  json.EndArray();
  json.EndObject();
}

}  // namespace

std::string SpeedscopeJson(const Attribution& a) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("$schema", "https://www.speedscope.app/file-format-schema.json");
  json.Field("exporter", "foretrace");
  json.Field("name", fmt::format("predicted device time by {}", Word(a.to)));
  WriteFrames(json, a);
  const SampledStacks sampled = StacksOf(a);
  json.Key("profiles");
  json.StartArray();
  json.StartObject();
  json.Field("type", "sampled");
  json.Field("name", "device time of one step, all ranks");
  json.Field("unit", "microseconds");
  json.Field("startValue", 0.0);
  json.Field("endValue", a.device.us());
  json.Key("samples");
  json.StartArray();
  for (const std::vector<int32_t>& stack : sampled.stacks) {
    json.StartArray();
    for (const int32_t at : stack) json.Int(at);
    json.EndArray();
  }
  json.EndArray();
  json.Key("weights");
  json.StartArray();
  for (const double weight : sampled.weights) json.Double(weight);
  json.EndArray();
  json.EndObject();
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
