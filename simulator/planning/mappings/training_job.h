#pragma once
// What search, generate and validate --mappings share: a workload on a platform.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapping_file.h"
#include "simulator/mapping/stack_choices.h"
#include "simulator/topology/platform.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {

namespace CLI {
class App;
}

struct TrainingJobOptions {
  std::string workload;
  std::string platform;
  std::string calibration = "none";
  std::string kernels = "auto";
  int64_t gpus = 0;  // 0: all of the platform
  int32_t global_batch = 0;
  int64_t sequence = 0;   // tokens of a sample; 0: as the model's file states
  double memory_gib = 0;  // 0: as the platform states
  double memory_margin = 0.06;
  std::string stack = "none";  // NAME or NAME@RELEASE (stack_choices.h); "none": none is assumed
  bool compiled = false;       // kernels by torch.compile

  void Register(CLI::App& command);
  void RegisterPlatform(CLI::App& command, bool required);
};

struct TrainingJob {
  ModelFile model;
  ClusterParameters cluster;
  Bytes memory;    // of a device
  Bytes capacity;  // less the margin
  int64_t devices = 1;
  double device_watts = 0;               // rated; 0: not stated
  bool eight_bit_gemms = false;          // the device has units for them
  std::optional<NamedRelease> software;  // in `model` and `cluster` already
  std::vector<std::string> notes;        // what the figures rest on
  std::vector<std::string> files;        // that all of it was read from
};

// What a device and its links attain: rates from the platform, bandwidths of collectives from the
// network model's closed form on it, GEMMs and all-reduces within a node from `kernels`
// (measured_device.h), efficiencies from `calibration` (a file, or "none": defaults). Each choice
// is noted.
struct ClusterChoice {
  std::string platform;
  std::string calibration = "none";
  std::string kernels = "auto";
  int64_t gpus = 0;      // that the platform has to have, where it can grow
  bool experts = false;  // whether mappings may send tokens to experts
};
// `files`, where not null, learns which were read.
absl::StatusOr<ClusterParameters> ClusterOf(const ClusterChoice& choice, DType dtype,
                                            Accelerator* device, int64_t* devices,
                                            std::vector<std::string>& notes,
                                            std::vector<std::string>* files = nullptr);

// What is assumed of kernels beside collectives where the device's are not known; empty: nothing.
std::string BesideNote(const ClusterParameters& cluster);

// Errors: unreadable files; infeasible: more devices than the platform can have.
absl::StatusOr<TrainingJob> LoadTrainingJob(const TrainingJobOptions& options);

// The job's transformer as its software computes it under the mapping (LossOf).
TransformerConfig ModelUnder(const TrainingJob& job, const ParallelMapping& mapping);

// The bytes of all its files: what its evaluations depend on besides options.
absl::StatusOr<std::string> InputBytes(const TrainingJob& job);

// A mapping file, or the words of one ("tp8 pp4 dp2 mb1").
absl::StatusOr<MappingFile> ReadMappingArgument(const std::string& argument, int32_t global_batch);
// The same with what the job's software does by itself where `argument` is words, which stand over
// it; files say all. Errors: such words as its software leaves no place for, or could not follow.
// `notes` learns what of its software's choices the words leave no place for.
absl::StatusOr<MappingFile> ReadMappingArgument(const std::string& argument, int32_t global_batch,
                                                const TrainingJob& job,
                                                std::vector<std::string>& notes);

}  // namespace foretrace
