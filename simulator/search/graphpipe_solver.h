#pragma once
// The dynamic program of GraphPipe's partitioner: does a stage graph with a given bottleneck exist?

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "simulator/search/graphpipe_model.h"

namespace foretrace::internal {

// What a part of the graph can do in front of a successor whose in-flight count i is not yet known.
// Table 3.2 adds to i a number that depends on sizes alone, so the in-flight count of the part's
// first stage is i + offset, and memory bounds i from above by `cap`. One entry thus stands for the
// published state's whole range of in-flight counts.
struct PartEntry {
  int32_t devices = 0;
  int64_t offset = 0;
  int64_t cap = 0;
  int32_t record = -1;
};
// Of `samples` on one device, linear between the powers of two of the table; infinite beyond it.
RealSeconds TimeAt(const std::vector<RealSeconds>& table, int64_t samples);
// Per sample, how long a stage's links carry each way, of `border` a sample in and out of it:
// activations come in while gradients go out, and the other way round.
RealSeconds LinkPerSample(const GraphPipeProblem& problem, RealBytes border, int32_t devices);
// Of a stage, per sample: transfers run beside the computation.
RealSeconds TimePerSample(const GraphPipeProblem& problem, const StageLoad& load,
                          StageConfig config, int32_t devices);
// Of what is recomputed a micro-batch of `micro_batch` samples is there at a time.
RealBytes StageMemory(const StageLoad& load, int64_t in_flight, int32_t micro_batch,
                      int32_t devices);

// No entry beats another in devices, offset and cap at once.
using Front = std::vector<PartEntry>;

// How an entry came about; see GraphPipeSolver.
struct PartRecord {
  enum class Kind : uint8_t {
    kStage,
    kSeries,
    kParallelItem,
    kGroupStage,
    kSplit,
    kBranch,
    kAbsorb
  };
  Kind kind = Kind::kStage;
  int32_t begin = 0, end = 0;       // items of the sequence: kStage, kParallelItem, kAbsorb
  int32_t config = 0, devices = 0;  // kStage, kGroupStage
  std::vector<int32_t> counts;      // kGroupStage; kBranch: one branch of kind counts[0]
  int32_t first = -1, second = -1;  // records of the parts
};

class GraphPipeSolver {
 public:
  GraphPipeSolver(const GraphPipeProblem& problem, GraphPipeModel& model,
                  std::vector<StageConfig> configs);

  // Entries of the whole graph with no stage slower than `bound` per sample.
  Front Solve(RealSeconds bound);
  const PartRecord& record(int32_t i) const { return records_[static_cast<size_t>(i)]; }
  StageConfig config(int32_t i) const { return configs_[static_cast<size_t>(i)]; }

 private:
  static constexpr int32_t kEnd = -1;   // no successor
  static constexpr int32_t kFree = -1;  // any configuration
  using ByConfig = std::vector<Front>;  // by configuration of the first stage

  // Suffixes of a sequence in front of `next`; `tail` fixes its last stage's configuration.
  const ByConfig& Sequence(int32_t sequence, int32_t next, int32_t tail);
  ByConfig SolveSequence(int32_t sequence, int32_t next, int32_t tail);
  // Where a suffix of a sequence begins, and where what is found for it goes.
  struct Place {
    int32_t sequence;
    size_t begin;
    int32_t next, tail;
    int32_t most;  // devices
    ByConfig* out;
  };
  // In front of each entry of `rest` an entry of `piece`, which was solved for that one's first
  // stage.
  void Join(const Front& piece, const Front& rest, Place place, Front& out);
  // A stage of the suffix's first items, in front of what is known of the suffixes behind it.
  void AddFirstStages(Place place, const std::vector<ByConfig>& suffix);
  // The first item's branches side by side, as stages of their own; `rest` null: nothing follows.
  void AddBranches(Place place, int32_t item, int32_t next, const Front* rest);
  const StageLoad& RangeLoad(int32_t sequence, size_t begin, size_t end);
  const ByConfig& Branches(int32_t item, const std::vector<int32_t>& counts, int32_t next);
  ByConfig SolveBranches(int32_t item, const std::vector<int32_t>& counts, int32_t next);
  void AddStages(const StageLoad& load, int32_t next, int32_t only, int32_t most, PartRecord record,
                 ByConfig& out);
  void AddAbsorbed(int32_t sequence, size_t at, int32_t next, int32_t tail, bool last,
                   ByConfig& out);
  std::vector<std::vector<int32_t>> Pieces(const std::vector<int32_t>& counts) const;
  int64_t Delta(int32_t config, int32_t next) const;
  int32_t MostDevices(RealSeconds work) const;
  void Insert(Front& front, PartEntry entry, PartRecord record);
  static bool Dominated(const Front& front, const PartEntry& entry);

  const GraphPipeProblem& problem_;
  GraphPipeModel& model_;
  std::vector<StageConfig> configs_;
  RealSeconds bound_;
  RealSeconds total_work_;
  std::map<std::array<int32_t, 3>, ByConfig> sequence_memo_;
  std::map<std::pair<std::array<int32_t, 2>, std::vector<int32_t>>, ByConfig> branch_memo_;
  std::map<std::array<int32_t, 3>, StageLoad> range_memo_;
  std::vector<PartRecord> records_;
};

}  // namespace foretrace::internal
