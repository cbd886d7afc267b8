#pragma once
// Embedding tables of a task as rows of a CSV.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {

// The tables as a task's YAML would list them under `tables`, a row each on the line that it has in
// the file, so that errors name it. Columns, in any order and case: name (or table), rows
// (num_embeddings, hash_size), dim (embedding_dim, emb_dim), pooling (mean lookups of a sample),
// zipf (of reuse; 0: uniform) and, if need be, dtype; others are passed over. Errors: those of the
// file; columns that are missing or given twice, rows with more fields than the first line.
absl::StatusOr<YamlReader> ReadTableCsv(const std::string& path);

}  // namespace foretrace
