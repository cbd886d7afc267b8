#include "simulator/importers/linker/linker.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/importers/linker/alignment.h"

namespace foretrace {
namespace {

// Names of both sides as ids of one table.
class NameTable {
 public:
  uint32_t Id(std::string_view name) {
    return ids_.try_emplace(std::string(name), static_cast<uint32_t>(ids_.size())).first->second;
  }

 private:
  absl::flat_hash_map<std::string, uint32_t> ids_;
};

class Linker {
 public:
  Linker(const std::vector<LinkKey>& graph_keys, const RankTraceBuilder::Result& graph,
         const std::vector<LinkKey>& profile_keys, RankTraceBuilder& profile)
      : graph_keys_(graph_keys), graph_(graph), profile_keys_(profile_keys), profile_(profile) {
    NameTable names;
    for (const LinkKey& key : graph_keys_) {
      graph_names_.push_back(names.Id(graph_.strings->Get(graph_.trace.name(key.node))));
    }
    for (const LinkKey& key : profile_keys_) {
      profile_names_.push_back(names.Id(profile_.name(key.node)));
    }
  }

  // Partner of each graph key among the profile keys, or -1.
  std::vector<int32_t> Match() const {
    for (const auto id : {&LinkKey::record_function, &LinkKey::external_id}) {
      if (auto match = MatchById(id)) return *std::move(match);
    }
    return MatchByOrder();
  }

 private:
  // By record function id, where these are the ids of the same run: most of them are found and
  // carry the same names.
  std::optional<std::vector<int32_t>> MatchById(int64_t LinkKey::*id) const {
    absl::flat_hash_map<int64_t, int32_t> by_id;
    for (size_t i = 0; i < profile_keys_.size(); ++i) {
      if (profile_keys_[i].*id >= 0) by_id.try_emplace(profile_keys_[i].*id, i);
    }
    std::vector<int32_t> match(graph_keys_.size(), -1);
    size_t found = 0;
    size_t agreed = 0;
    for (size_t i = 0; i < graph_keys_.size(); ++i) {
      const auto it = by_id.find(graph_keys_[i].record_function);
      if (graph_keys_[i].record_function < 0 || it == by_id.end()) continue;
      ++found;
      if (profile_names_[static_cast<size_t>(it->second)] != graph_names_[i]) continue;
      ++agreed;
      match[i] = it->second;
    }
    if (agreed * 100 < found * 95 || agreed * 2 < graph_keys_.size()) return std::nullopt;
    return match;
  }

  using Threads = std::map<int64_t, std::vector<uint32_t>>;  // thread to positions among the keys

  // Keys of each thread in the order in which their operators began.
  Threads ProfileThreads() const {
    Threads threads;
    for (size_t i = 0; i < profile_keys_.size(); ++i) {
      threads[profile_keys_[i].thread].push_back(static_cast<uint32_t>(i));
    }
    for (auto& [thread, keys] : threads) {
      const auto start = [this](uint32_t i) { return profile_.start(profile_keys_[i].node); };
      std::vector<uint32_t> by_id = keys;
      std::stable_sort(by_id.begin(), by_id.end(), [this](uint32_t a, uint32_t b) {
        return profile_keys_[a].external_id < profile_keys_[b].external_id;
      });
      // External ids count beginnings; times are too coarse to order an operator and its callee.
      const bool ids_are_in_order =
          profile_keys_[by_id.front()].external_id >= 0 &&
          std::is_sorted(by_id.begin(), by_id.end(),
                         [&](uint32_t a, uint32_t b) { return start(a) < start(b); });
      if (ids_are_in_order) {
        keys = std::move(by_id);
        continue;
      }
      std::stable_sort(keys.begin(), keys.end(), [&](uint32_t a, uint32_t b) {
        return std::tuple(start(a), -profile_.duration(profile_keys_[a].node)) <
               std::tuple(start(b), -profile_.duration(profile_keys_[b].node));
      });
    }
    return threads;
  }

  // Thread by thread; the two sides number threads differently.
  std::vector<int32_t> MatchByOrder() const {
    Threads graph_threads;
    for (size_t i = 0; i < graph_keys_.size(); ++i) {
      graph_threads[graph_keys_[i].thread].push_back(static_cast<uint32_t>(i));
    }
    Threads profile_threads = ProfileThreads();
    std::vector<const std::vector<uint32_t>*> by_size;
    for (const auto& [thread, keys] : graph_threads) by_size.push_back(&keys);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [](const auto* a, const auto* b) { return a->size() > b->size(); });
    std::vector<int32_t> match(graph_keys_.size(), -1);
    for (const std::vector<uint32_t>* keys : by_size) {
      std::vector<uint32_t> needle;
      for (const uint32_t i : *keys) needle.push_back(graph_names_[i]);
      std::vector<int32_t> best;
      int64_t best_count = 0;
      auto best_thread = profile_threads.end();
      for (auto it = profile_threads.begin(); it != profile_threads.end(); ++it) {
        std::vector<uint32_t> haystack;
        for (const uint32_t i : it->second) haystack.push_back(profile_names_[i]);
        std::vector<int32_t> aligned = AlignNames(needle, haystack);
        const int64_t count = std::count_if(aligned.begin(), aligned.end(),
                                            [](int32_t position) { return position >= 0; });
        if (count <= best_count) continue;
        best_count = count;
        best = std::move(aligned);
        best_thread = it;
      }
      if (best_thread == profile_threads.end()) continue;
      for (size_t i = 0; i < best.size(); ++i) {
        if (best[i] < 0) continue;
        match[(*keys)[i]] = static_cast<int32_t>(best_thread->second[static_cast<size_t>(best[i])]);
      }
      profile_threads.erase(best_thread);
    }
    return match;
  }

  const std::vector<LinkKey>& graph_keys_;
  const RankTraceBuilder::Result& graph_;
  const std::vector<LinkKey>& profile_keys_;
  RankTraceBuilder& profile_;
  std::vector<uint32_t> graph_names_, profile_names_;
};

// The profile's node for each node of the graph; invalid where there is none.
using Partners = std::vector<NodeIndex>;

void CopyTensors(const RankTrace& graph, const Partners& partners, RankTraceBuilder& profile) {
  std::vector<bool> replaced(profile.size(), false);
  for (uint32_t n = 0; n < graph.size(); ++n) {
    if (partners[n].valid() && !graph.tensors(NodeIndex(n)).empty()) {
      replaced[partners[n].value] = true;
    }
  }
  profile.DropTensors(replaced);
  for (uint32_t n = 0; n < graph.size(); ++n) {
    if (!partners[n].valid()) continue;
    for (const Tensor& tensor : graph.tensors(NodeIndex(n))) {
      profile.AddTensor(partners[n], tensor, graph.dims(tensor));
    }
  }
}

void CopyDependencies(const RankTrace& graph, const Partners& partners, RankTraceBuilder& profile) {
  for (uint32_t n = 0; n < graph.size(); ++n) {
    if (!partners[n].valid()) continue;
    for (const Dependency& d : graph.dependencies(NodeIndex(n))) {
      const NodeIndex producer = partners[d.producer.value];
      if (producer.valid()) profile.AddDependency(partners[n], producer, d.kind);
    }
  }
}

// Gives the collectives launched within a linked communication operator what the graph declares:
// sequence number, group, exact sizes and splits.
void CopyCommunication(const RankTraceBuilder::Result& graph, const Partners& partners,
                       RankTraceBuilder& profile) {
  struct Launch {
    uint32_t lane;
    SimTime time;
    size_t comm;
    auto Key() const { return std::tuple(lane, time); }
  };
  std::vector<Launch> launches;
  for (size_t i = 0; i < profile.comm_count(); ++i) {
    const NodeIndex call = profile.launcher(profile.comm_node(i));
    if (call.valid()) launches.push_back({profile.lane(call).value, profile.start(call), i});
  }
  std::stable_sort(launches.begin(), launches.end(),
                   [](const Launch& a, const Launch& b) { return a.Key() < b.Key(); });
  for (uint32_t n = 0; n < graph.trace.size(); ++n) {
    const CommAttr* declared = graph.trace.comm(NodeIndex(n));
    if (declared == nullptr || !partners[n].valid()) continue;
    const uint32_t lane = profile.lane(partners[n]).value;
    const SimTime begin = profile.start(partners[n]);
    const SimTime end = begin + profile.duration(partners[n]);
    const auto first =
        std::lower_bound(launches.begin(), launches.end(), std::tuple(lane, begin),
                         [](const Launch& l, const auto& key) { return l.Key() < key; });
    // Several kernels in one operator share its work in a way the graph does not tell.
    if (first == launches.end() || first->lane != lane || first->time > end) continue;
    const auto next = first + 1;
    if (next != launches.end() && next->lane == lane && next->time <= end) continue;
    CommAttr attr = profile.comm(first->comm);
    if (declared->bytes_in.count() > 0) attr.bytes_in = declared->bytes_in;
    if (declared->bytes_out.count() > 0) attr.bytes_out = declared->bytes_out;
    if (declared->sequence >= 0) attr.sequence = declared->sequence;
    if (declared->dtype != DType::kUnknown) attr.dtype = declared->dtype;
    if (attr.group_size == 0) attr.group_size = declared->group_size;
    const std::string_view group = graph.strings->Get(declared->group);
    if (!group.empty()) attr.group = profile.Intern(group);
    profile.ReplaceComm(first->comm, attr, graph.trace.in_splits(*declared),
                        graph.trace.out_splits(*declared));
  }
}

}  // namespace

absl::Status LinkGraphIntoProfile(ImportedFile graph, ImportedFile& profile) {
  RankTraceBuilder& builder = *profile.builder;
  FORETRACE_ASSIGN_OR_RETURN(const RankTraceBuilder::Result result,
                             graph.builder->Build(graph.build_options));
  const std::vector<int32_t> match =
      Linker(graph.link_keys, result, profile.link_keys, builder).Match();
  Partners partners(result.trace.size());
  size_t linked = 0;
  Diagnostics& diagnostics = builder.diagnostics();
  diagnostics.Merge(result.diagnostics);
  for (size_t i = 0; i < match.size(); ++i) {
    const NodeIndex node = graph.link_keys[i].node;
    if (match[i] >= 0) {
      partners[node.value] = profile.link_keys[static_cast<size_t>(match[i])].node;
      ++linked;
      continue;
    }
    diagnostics.Add(Repair::kUnlinkedOperator, [&] {
      return fmt::format(
          "{}: node {} ({}) is not in {}", result.trace.info().source, result.trace.source_id(node),
          Excerpt(result.strings->Get(result.trace.name(node)), 80), builder.info().source);
    });
  }
  // One of the two may cover more of the run; but most of the shorter must be in the longer.
  const size_t fewer = std::min(graph.link_keys.size(), profile.link_keys.size());
  if (linked * 2 < std::max<size_t>(fewer, 1)) {
    return InvalidInput(
        "{} and {} are not of one run: they have {} of {} operators in common; "
        "remove one of them",
        result.trace.info().source, builder.info().source, linked, fewer);
  }
  CopyTensors(result.trace, partners, builder);
  CopyDependencies(result.trace, partners, builder);
  CopyCommunication(result, partners, builder);
  for (const ProcessGroup& group : result.trace.process_groups()) builder.AddProcessGroup(group);
  RankInfo& info = builder.info();
  info.world_size = std::max(info.world_size, result.trace.info().world_size);
  info.producer = fmt::format("{} + {} ({} of {} operators linked)", result.trace.info().producer,
                              info.producer, linked, match.size());
  info.source += " + " + result.trace.info().source;
  return absl::OkStatus();
}

}  // namespace foretrace
