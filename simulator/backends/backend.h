#pragma once
// A backend as a data file: what it is, which patterns it runs as one kernel, and how it fuses
// (Collage, section 2.3: pattern, and pattern rule of an operator checker and a fusion checker).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/backends/pattern.h"
#include "simulator/base/shipped.h"
#include "simulator/base/time.h"

namespace foretrace {

enum class BackendKind : uint8_t { kLibrary, kCompiler, kCount };
std::string_view Name(BackendKind kind);

// Classes of operators in fusion, with TVM's order (relay/op_attr_types.h): a group has the highest
// class of its members.
enum class FusionClass : uint8_t {
  kElementwise = 0,
  kBroadcast = 1,
  kInjective = 2,
  kReduction = 3,
  kFusable = 4,  // TVM's OutEWiseFusable: convolutions and GEMMs
  kTuple = 7,
  kOpaque = 8,
};

// Which operators the backend runs at all, and which may follow a group of a class.
struct FusionRule {
  std::map<std::string, FusionClass> classes;
  std::map<FusionClass, std::vector<FusionClass>> fuses;
  int32_t max_ops = 256;
};

struct Backend {
  std::string name;
  std::string file;
  BackendKind kind = BackendKind::kLibrary;
  std::string device;                // "cuda", "cpu"
  std::vector<std::string> aliases;  // names of it in tables of measured costs
  std::vector<Pattern> patterns;
  FusionRule rule;                 // no classes: none
  std::vector<Constraint> checks;  // of every operator that it runs
  bool inference_only = false;     // cannot take part in training steps
  // What each of its kernels adds to its time, where not what those of others do: of kernels that
  // are launched together, say.
  std::optional<SimTime> launch;
};

inline constexpr ShippedKind kBackendFiles = {"backend", "topologies/backends", ".yaml"};

// Errors name file and key: unknown keys, patterns that ParsePattern refuses, neither patterns nor
// a rule, a constraint on an operator that no pattern has (it could never hold).
absl::StatusOr<Backend> LoadBackend(const std::string& file);
absl::StatusOr<Backend> ParseBackend(const std::string& text, const std::string& file);

}  // namespace foretrace
