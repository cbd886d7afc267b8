#include "simulator/replay/memory/ledger_output.h"

#include <fmt/format.h>

namespace foretrace {
namespace {

struct Entry {
  const char* key;
  const char* name;
  Bytes MemoryLedger::*bytes;
};
constexpr Entry kLedger[] = {
    {"weights_bytes", "weights", &MemoryLedger::weights},
    {"gradients_bytes", "gradients", &MemoryLedger::gradients},
    {"optimizer_bytes", "optimizer", &MemoryLedger::optimizer},
    {"activations_bytes", "activations", &MemoryLedger::activations},
    {"recomputed_bytes", "recomputed", &MemoryLedger::recomputed},
    {"gathered_bytes", "gathered", &MemoryLedger::gathered},
    {"other_bytes", "other", &MemoryLedger::other},
};

}  // namespace

std::string Megabytes(Bytes bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes.count()) * 1e-6);
}

std::string LedgerText(const MemoryLedger& ledger) {
  std::string text;
  for (const Entry& e : kLedger) {
    if (ledger.*e.bytes == Bytes()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", e.name, Megabytes(ledger.*e.bytes));
  }
  return text;
}

void WriteLedger(const char* key, const std::optional<MemoryLedger>& ledger, JsonWriter& json) {
  json.Key(key);
  if (!ledger.has_value()) {
    json.Null();
    return;
  }
  json.StartObject();
  json.Field("total_bytes", ledger->total().count());
  for (const Entry& e : kLedger) json.Field(e.key, ((*ledger).*e.bytes).count());
  json.EndObject();
}

}  // namespace foretrace
