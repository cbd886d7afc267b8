#include "simulator/calibrate/csv_schema.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "simulator/base/collective_op.h"
#include "simulator/base/dtype.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/embedding/embedding_rows.h"

namespace foretrace {
namespace {

struct OpSchema {
  BenchmarkKind kind;
  std::string_view op;
  // Space-separated keys; those after '|' hold text, all others integers; a final '?' marks an
  // optional key.
  std::string_view keys;
};

// sms: multiprocessors that the kernel takes, 0 where it takes what it needs.
constexpr std::string_view kExchangeKeys =
    "tokens hidden top_k experts ranks nodes groups groups_of_token sms multiprocessors "
    "nvlink_GBps nic_GBps | algorithm";

// calibration/README.md documents the same table.
constexpr OpSchema kSchemas[] = {
    {BenchmarkKind::kKernel, "linear", "m n k bias? across? | quantised?"},
    {BenchmarkKind::kKernel, "bmm", "b m n k across?"},
    {BenchmarkKind::kKernel, "conv2d",
     "n c h w k r s stride pad dilation groups order? | gradient?"},
    {BenchmarkKind::kKernel, "attention", "b heads kv_heads sq skv d causal | impl"},
    {BenchmarkKind::kKernel, "layer_norm", "rows cols"},
    {BenchmarkKind::kKernel, "softmax", "rows cols"},
    {BenchmarkKind::kKernel, "batch_norm", "n c h w"},
    {BenchmarkKind::kKernel, "dropout", "elements inputs | op?"},
    {BenchmarkKind::kKernel, "elementwise", "elements inputs | op"},
    {BenchmarkKind::kKernel, "reduction", "rows cols | op"},
    {BenchmarkKind::kKernel, "concat", "parts elements"},
    {BenchmarkKind::kKernel, "copy", "elements"},
    {BenchmarkKind::kKernel, "transpose", "b m n"},
    {BenchmarkKind::kKernel, "index", "n rows cols"},
    {BenchmarkKind::kKernel, "tril", "n b"},
    {BenchmarkKind::kKernel, "memcpy", "bytes pinned | direction"},
    {BenchmarkKind::kMemory, "memcpy", "bytes pinned | direction"},
    {BenchmarkKind::kKernel, "optimizer", "params tensors | op impl"},
    {BenchmarkKind::kEmbedding, "embedding", "tables b | e d l weights rf unique?"},
    {BenchmarkKind::kExchange, "dispatch", kExchangeKeys},
    {BenchmarkKind::kExchange, "combine", kExchangeKeys},
    {BenchmarkKind::kExchange, "dispatch_notify", kExchangeKeys},
    {BenchmarkKind::kExchange, "combine_notify", kExchangeKeys},
    {BenchmarkKind::kOverhead, "overhead", "depth? bytes? | name op?"},
};
constexpr std::string_view kCollectiveKeys =
    "bytes ranks nodes inplace | placement splits? oneway?";

bool IsCollective(std::string_view op) {
  for (int i = 1; i < static_cast<int>(CollectiveOp::kCount); ++i) {
    if (Name(static_cast<CollectiveOp>(i)) == op) return true;
  }
  return false;
}

std::string Collectives() {
  std::string names;
  for (int i = 1; i < static_cast<int>(CollectiveOp::kCount); ++i)
    names += (i > 1 ? ", " : "") + std::string(Name(static_cast<CollectiveOp>(i)));
  return names;
}

struct Key {
  std::string_view name;
  bool text = false;
  bool optional = false;
};

std::vector<Key> ParseKeys(std::string_view keys) {
  std::vector<Key> result;
  bool text = false;
  while (!keys.empty()) {
    const size_t space = std::min(keys.find(' '), keys.size());
    std::string_view word = keys.substr(0, space);
    keys.remove_prefix(std::min(space + 1, keys.size()));
    if (word == "|") {
      text = true;
      continue;
    }
    const bool optional = word.ends_with('?');
    if (optional) word.remove_suffix(1);
    result.push_back({word, text, optional});
  }
  return result;
}

absl::Status CheckKeys(const BenchmarkRow& row, std::string_view schema) {
  const std::vector<Key> keys = ParseKeys(schema);
  for (const Key& key : keys) {
    const auto text = row.shape.Text(key.name);
    if (!text) {
      if (key.optional) continue;
      return InvalidInput("{} needs the shape key '{}' (keys: {})", row.op, key.name, schema);
    }
    if (!key.text && !row.shape.Int(key.name)) {
      return InvalidInput("shape key '{}' is '{}', not an integer", key.name, *text);
    }
    if (!key.text && *row.shape.Int(key.name) < 0) {
      return InvalidInput("shape key '{}' is negative ({})", key.name, *text);
    }
  }
  for (const auto& [name, value] : row.shape.entries()) {
    const bool known = std::ranges::find(keys, std::string_view(name), &Key::name) != keys.end();
    if (!known) {
      return InvalidInput("{} has no shape key '{}' (keys: {})", row.op, name, schema);
    }
  }
  return absl::OkStatus();
}

// Times a thousandfold too small or too large show in the bandwidth that they imply.
absl::Status CheckCollective(const BenchmarkRow& row) {
  const int64_t bytes = *row.shape.Int("bytes");
  const int64_t ranks = *row.shape.Int("ranks");
  const int64_t nodes = *row.shape.Int("nodes");
  const std::string_view placement = *row.shape.Text("placement");
  if (bytes == 0) return InvalidInput("bytes is 0: leave out empty messages");
  if (ranks < 2) return InvalidInput("a collective of {} ranks; it needs at least 2", ranks);
  if (nodes < 1 || nodes > ranks) return InvalidInput("{} nodes for {} ranks", nodes, ranks);
  if (placement != "node" && placement != "cross") {
    return InvalidInput("placement is '{}', not node or cross", placement);
  }
  if ((placement == "cross") != (nodes > 1)) {
    return InvalidInput("placement is {} with {} nodes", placement, nodes);
  }
  const double gbps = static_cast<double>(bytes) / row.time_us * 1e-3;
  constexpr double kImplausiblyFast = 2e4;
  if (gbps > kImplausiblyFast) {
    return InvalidInput(
        "{} bytes in {} us is {:.0f} GB/s: are the times in milliseconds or seconds? "
        "time_us takes microseconds",
        bytes, row.time_us, gbps);
  }
  constexpr double kImplausiblySlow = 0.01;
  constexpr int64_t kLarge = 16 << 20;
  if (gbps < kImplausiblySlow && bytes >= kLarge) {
    return InvalidInput(
        "{} bytes in {} us is {:.2g} GB/s: are the times in nanoseconds? time_us "
        "takes microseconds",
        bytes, row.time_us, gbps);
  }
  return absl::OkStatus();
}

// What is moved at least, for the units: each distinct row once.
absl::Status CheckEmbedding(const BenchmarkRow& row) {
  auto sample = SampleOfRow(row);
  if (!sample.ok()) return sample.status();
  double lookups = 0, bytes = 0;
  for (const TableLookup& t : sample->query.tables) {
    lookups += sample->calls * t.batch * t.pooling;
    bytes += sample->calls * t.batch * t.dim * 4;  // pooled vectors
  }
  const double gbps = bytes / row.time_us * 1e-3;
  constexpr double kImplausiblyFast = 2e4;
  if (gbps > kImplausiblyFast) {
    return InvalidInput(
        "pooled vectors of {:.0f} bytes in {} us are {:.0f} GB/s: are the times in "
        "milliseconds or seconds? time_us takes microseconds",
        bytes, row.time_us, gbps);
  }
  constexpr double kImplausiblySlow = 1e5;  // lookups a second
  if (lookups > 1e5 && lookups / row.time_us * 1e6 < kImplausiblySlow) {
    return InvalidInput(
        "{:.0f} lookups in {} us: are the times in nanoseconds? time_us takes "
        "microseconds",
        lookups, row.time_us);
  }
  return absl::OkStatus();
}

// Sizes of what a token's experts are on; times by what leaves a rank at least.
absl::Status CheckExchange(const BenchmarkRow& row) {
  const auto of = [&](const char* key) { return *row.shape.Int(key); };
  const std::string_view algorithm = *row.shape.Text("algorithm");
  if (algorithm != "deduplicated" && algorithm != "direct") {
    return InvalidInput("algorithm is '{}', not deduplicated or direct", algorithm);
  }
  for (const char* key : {"tokens", "hidden", "top_k", "ranks", "nodes", "multiprocessors"}) {
    if (of(key) < 1) return InvalidInput("{} is 0", key);
  }
  constexpr std::pair<const char*, int64_t> kMost[] = {
      {"tokens", 1 << 30},  {"hidden", 1 << 24},          {"top_k", 1 << 10},
      {"experts", 1 << 20}, {"ranks", 1 << 20},           {"groups", 1 << 10},
      {"sms", 1 << 16},     {"multiprocessors", 1 << 16}, {"nvlink_GBps", 1 << 20},
      {"nic_GBps", 1 << 20}};
  for (const auto& [key, most] : kMost) {
    if (of(key) > most) return InvalidInput("{} is {}; at most {}", key, of(key), most);
  }
  if (of("top_k") > of("experts")) {
    return InvalidInput("top_k={} of {} experts", of("top_k"), of("experts"));
  }
  if (of("ranks") % of("nodes") != 0 || of("experts") < of("ranks")) {
    return InvalidInput("{} experts on {} ranks of {} nodes: not evenly spread", of("experts"),
                        of("ranks"), of("nodes"));
  }
  if (of("groups_of_token") > of("groups")) {
    return InvalidInput("groups_of_token={} of groups={}", of("groups_of_token"), of("groups"));
  }
  if (of("nvlink_GBps") < 1 || (of("nodes") > 1 && of("nic_GBps") < 1)) {
    return InvalidInput("nvlink_GBps or nic_GBps is 0");
  }
  const bool notify = row.op.find("notify") != std::string::npos;
  if (notify && (algorithm != "deduplicated" || of("nodes") == 1)) {
    return InvalidInput("{} is of deduplicated exchanges between nodes", row.op);
  }
  const double gbps = static_cast<double>(of("tokens") * of("hidden")) / row.time_us * 1e-3;
  constexpr double kImplausiblyFast = 2e4;
  if (!notify && gbps > kImplausiblyFast) {
    return InvalidInput(
        "{} tokens of {} values in {} us: are the times in milliseconds or seconds? time_us takes "
        "microseconds",
        of("tokens"), of("hidden"), row.time_us);
  }
  return absl::OkStatus();
}

absl::Status CheckOperands(const BenchmarkRow& row) {
  const int64_t across = row.shape.Int("across").value_or(0);
  if (across <= 2) return absl::OkStatus();
  return InvalidInput("across is {}; of a product's two operands 0, 1 or 2 lie across its sum",
                      across);
}

absl::Status CheckLinear(const BenchmarkRow& row) {
  FORETRACE_RETURN_IF_ERROR(CheckOperands(row));
  const auto quantised = row.shape.Text("quantised");
  if (!quantised) return absl::OkStatus();
  if (*quantised != "tensor" && *quantised != "block") {
    return InvalidInput("quantised is '{}', not tensor or block", *quantised);
  }
  if (ElementSize(ParseDType(row.dtype)) != 1) {
    return InvalidInput("quantised={} with dtype {}: only operands of 8 bits are quantised",
                        *quantised, row.dtype);
  }
  return absl::OkStatus();
}

absl::Status CheckConvolution(const BenchmarkRow& row) {
  const auto gradient = row.shape.Text("gradient");
  if (!gradient) return absl::OkStatus();
  if (*gradient != "input" && *gradient != "weight") {
    return InvalidInput("gradient is '{}', not input or weight", *gradient);
  }
  if (row.phase != Phase::kBackward) {
    return InvalidInput("gradient={} in phase {}: gradients are backward", *gradient,
                        Name(row.phase));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRowShape(const BenchmarkRow& row) {
  if (row.kind == BenchmarkKind::kCollective) {
    if (!IsCollective(row.op)) {
      return InvalidInput("unknown collective '{}'; there are {}", row.op, Collectives());
    }
    if (absl::Status status = CheckKeys(row, kCollectiveKeys); !status.ok()) return status;
    return CheckCollective(row);
  }
  for (const OpSchema& schema : kSchemas) {
    if (schema.kind != row.kind || schema.op != row.op) continue;
    if (absl::Status status = CheckKeys(row, schema.keys); !status.ok()) return status;
    if (row.op == "linear") return CheckLinear(row);
    if (row.op == "bmm") return CheckOperands(row);
    if (row.op == "conv2d") return CheckConvolution(row);
    if (row.kind == BenchmarkKind::kExchange) return CheckExchange(row);
    return row.kind == BenchmarkKind::kEmbedding ? CheckEmbedding(row) : absl::OkStatus();
  }
  // Captured overheads and memory measurements name themselves.
  if (row.kind == BenchmarkKind::kOverhead || row.kind == BenchmarkKind::kMemory) {
    return absl::OkStatus();
  }
  std::string known;
  for (const OpSchema& schema : kSchemas) {
    if (schema.kind == row.kind) known += (known.empty() ? "" : ", ") + std::string(schema.op);
  }
  return InvalidInput("unknown {} operator '{}'; there are {}", Name(row.kind), row.op, known);
}

}  // namespace foretrace
