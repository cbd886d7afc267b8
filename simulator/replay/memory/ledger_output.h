#pragma once
// Memory ledgers as text and JSON.

#include <optional>
#include <string>

#include "simulator/base/json_writer.h"
#include "simulator/base/memory_ledger.h"

namespace foretrace {

std::string Megabytes(Bytes bytes);  // "12.3"

// "weights 12.3, activations 4.5", of what is not zero, MB.
std::string LedgerText(const MemoryLedger& ledger);

// A member `key` of an object; null where there is none.
void WriteLedger(const char* key, const std::optional<MemoryLedger>& ledger, JsonWriter& json);

}  // namespace foretrace
