#pragma once
// The C++ interface of foretrace for other programs: standard types alone, so that a program needs
// this header and libforetrace. What is here keeps its meaning while FORETRACE_API_VERSION stays;
// names live in an inline namespace of that version.
//
//   find_package(foretrace REQUIRED)
//   target_link_libraries(program PRIVATE foretrace::foretrace)
//
// Work runs within the calling process; what a call answers is what the program foretrace prints
// with --json. Traces are imported once (Job::Import) and serve any number of calls. Calls are
// independent and may be made from several threads at once, also on one Job; only --network simgrid
// and MPI, whose libraries have state of their own, allow one call at a time.
//
// Times are in microseconds (names ending in _us), sizes in bytes, shares are fractions of 1.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#define FORETRACE_API_VERSION 1
#define FORETRACE_API [[gnu::visibility("default")]]

namespace foretrace::api {
inline namespace v1 {

// Every failure, with the one line that the program prints.
class FORETRACE_API Error : public std::runtime_error {
 public:
  // Values are the program's exit statuses.
  enum class Kind { kDefect = 1, kBadInput = 2, kInfeasible = 3, kStopped = 130 };
  Error(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ~Error() override;
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// For work that takes long. Both functions are called in the calling thread, while the work goes on
// in another; what they throw ends the work and leaves the call.
struct Control {
  // Told how far what is: the latest state, at most about twenty times a second and once at the
  // end.
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress;
  // Called about twenty times a second.
  std::function<void()> tick;
  // Ends the work where it next looks (between files, candidates, outputs): a search answers with
  // what it has, others fail with Kind::kStopped.
  std::stop_token stop;
};

// An array of objects as columns: integers, numbers (NaN for null), or texts. Members that are
// objects or lists are left out.
struct Table {
  using Values = std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;
  std::vector<std::pair<std::string, Values>> columns;
  // Null where there is no such column.
  FORETRACE_API const Values* Find(std::string_view name) const;
  FORETRACE_API size_t rows() const;
};

// What a command answered: a handle, whose copies share one immutable JSON document. `path` is
// member names with '.' between, such as "critical_path.total_us".
class FORETRACE_API Document {
 public:
  const std::string& json() const;
  // nullopt where the member is absent, null or of another type.
  std::optional<double> Number(std::string_view path) const;
  std::optional<std::string> Text(std::string_view path) const;
  std::vector<std::string> Texts(std::string_view path) const;
  // Errors: the member is no list of objects.
  Table Rows(std::string_view path) const;

  // Errors: not a JSON object.
  static Document Parse(std::string json);

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// Traces of one job: files, folders, tars or zips of ranks.
struct ImportOptions {
  bool strict = false;              // refuse input that needs repairs, and ops without a model
  std::string process_groups;       // YAML with the members of communicators; empty: as recorded
  std::vector<std::string> ignore;  // patterns of names to pass over in folders
  int jobs = 0;                     // files read at once; 0: one per processor
};

// Imported traces: a handle, whose copies share them.
class FORETRACE_API Job {
 public:
  static Job Import(std::vector<std::string> paths, ImportOptions options = {},
                    const Control& control = {});
  int64_t rank_count() const;  // that have a trace
  int64_t world_size() const;  // that the job has
  int64_t node_count() const;
  // What `foretrace inspect` says of them.
  const Document& inspection() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  explicit Job(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// A command as the command line takes it, without `foretrace` and --json.
//   Run({"collective", "all_reduce", "--topology", "dgx-a100", "--bytes", "1M"})
// RunOn: a command that reads TRACES (predict, validate, inspect, convert, calibrate
// trace-overheads), on those that were imported; `options` are the rest of its command line.
FORETRACE_API Document Run(const std::vector<std::string>& arguments, const Control& control = {});
FORETRACE_API Document RunOn(const Job& job, const std::string& command,
                             const std::vector<std::string>& options, const Control& control = {});

// What a command prints without --json.
FORETRACE_API std::string RunText(const std::vector<std::string>& arguments,
                                  const Control& control = {});

// What predict and validate take, with the words and defaults of the command line.
struct SimulationOptions {
  std::string semantics;             // full, algorithm1
  std::vector<std::string> without;  // ingredients to leave out
  bool aligned_start = false;
  bool allow_missing_ranks = false;
  std::string overheads;             // recorded, or a file
  std::vector<std::string> what_if;  // SELECTOR:ACTION
  std::string platform;              // file or name
  std::string network;               // recorded, fitted, fluid, simgrid
  std::vector<std::string> durations, calibrations;
  std::vector<std::string> arguments;  // further options, as on the command line
};

struct Iteration {
  int64_t number = 0;
  double iteration_time_us = 0;
  std::optional<double> recorded_iteration_time_us;
  int64_t slowest_rank = 0;
};

class FORETRACE_API Prediction : public Document {
 public:
  explicit Prediction(Document document) : Document(std::move(document)) {}
  double iteration_time_us() const;  // of the slowest rank, between its marks on the CPU
  double step_time_us() const;       // in steady state where one is known, else the iteration's
  std::optional<double> recorded_iteration_time_us() const;
  double baseline_us() const;  // the busiest stream's sum
  std::vector<Iteration> iterations() const;
  std::vector<std::string> notes() const { return Texts("notes"); }
};
FORETRACE_API Prediction Predict(const Job& job, const SimulationOptions& options = {},
                                 const Control& control = {});

// The same run without and with edits.
struct Answer {
  Prediction before, after;
  double saved_us() const { return before.step_time_us() - after.step_time_us(); }
};
FORETRACE_API Answer WhatIf(const Job& job, std::vector<std::string> edits,
                            const SimulationOptions& options = {}, const Control& control = {});

// What the step owes to each op, communicator, CPU op and synchronisation (predict --sensitivity).
FORETRACE_API Prediction Sensitivity(const Job& job, const SimulationOptions& options = {},
                                     const Control& control = {});

// Predicted against the steps that the traces recorded.
FORETRACE_API Document Validate(const Job& job, const SimulationOptions& options = {},
                                const Control& control = {});

struct SearchOptions {
  std::string workload;  // file
  std::string platform;  // file or name
  int64_t global_batch = 0;
  int64_t gpus = 0;                    // 0: all of the platform
  std::vector<std::string> searchers;  // empty: those of the kind of model
  std::vector<std::string> arguments;  // further options, as on the command line
};
struct FoundMapping {
  std::string mapping;  // in words
  double iteration_time_us = 0;
  int64_t memory_bytes_max = 0;  // of the fullest device
};
class FORETRACE_API SearchResult : public Document {
 public:
  explicit SearchResult(Document document) : Document(std::move(document)) {}
  std::vector<FoundMapping> mappings() const;  // best first
};
FORETRACE_API SearchResult Search(const SearchOptions& options, const Control& control = {});

struct ShardOptions {
  std::string task;                   // file
  std::vector<std::string> sharders;  // empty: all
  std::optional<uint64_t> seed;
  std::vector<std::string> arguments;  // further options, as on the command line
};
struct FoundPlan {
  std::string sharder;
  double iteration_time_us = 0;
  int64_t memory_bytes_max = 0;  // of the fullest GPU
};
class FORETRACE_API ShardResult : public Document {
 public:
  explicit ShardResult(Document document) : Document(std::move(document)) {}
  std::vector<FoundPlan> plans() const;  // best first
};
FORETRACE_API ShardResult Shard(const ShardOptions& options, const Control& control = {});

// Of the library: "0.1.0".
FORETRACE_API std::string Version();

}  // namespace v1
}  // namespace foretrace::api
