// Memory of captured jobs as tables and as JSON.

#include <fmt/format.h>

#include "simulator/base/json_writer.h"
#include "simulator/replay/memory/ledger_output.h"
#include "simulator/replay/memory/memory_use.h"

namespace foretrace {
namespace {

void AddRank(const CapturedMemory& m, TextTable& table) {
  const bool known = m.capacity.count() > 0 && !m.relative;
  const Bytes taken = m.reserved.count() > 0 ? m.reserved : m.peak;
  table.AddRow({fmt::format("{}", m.rank), Megabytes(m.peak),
                m.reserved.count() > 0 ? Megabytes(m.reserved) : "-",
                m.reserved.count() > 0 ? fmt::format("{:.1f}", 100 * m.fragmentation()) : "-",
                known ? Megabytes(m.capacity - taken) : "-",
                m.step >= 0 ? fmt::format("{}", m.step) : "-",
                fmt::format("{:.3f}", m.at.us() / 1000)});
}

}  // namespace

std::string MemoryText(std::span<const CapturedMemory> ranks, size_t most, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table(
      {{"rank"}, {"peak MB"}, {"reserved"}, {"fragm. %"}, {"room MB"}, {"step"}, {"at ms"}});
  const CapturedMemory* largest = &ranks.front();
  for (const CapturedMemory& m : ranks) {
    AddRank(m, table);
    if (m.peak > largest->peak) largest = &m;
  }
  std::string text = "Device memory at its peak, as recorded\n" + table.Format(style);
  if (largest->relative) {
    text += "The recording has no totals: the peak is above what was allocated when it began.\n";
  }
  if (!largest->paired) return text;
  text += fmt::format("\nWhat the peak of rank {} was allocated in, MB:", largest->rank);
  for (size_t p = 0; p < static_cast<size_t>(MemoryPhase::kCount); ++p) {
    text += fmt::format("{} {} {}", p == 0 ? "" : ",", Name(static_cast<MemoryPhase>(p)),
                        Megabytes(largest->phases[p]));
  }
  if (largest->ledger.has_value()) {
    text +=
        fmt::format("\nLedger of rank {}, MB: {}\n", largest->rank, LedgerText(*largest->ledger));
  }
  if (largest->changed.has_value()) {
    const Bytes before = largest->ledger->total(), after = largest->changed->total();
    text += fmt::format(
        "With --memory-if the peak is {} MB ({:+.1f} %), of the {} that holds most: {}\n"
        "Memory alone: what the change does to times is not in this answer.\n",
        Megabytes(after),
        100 * (static_cast<double>(after.count()) / static_cast<double>(before.count()) - 1),
        fmt::format("rank {}", largest->rank), LedgerText(*largest->changed));
  }
  TextTable holders(
      {{"MB"}, {"count"}, {"op", Align::kLeft, true}, {"module", Align::kLeft, true}});
  for (size_t i = 0; i < largest->holders.size() && i < most; ++i) {
    const MemoryHolder& h = largest->holders[i];
    holders.AddRow({Megabytes(h.bytes), fmt::format("{}", h.allocations), h.op.empty() ? "-" : h.op,
                    h.module.empty() ? "-" : h.module});
  }
  return text + "\n" + (holders.empty() ? "" : holders.Format(style));
}

std::string MemoryJson(std::span<const CapturedMemory> ranks) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartArray();
  for (const CapturedMemory& m : ranks) {
    json.StartObject();
    json.Field("rank", m.rank);
    json.Field("peak_bytes", m.peak.count());
    json.Field("reserved_bytes", m.reserved.count());
    json.Field("fragmentation_share", m.fragmentation());
    json.Field("capacity_bytes", m.capacity.count());
    json.Field("step", m.step);
    json.Field("at_us", m.at.us());
    json.Field("relative", m.relative);
    WriteLedger("ledger", m.ledger, json);
    WriteLedger("changed", m.changed, json);
    json.Key("phases");
    json.StartObject();
    constexpr const char* kKeys[] = {"before_bytes", "forward_bytes", "backward_bytes",
                                     "optimizer_bytes"};
    for (size_t p = 0; p < static_cast<size_t>(MemoryPhase::kCount); ++p) {
      json.Field(kKeys[p], m.phases[p].count());
    }
    json.EndObject();
    json.Key("holders");
    json.StartArray();
    for (const MemoryHolder& h : m.holders) {
      json.StartObject();
      json.Field("op", h.op);
      json.Field("module", h.module);
      json.Field("allocations", h.allocations);
      json.Field("bytes", h.bytes.count());
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
