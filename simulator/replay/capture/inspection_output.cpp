// An inspection as tables and as JSON.

#include <fmt/ranges.h>

#include "simulator/replay/capture/inspection.h"
#include "simulator/report/report_json.h"

namespace foretrace {
namespace {

using Align = TextTable::Align;

std::string Ranks(const std::vector<int32_t>& ranks) {
  if (ranks.size() <= 8) return fmt::format("{}", fmt::join(ranks, ","));
  return fmt::format("{},{},...,{} ({})", ranks[0], ranks[1], ranks.back(), ranks.size());
}

std::string RankTable(const Inspection& inspection, const TextStyle& style) {
  TextTable table({{"rank"},
                   {"nodes"},
                   {"kernels"},
                   {"copies"},
                   {"comm"},
                   {"threads"},
                   {"streams"},
                   {"steps"},
                   {"span ms"},
                   {"device", Align::kLeft, true},
                   {"format", Align::kLeft, true}});
  for (const InspectedRank& r : inspection.ranks) {
    table.AddRow({fmt::format("{}", r.rank), fmt::format("{}", r.nodes),
                  fmt::format("{}", r.kernels), fmt::format("{}", r.copies),
                  fmt::format("{}", r.communication), fmt::format("{}", r.threads),
                  fmt::format("{}", r.streams), fmt::format("{}", r.iterations),
                  fmt::format("{:.3f}", r.span.us() / 1000), r.device, r.producer});
  }
  return table.Format(style);
}

std::string CommunicatorTable(const Inspection& inspection, const TextStyle& style) {
  TextTable table({{"communicator", Align::kLeft, true},
                   {"ranks", Align::kLeft, true},
                   {"missing"},
                   {"operations"},
                   {"unmatched"},
                   {"bytes"},
                   {"members by", Align::kLeft},
                   {"matched by", Align::kLeft}});
  for (const InspectedCommunicator& c : inspection.communicators) {
    table.AddRow({c.name, Ranks(c.ranks), fmt::format("{}", c.missing_members),
                  fmt::format("{}", c.operations), fmt::format("{}", c.unmatched),
                  fmt::format("{}", c.bytes.count()), c.declared ? "declaration" : "ends",
                  std::string(Name(c.matched_by))});
  }
  return table.Format(style);
}

std::string ChannelText(const TransferModes::Count& c) {
  if (c.buffered + c.rendezvous + c.by_size + c.by_ends + c.unknown == 0) return "";
  return fmt::format(
      "channels of transfers: {} buffered and {} rendezvous by their own transfers, {} as others "
      "of "
      "their size, {} buffered by their ends, {} unknown and taken for rendezvous\n",
      c.buffered, c.rendezvous, c.by_size, c.by_ends, c.unknown);
}

void Field(JsonWriter& json, const char* key, std::string_view text) {
  json.Key(key);
  json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

void Field(JsonWriter& json, const char* key, uint64_t value) {
  json.Key(key);
  json.Uint64(value);
}

void WriteRank(const InspectedRank& r, JsonWriter& json) {
  json.StartObject();
  json.Key("rank");
  json.Int(r.rank);
  Field(json, "source", r.source);
  Field(json, "format", r.producer);
  Field(json, "device", r.device);
  Field(json, "nodes", r.nodes);
  Field(json, "kernels", r.kernels);
  Field(json, "copies", r.copies);
  Field(json, "collectives", r.communication);
  Field(json, "threads", r.threads);
  Field(json, "streams", r.streams);
  Field(json, "iterations", r.iterations);
  json.Key("span_us");
  json.Double(r.span.us());
  json.EndObject();
}

void WriteCommunicator(const InspectedCommunicator& c, JsonWriter& json) {
  json.StartObject();
  Field(json, "name", c.name);
  json.Key("ranks");
  json.StartArray();
  for (const int32_t r : c.ranks) json.Int(r);
  json.EndArray();
  Field(json, "missing_members", c.missing_members);
  json.Key("declared");
  json.Bool(c.declared);
  Field(json, "matched_by", Name(c.matched_by));
  Field(json, "operations", static_cast<uint64_t>(c.operations));
  Field(json, "unmatched", static_cast<uint64_t>(c.unmatched));
  Field(json, "bytes", static_cast<uint64_t>(c.bytes.count()));
  json.EndObject();
}

void WriteMatching(const Inspection& inspection, JsonWriter& json) {
  json.Key("communicator_doubts");
  json.StartArray();
  for (const std::string& doubt : inspection.communicator_doubts) {
    json.String(doubt.data(), static_cast<rapidjson::SizeType>(doubt.size()));
  }
  json.EndArray();
  json.Key("channels");
  json.StartObject();
  const TransferModes::Count& c = inspection.channels;
  Field(json, "buffered", static_cast<uint64_t>(c.buffered));
  Field(json, "rendezvous", static_cast<uint64_t>(c.rendezvous));
  Field(json, "by_size", static_cast<uint64_t>(c.by_size));
  Field(json, "by_ends", static_cast<uint64_t>(c.by_ends));
  Field(json, "unknown", static_cast<uint64_t>(c.unknown));
  json.EndObject();
}

void WriteRules(const Inspection& inspection, JsonWriter& json) {
  json.Key("rules");
  json.StartArray();
  for (int k = 0; k < static_cast<int>(SyncRule::kCount); ++k) {
    const RuleCount& c = inspection.rules[k];
    if (c.applied == 0) continue;
    json.StartObject();
    Field(json, "rule", Name(static_cast<SyncRule>(k)));
    Field(json, "applied", static_cast<uint64_t>(c.applied));
    Field(json, "violations", static_cast<uint64_t>(c.violations));
    Field(json, "tight", static_cast<uint64_t>(c.tight));
    json.EndObject();
  }
  json.EndArray();
}

// What is there and what of it is doubtful, in a line.
std::string Summary(const Inspection& inspection) {
  int64_t repairs = 0;
  for (const auto& [kind, entry] : inspection.repairs) repairs += static_cast<int64_t>(entry.count);
  std::string text = fmt::format("{} of {} ranks, {} nodes ({:.1f} MB in memory), {} repaired",
                                 inspection.ranks.size(), inspection.world_size, inspection.nodes,
                                 static_cast<double>(inspection.memory_bytes) / 1e6, repairs);
  const size_t doubts = inspection.communicator_doubts.size();
  if (!inspection.communicator_error.empty()) {
    text += ", communicators unknown";
  } else if (doubts > 0) {
    text += fmt::format(", {} communicator{} doubtful", doubts, doubts == 1 ? "" : "s");
  }
  const size_t missing = inspection.missing.size();
  return text + (missing == 0 ? "\n" : fmt::format(", {} missing (below)\n", missing));
}

}  // namespace

std::string InspectionText(const Inspection& inspection, const TextStyle& style) {
  std::string text = Summary(inspection) + "\n" + RankTable(inspection, style);
  if (!inspection.communicators.empty()) text += "\n" + CommunicatorTable(inspection, style);
  if (!inspection.communicator_error.empty()) {
    text += "\ncommunicators: " + inspection.communicator_error + "\n";
  }
  for (const std::string& doubt : inspection.communicator_doubts)
    text += "doubtful: " + doubt + "\n";
  text += ChannelText(inspection.channels);
  TextTable rules({{"synchronisation rule", Align::kLeft}, {"applied"}, {"violations"}, {"tight"}});
  for (int k = 0; k < static_cast<int>(SyncRule::kCount); ++k) {
    const RuleCount& c = inspection.rules[k];
    if (c.applied == 0) continue;
    rules.AddRow({std::string(Name(static_cast<SyncRule>(k))), fmt::format("{}", c.applied),
                  fmt::format("{}", c.violations), fmt::format("{}", c.tight)});
  }
  if (!rules.empty()) {
    text += "\n" + rules.Format(style);
    text += fmt::format("{} stream waits fit no rule\n", inspection.unresolved_waits);
  }
  if (!inspection.repairs.empty()) {
    TextTable repairs({{"repaired", Align::kLeft},
                       {"count"},
                       {"effect", Align::kLeft},
                       {"first", Align::kLeft, true}});
    for (const auto& [repair, entry] : inspection.repairs) {
      const RepairKind& kind = KindOf(repair);
      repairs.AddRow({std::string(kind.name), fmt::format("{}", entry.count),
                      std::string(Name(kind.severity)), entry.first});
    }
    text += "\n" + repairs.Format(style);
  }
  for (const std::string& missing : inspection.missing) text += "missing: " + missing + "\n";
  return text;
}

std::string InspectionJson(const Inspection& inspection) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  uint64_t kernels = 0;
  uint64_t communication = 0;
  uint64_t streams = 0;
  for (const InspectedRank& r : inspection.ranks) {
    kernels += r.kernels;
    communication += r.communication;
    streams += r.streams;
  }
  Field(json, "ranks", inspection.ranks.size());
  json.Key("world_size");
  json.Int(inspection.world_size);
  Field(json, "nodes", inspection.nodes);
  Field(json, "kernels", kernels);
  Field(json, "collectives", communication);
  Field(json, "streams", streams);
  Field(json, "memory_bytes", inspection.memory_bytes);
  json.Key("by_rank");
  json.StartArray();
  for (const InspectedRank& r : inspection.ranks) WriteRank(r, json);
  json.EndArray();
  json.Key("iterations");
  json.StartArray();
  for (const InspectedIteration& i : inspection.iterations) {
    json.StartObject();
    json.Key("number");
    json.Int64(i.number);
    json.Key("rank");
    json.Int(i.rank);
    json.Key("duration_us");
    json.Double(i.duration.us());
    json.EndObject();
  }
  json.EndArray();
  json.Key("communicators");
  json.StartArray();
  for (const InspectedCommunicator& c : inspection.communicators) WriteCommunicator(c, json);
  json.EndArray();
  Field(json, "communicator_error", inspection.communicator_error);
  WriteMatching(inspection, json);
  json.Key("repairs");
  json.StartObject();
  for (const auto& [repair, entry] : inspection.repairs) {
    Field(json, KindOf(repair).name.data(), static_cast<uint64_t>(entry.count));
  }
  json.EndObject();
  WriteRules(inspection, json);
  Field(json, "unresolved_waits", static_cast<uint64_t>(inspection.unresolved_waits));
  json.Key("missing");
  json.StartArray();
  for (const std::string& text : inspection.missing) {
    json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
  }
  json.EndArray();
  json.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace
