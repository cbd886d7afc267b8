#pragma once
// What is to be sharded: the embedding tables of a recommendation model, the rest of the model, and
// the machine. Sizes are of one training iteration.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/dtype.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/cost/embedding/reuse_factors.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

struct EmbeddingTable {
  std::string name;
  int64_t rows = 0;    // E
  int64_t dim = 0;     // D
  double pooling = 0;  // L: mean lookups of a sample, of all inputs together
  // Of a table that several inputs share, each one's mean lookups; each has a pooled vector of its
  // own. Empty: one input.
  std::vector<double> inputs;
  TableAccess access;  // what a whole batch does to it; lookups = batch x pooling
  DType dtype = DType::kFloat32;

  // Pooled vectors of a sample.
  int64_t vectors() const { return std::max<int64_t>(1, static_cast<int64_t>(inputs.size())); }
  Bytes weight_bytes() const { return Bytes(rows * dim * ElementSize(dtype)); }
};

// The dense part of a DLRM: bottom MLP, interaction of its output with the pooled embeddings, top
// MLP; trained data-parallel.
struct DenseModel {
  std::vector<int64_t> bottom;  // widths, the number of dense features first
  std::vector<int64_t> top;     // widths after the interaction, the last is the output
  bool dot_interaction = true;  // pairwise dot products; else the vectors are concatenated
  Bytes bucket;                 // of gradients that are all-reduced together (DDP)
  // Concatenated vectors are averaged over so many neighbours each before the top MLP; 1: not.
  int32_t average = 1;
};

// CPU overheads of the multi-GPU paper (Algorithm 1), the same for every op.
struct CpuOverheads {
  SimTime t1, t2, t3, t4, t5;
  std::string source;
};

struct UvmSpec {
  bool allowed = false;
  double cache_ratio = 0.2;  // share of a table's rows that the cache in device memory holds
  Bandwidth host_bandwidth;  // for rows that it does not hold, one direction
  Bytes host_memory;         // of one GPU's share of the host
};

enum class PlacementKind : uint8_t { kTable, kColumn, kRow, kTableRow, kDataParallel, kCount };
std::string_view Name(PlacementKind kind);

struct ShardingTask {
  std::string file;
  std::string name;
  std::vector<EmbeddingTable> tables;
  int64_t batch = 0;  // samples of an iteration, over all GPUs
  int32_t gpus = 1;
  Bytes memory;  // of one GPU, for everything that a plan places on it
  std::string platform;
  std::string calibration;  // name or folder; empty: none
  std::string stack;        // name or file of the software's lookups; empty: FBGEMM's
  // Tables of more elements are dealt in blocks of columns by a stack that deals tables; 0: none.
  double slice_elements = 0;
  std::string capture;  // traces of a captured job to use as template; empty: none
  DenseModel dense;
  OptimizerKind optimizer = OptimizerKind::kAdagrad;  // of the tables; the dense part's likewise
  bool rowwise = true;           // one optimizer state value for each row of a table
  bool exchange_indices = true;  // ranks read samples, and send indices to where the tables are
  CpuOverheads cpu;
  UvmSpec uvm;
  std::vector<bool> allowed = std::vector<bool>(static_cast<size_t>(PlacementKind::kCount), false);

  int64_t local_batch() const { return batch / gpus; }
  bool allows(PlacementKind kind) const { return allowed[static_cast<size_t>(kind)]; }
};

// Errors name file, line and key.
absl::StatusOr<ShardingTask> LoadShardingTask(const std::string& file);
absl::StatusOr<ShardingTask> ParseShardingTask(const std::string& text, const std::string& file);
// A task file that reads back as the same task.
std::string ShardingTaskYaml(const ShardingTask& task);

// What `fraction` of the batch (0, 1] does to the table: each access is kept with that probability.
TableAccess ThinAccess(const TableAccess& access, double fraction);

}  // namespace foretrace
