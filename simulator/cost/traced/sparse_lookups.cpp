#include "simulator/cost/traced/sparse_lookups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "simulator/base/contains.h"

namespace foretrace {
namespace {

// Of a thread that gathers; threads are whole warps.
constexpr int64_t kLoadBytes = 16, kWarpBytes = 32 * kLoadBytes;
// Adding along an index: a thread an element, up to so many blocks a multiprocessor
// (aten/src/ATen/native/cuda/Indexing.cu, index_add_cuda_impl).
constexpr int64_t kAddingThreads = 128, kAddingBlocks = 8, kElementBytes = 4;

bool IsLookup(std::string_view name) {
  return ContainsAny(name, {"EmbeddingBag_updateOutputKernel"});
}
bool IsAddition(std::string_view name) { return ContainsAny(name, {"indexFuncLargeIndex<"}); }

// Whether blocks of `launch` add so much.
bool Adds(const SparseLookups::Table& table, const LaunchAttr& launch, const GpuPeaks& device) {
  const int64_t elements = SaturatingProduct({table.lookups, table.bytes / kElementBytes});
  const int64_t most = kAddingBlocks * std::llround(device.sms);
  return std::min((elements - 1) / kAddingThreads + 1, most) == launch.grid[0];
}

}  // namespace

SparseLookups::SparseLookups(const RankTrace& rank, const LaunchFlow& flow,
                             const GpuPeaks& device) {
  FindLookups(rank, flow);
  if (tables_.empty()) return;
  int64_t fewest = INT64_MAX;
  for (const auto& [place, table] : tables_) fewest = std::min(fewest, table.lookups);
  bags_ = flow.rows() > 1 && flow.rows() <= fewest ? flow.rows() : fewest;
  FindWidths(flow);
  FindUpdates(rank, flow, device);
}

// Vectors of lookups meet activations of the same width, most often those right before.
void SparseLookups::FindWidths(const LaunchFlow& flow) {
  constexpr int64_t kBeside = 4;
  std::map<int64_t, int64_t> votes;  // by bytes
  for (size_t i = 0; i < flow.order().size(); ++i) {
    const int64_t bytes = SaturatingProduct({flow.at(i).Columns(bags_), kElementBytes});
    if (bytes % kLoadBytes != 0) continue;
    const bool beside = i + 1 < flow.order().size() && tables_.contains(i + 1);
    votes[bytes] += beside ? kBeside : 1;
  }
  for (auto& [place, table] : tables_) {
    const int64_t widest = table.bytes, narrowest = std::max<int64_t>(widest - kWarpBytes, 0);
    int64_t most = 0;
    for (const auto& [bytes, count] : votes) {
      if (bytes > widest || bytes <= narrowest || count <= most) continue;
      most = count;
      table.bytes = bytes;
    }
  }
  std::map<int64_t, int64_t> widths;
  for (const auto& [place, table] : tables_) ++widths[table.bytes / kElementBytes];
  width_ = Most(widths);
}

void SparseLookups::FindLookups(const RankTrace& rank, const LaunchFlow& flow) {
  std::vector<size_t> open;
  for (size_t i = 0; i < flow.order().size(); ++i) {
    const std::string_view name = flow.name(i);
    if (IsLookup(name)) {
      open.push_back(i);
      places_.push_back(i);
      tables_of_step_ = std::max(tables_of_step_, std::ssize(open));
      continue;
    }
    const int64_t gathered = flow.at(i).gathered;
    if (open.empty() || gathered < 1 || !flow.backward(i)) continue;
    const LaunchAttr& launch = *rank.launch(flow.order()[i]);
    tables_[open.back()] = {gathered, SaturatingProduct({launch.block[0], kLoadBytes})};
    open.pop_back();
  }
}

void SparseLookups::FindUpdates(const RankTrace& rank, const LaunchFlow& flow,
                                const GpuPeaks& device) {
  size_t next = 0, last = 0;  // lookups of the step, counted in places_
  bool updating = false;
  for (size_t i = 0; i < flow.order().size(); ++i) {
    const std::string_view name = flow.name(i);
    if (IsLookup(name)) {
      if (updating) next = last;
      updating = false;
      ++last;
      continue;
    }
    const LaunchAttr* launch = rank.launch(flow.order()[i]);
    if (launch == nullptr || !IsAddition(name)) continue;
    updating = true;
    for (size_t t = next; t < last; ++t) {
      const auto table = tables_.find(places_[t]);
      if (table == tables_.end() || !Adds(table->second, *launch, device)) continue;
      updates_[i] = table->second;
      next = t + 1;
      break;
    }
  }
}

SparseLookups::Table SparseLookups::Lookup(size_t place) const {
  const auto found = tables_.find(place);
  return found == tables_.end() ? Table() : found->second;
}

SparseLookups::Table SparseLookups::Update(size_t place) const {
  const auto found = updates_.find(place);
  return found == updates_.end() ? Table() : found->second;
}

}  // namespace foretrace
