#pragma once
// What search prints.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/base/real_quantities.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapping_file.h"
#include "simulator/mapping/pipeline_picture.h"
#include "simulator/report/text_table.h"
#include "simulator/search/evaluator.h"

namespace foretrace {

// A stage's memory at its peak: when, in which pass, and what takes it.
struct StagePeak {
  SimTime at;
  bool forward = true;
  int32_t microbatch = 0;
  int64_t held = 0;  // passes whose activations are
  Bytes total, weights, gradients, optimizer, activations;
  Bytes other;     // recomputed layer, logits, gathered weights
  Bytes reserved;  // with what PyTorch's allocator holds in fragments
  Bytes host;      // states that the host keeps for each device
};

// One mapping of either kind, evaluated.
struct SearchRow {
  std::string searcher;
  std::string text;  // of the mapping, in a table
  MappingFile mapping;
  Evaluation evaluation;
  double throughput = 0;  // samples a second
  // Of Evaluation::model_flop_utilisation: what GEMMs of layers take, its peak, and the same over
  // the peak of the model's own type, which some publish of 8 bits, too.
  std::string arithmetic;
  FlopRate peak;
  double utilisation_of_model_type = 0;
  Bytes reserved;  // by the framework's allocator, of the fullest device; zero: not followed
  SimTime cpu;     // that the CPU takes to start an iteration's work, which waits for it; else zero
  std::vector<StagePeak> stages;  // with --memory, of mappings in words
  // Of the iteration, by the searcher's own formula; zero where it has none but the simulation.
  SimTime estimate;
  // On the event engine with SearchReport::network (mapping_simulation.h); zero: not simulated.
  SimTime simulated;
};

struct SearchReport {
  std::string workload;
  int64_t devices = 0;
  int32_t global_batch = 0;
  int64_t sequence = 0;               // tokens of a sample; 0: it has none
  std::vector<SearchRow> rows;        // best first
  std::vector<SearchRow> pareto;      // time against memory, fastest first
  std::vector<std::string> failures;  // searchers without a plan, and why
  std::vector<std::string> notes;
  CostSources kernel_sources;  // of the fastest that was found exhaustively
  int64_t candidates = 0, evaluated = 0, infeasible = 0, pruned = 0, local_steps = 0;
  RealSeconds took;  // to search
  bool interrupted = false;
  double device_watts = 0;  // rated; 0: energy is not asked for
  std::string software;     // stack and release that is assumed; empty: none
  std::string network;      // tier of a network model that rows are simulated with; empty: none
  Bytes device_memory;      // all of a device's; zero: not known
};

// What the allocator reserves where that is more than the device has; empty: it is not.
std::string Overflow(const SearchReport& report, const SearchRow& row);
// Of an iteration, at most: the devices' rated power over all of it.
double Joules(const SearchReport& report, const SearchRow& row);

std::string SearchText(const SearchReport& report, size_t top, const TextStyle& style);
std::string SearchJson(const SearchReport& report);
// The first two of its mappings side by side.
std::string CompareText(const SearchReport& report, const TextStyle& style);

// The picture as a timeline file, by its ending (timeline_writer.h).
absl::Status WritePictureTimeline(const std::string& path, const PipelinePicture& picture);

// Where the kernel times of one mapping come from, in a sentence.
std::string SourcesNote(std::string_view of, const CostSources& sources);

}  // namespace foretrace
