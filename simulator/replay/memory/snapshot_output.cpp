#include "simulator/replay/memory/snapshot_output.h"

#include <fmt/format.h>

#include "simulator/replay/memory/ledger_output.h"

namespace foretrace {
namespace {

constexpr size_t kListedHolders = 20;

}  // namespace

std::string SnapshotText(std::span<const DeviceSnapshot> devices, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{"device"},
                   {"peak MB"},
                   {"reserved"},
                   {"fragm. %"},
                   {"at ms"},
                   {"events"},
                   {"end MB"},
                   {"reserved"},
                   {"free MB"},
                   {"largest"},
                   {"out of memory"}});
  const DeviceSnapshot* largest = &devices.front();
  for (const DeviceSnapshot& d : devices) {
    table.AddRow({fmt::format("{}", d.device), Megabytes(d.peak), Megabytes(d.peak_reserved),
                  fmt::format("{:.1f}", 100 * d.fragmentation()),
                  fmt::format("{:.3f}", d.peak_at.us() / 1000), fmt::format("{}", d.events),
                  Megabytes(d.allocated), Megabytes(d.reserved), Megabytes(d.free),
                  Megabytes(d.largest_free), fmt::format("{}", d.out_of_memory)});
    if (d.peak > largest->peak) largest = &d;
  }
  std::string text =
      "Device memory at its peak, and at the end (free: in reserved segments, and the largest "
      "block of it)\n" +
      table.Format(style);
  if (largest->events == 0) {
    text +=
        "No history: the peak is the end. torch.cuda.memory._record_memory_history() before the "
        "run records it.\n";
  }
  TextTable holders({{"MB"}, {"count"}, {"allocated in", Align::kLeft, true}});
  for (size_t i = 0; i < largest->holders.size() && i < kListedHolders; ++i) {
    const SnapshotHolder& h = largest->holders[i];
    holders.AddRow({Megabytes(h.bytes), fmt::format("{}", h.allocations),
                    h.line.empty() ? "(no stack: before the history, or not recorded)" : h.line});
  }
  if (holders.empty()) return text;
  return text +
         fmt::format("\nWhat the peak of device {} holds, MB: {}\n", largest->device,
                     LedgerText(largest->ledger)) +
         holders.Format(style);
}

std::string SnapshotJson(std::span<const DeviceSnapshot> devices) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("devices");
  json.StartArray();
  for (const DeviceSnapshot& d : devices) {
    json.StartObject();
    json.Field("device", d.device);
    json.Field("peak_bytes", d.peak.count());
    json.Field("peak_reserved_bytes", d.peak_reserved.count());
    json.Field("fragmentation_share", d.fragmentation());
    json.Field("peak_at_us", d.peak_at.us());
    json.Field("events", d.events);
    json.Field("allocated_bytes", d.allocated.count());
    json.Field("reserved_bytes", d.reserved.count());
    json.Field("free_bytes", d.free.count());
    json.Field("largest_free_bytes", d.largest_free.count());
    json.Field("out_of_memory", d.out_of_memory);
    WriteLedger("ledger", d.ledger, json);
    json.Key("holders");
    json.StartArray();
    for (const SnapshotHolder& h : d.holders) {
      json.StartObject();
      json.Field("line", h.line);
      json.Field("allocations", h.allocations);
      json.Field("bytes", h.bytes.count());
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
