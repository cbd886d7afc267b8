#pragma once
// Reads an execution trace node by node: only one node is held as JSON.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/importers/io/byte_source.h"
#include "simulator/importers/pytorch_et/document.h"

namespace foretrace::pytorch_et {

// Errors name source, node and cause: unknown schema version, missing fields, duplicate ids.
absl::StatusOr<Document> ReadDocument(ByteSource& input, const std::string& source);

}  // namespace foretrace::pytorch_et
