#pragma once
// What an importer of one trace format is. To add a format: implement Importer in its own folder
// and add one line to registry.cpp.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/hardware/occupancy_table.h"
#include "simulator/importers/io/byte_source.h"
#include "simulator/trace/builder.h"

namespace foretrace {

struct ImportOptions {
  // Refuse input that needs repairs, naming the first of each kind.
  bool strict = false;
  // Ranks imported at once; the result does not depend on it.
  int jobs = 1;
  // YAML with `groups: [{name: "1", ranks: [0, 1]}]`; replaces declared groups of the same name.
  std::string process_groups_file;
  InputLimits limits;
  // Patterns of the shell (*.pickle) for names of files and folders to pass over in folders.
  std::vector<std::string> ignore;
  // Called with the number of files done and the number of files; from any thread, one at a time.
  std::function<void(int done, int total)> progress;
  std::stop_token stop;  // ends between two files with Cancelled
  // Keep what the linker needs (ImportedFile::link_keys). ImportTraces sets it when both an
  // execution trace and a profile are among the inputs.
  bool keep_link_keys = false;
  // Limits of devices by the name that a trace gives; null: none, but ImportTraces sets it.
  const OccupancyTable* occupancy = nullptr;
};

// What a file says about its rank.
enum class TraceRole : uint8_t {
  kComplete,  // graph and times, or a symbolic graph: a rank by itself (Chakra)
  kProfile,   // times and device activity (Kineto)
  kGraph,     // operators, tensors and parents without times (PyTorch execution trace)
};

// By which an operator of an execution trace is found in a profile of the same run.
struct LinkKey {
  NodeIndex node;                // as returned by the builder
  int64_t record_function = -1;  // "rf_id", "Record function id"; -1 unknown
  int64_t external_id = -1;      // "External id"; -1 unknown
  int64_t thread = 0;            // thread as numbered by the file
};

// One file, read but not yet built: the linker may still add to it.
struct ImportedFile {
  std::unique_ptr<RankTraceBuilder> builder;
  RankTraceBuilder::Options build_options;
  TraceRole role = TraceRole::kComplete;
  // Rank declared inside the file; builder->info().rank is set from it, from the file's name or
  // from the user by ImportTraces.
  std::optional<int32_t> rank;
  std::vector<LinkKey> link_keys;  // CPU operators in file order; only with keep_link_keys
};

class Importer {
 public:
  virtual ~Importer() = default;
  virtual std::string_view name() const = 0;
  // The role of every file of this format.
  virtual TraceRole role() const { return TraceRole::kComplete; }
  // Whether `prefix`, the first bytes of the decompressed input (64 KiB where there are as many),
  // is this format. The file name is a last resort for formats without any mark.
  virtual bool Sniff(std::string_view prefix, std::string_view filename) const = 0;
  // `source` names the input in messages and in RankInfo::source. Never crashes on bad input: one
  // clear error naming source, place and cause.
  virtual absl::StatusOr<ImportedFile> Import(ByteSource& input, const std::string& source,
                                              const ImportOptions& options) const = 0;
};

// Every importer, in the order in which they are asked.
std::vector<std::unique_ptr<Importer>> AllImporters();

// The constructors of the importers, one per format.
std::unique_ptr<Importer> MakeKinetoImporter();
std::unique_ptr<Importer> MakePytorchEtImporter();
std::unique_ptr<Importer> MakeChakraImporter();
std::unique_ptr<Importer> MakeChakraJsonImporter();

}  // namespace foretrace
