#pragma once
// Tables of measured times in the neutral CSV schema (calibration/README.md). Every public source
// and every capture script is turned into it; nothing later knows a source's own format.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

enum class BenchmarkKind : uint8_t {
  kKernel,
  kCollective,
  kEmbedding,
  kOverhead,
  kMemory,
  kExchange,
  kCount
};
std::string_view Name(BenchmarkKind kind);

enum class Phase : uint8_t { kNone, kForward, kBackward, kOptimizer, kCount };
std::string_view Name(Phase phase);  // kNone is "-"

// The column `shape`: key=value pairs in file order.
class ShapeKeys {
 public:
  // Errors say what is wrong, not where: empty keys, a key twice, no '='.
  static absl::StatusOr<ShapeKeys> Parse(std::string_view text);

  std::optional<std::string_view> Text(std::string_view key) const;
  // nullopt when the key is absent or not a decimal integer that fits.
  std::optional<int64_t> Int(std::string_view key) const;
  const std::vector<std::pair<std::string, std::string>>& entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

struct BenchmarkRow {
  BenchmarkKind kind = BenchmarkKind::kKernel;
  Phase phase = Phase::kNone;
  std::string op;        // "linear", "all_reduce", ...
  std::string platform;  // "a100-sxm4-nvswitch", ...
  std::string dtype;
  ShapeKeys shape;
  double time_us = 0;  // > 0
  double std_us = 0;   // spread of the repeats; 0 unknown
  int64_t repeats = 1;
  std::string library;  // with version where known: "nccl 2.29.2"
  std::string source;   // short name of the measurement's origin: "vtrain"
  int64_t line = 0;     // in its file, for messages
};

struct BenchmarkTable {
  std::string path;
  std::map<std::string, std::string, std::less<>> provenance;  // the leading "# key: value" lines
  std::vector<BenchmarkRow> rows;
};

// Errors, each one line that names file, line, cause and remedy: a wrong header, unknown kinds,
// phases, operators or shape keys, missing shape keys, times that are not positive numbers or that
// are failure sentinels, times in a wrong unit where the implied bandwidth gives it away, duplicate
// rows, no rows.
absl::StatusOr<BenchmarkTable> ParseBenchmarkCsv(std::string_view path, std::string_view text);
// As above. Files above 1 GiB are refused.
absl::StatusOr<BenchmarkTable> ReadBenchmarkCsv(const std::string& path);

// The table as ParseBenchmarkCsv reads it.
std::string BenchmarkCsv(const BenchmarkTable& table);

}  // namespace foretrace
