#include "simulator/planning/mappings/measured_mapping_table.h"

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/tables/measured_iterations.h"

namespace foretrace {
namespace {

// Degrees that no mapping has fail CheckMapping.
int32_t Degree(int64_t n) {
  return static_cast<int32_t>(std::min<int64_t>(n, std::numeric_limits<int32_t>::max()));
}

Recompute RecomputeOf(const MeasuredIteration& row, Recompute otherwise) {
  return row.recompute ? ParseEnum<Recompute>(*row.recompute).value_or(otherwise) : otherwise;
}

}  // namespace

absl::StatusOr<std::vector<MeasuredMapping>> LoadMeasuredMappings(const std::string& path,
                                                                  int64_t vocabulary,
                                                                  Recompute recompute) {
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<MeasuredIteration> table,
                             LoadMeasuredIterations(path));
  std::vector<MeasuredMapping> rows;
  for (const MeasuredIteration& from : table) {
    MeasuredMapping row;
    row.name = from.name;
    row.model.hidden = from.hidden;
    if (from.ffn > 0) row.model.ffn = from.ffn;
    row.model.heads = from.heads;
    row.model.layers = from.layers;
    row.model.sequence = from.sequence;
    row.model.vocabulary = vocabulary;
    row.mapping.tensor = Degree(from.tensor);
    row.mapping.data = Degree(from.data);
    row.mapping.pipeline = Degree(from.pipeline);
    row.mapping.chunks = Degree(from.chunks);
    row.mapping.micro_batch = Degree(from.micro_batch);
    row.mapping.global_batch = Degree(from.global_batch);
    row.mapping.sequence_parallel = from.sequence_parallel;
    row.mapping.recompute = RecomputeOf(from, recompute);
    row.measured = from.measured;
    const absl::Status ok = CheckMapping(row.model, row.mapping, from.gpus);
    if (!ok.ok()) return InvalidInput("{}: {}", from.where, std::string(ok.message()));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace foretrace
