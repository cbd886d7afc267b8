#include "simulator/importers/pytorch_et/data_flow.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace foretrace::pytorch_et {
namespace {

constexpr int64_t kUserScope = 7;
// Parts of one storage tracked apart; beyond that the oldest are forgotten.
constexpr size_t kMaxWriters = 4096;

// Entry and exit times of a walk over the tree: a is below b iff enter[b] <= enter[a] < exit[b].
class Ancestry {
 public:
  explicit Ancestry(const std::vector<int32_t>& parents)
      : enter_(parents.size()), exit_(parents.size()) {
    const size_t n = parents.size();
    // Parents precede children, so sizes of subtrees add up from the back and places from the
    // front.
    std::vector<uint32_t> size(n, 1);
    for (size_t i = n; i-- > 0;) {
      if (parents[i] >= 0) size[static_cast<size_t>(parents[i])] += size[i];
    }
    std::vector<uint32_t> next(n);
    uint32_t root = 0;
    for (size_t i = 0; i < n; ++i) {
      uint32_t& place = parents[i] >= 0 ? next[static_cast<size_t>(parents[i])] : root;
      enter_[i] = place;
      exit_[i] = place + size[i];
      place = exit_[i];
      next[i] = enter_[i] + 1;
    }
  }
  bool IsBelow(uint32_t node, uint32_t ancestor) const {
    return node != ancestor && enter_[ancestor] <= enter_[node] && enter_[node] < exit_[ancestor];
  }

 private:
  std::vector<uint32_t> enter_, exit_;
};

bool IsAllocation(std::string_view name) {
  for (const std::string_view prefix :
       {"aten::empty", "aten::new_empty", "aten::resize_", "aten::_empty"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// Bit i: argument i is written, by the "(a!)" of the operator's schema.
uint64_t MutatedBySchema(std::string_view schema) {
  uint64_t mask = 0;
  const size_t open = schema.find('(');
  if (open == std::string_view::npos) return 0;
  int depth = 0;
  int argument = 0;
  size_t begin = open + 1;
  for (size_t i = open; i < schema.size(); ++i) {
    const char c = schema[i];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if ((c == ',' && depth == 1) || depth == 0) {
      std::string_view text = schema.substr(begin, i - begin);
      while (text.starts_with(' ')) text.remove_prefix(1);
      begin = i + 1;
      if (text != "*") {  // the mark before keyword-only arguments
        if (text.find("!)") != std::string_view::npos && argument < 64) {
          mask |= uint64_t{1} << argument;
        }
        ++argument;
      }
      if (depth == 0) break;
    }
  }
  return mask;
}

class Tracker {
 public:
  Tracker(const Document& document, const std::vector<int32_t>& parents,
          const std::vector<int32_t>& owners)
      : document_(document), parents_(parents), owners_(owners), ancestry_(parents) {}

  std::vector<Edge> Run() {
    const auto n = static_cast<uint32_t>(document_.nodes.size());
    std::vector<uint32_t> last_below(n);
    for (uint32_t i = 0; i < n; ++i) last_below[i] = i;
    for (uint32_t i = n; i-- > 0;) {
      if (parents_[i] < 0) continue;
      uint32_t& last = last_below[static_cast<size_t>(parents_[i])];
      last = std::max(last, last_below[i]);
    }
    producers_.resize(n);
    for (uint32_t i = 0; i < n; ++i) {
      if (Counts(i)) Begin(i);
      for (auto at = static_cast<int64_t>(i); at >= 0 && last_below[static_cast<size_t>(at)] == i;
           at = parents_[static_cast<size_t>(at)]) {
        if (Counts(static_cast<uint32_t>(at))) End(static_cast<uint32_t>(at), last_below);
      }
    }
    AddWaits();
    return std::move(edges_);
  }

 private:
  struct Writer {
    int64_t begin, end;
    uint32_t node;
  };
  struct Storage {
    std::vector<Writer> writers;
    int64_t last_reader = -1;
  };

  // Operators below a communication belong to it; user ranges compute nothing.
  bool Counts(uint32_t i) const {
    const Node& node = document_.nodes[i];
    if (owners_[i] >= 0) return owners_[i] == static_cast<int32_t>(i);
    return node.scope != kUserScope && node.tensors_count > 0;
  }

  std::span<const TensorRef> Tensors(uint32_t i) const {
    const Node& node = document_.nodes[i];
    return std::span(document_.tensors).subspan(node.tensors_begin, node.tensors_count);
  }
  static bool IsReal(const TensorRef& t) { return t.storage > 0 && t.elements > 0; }
  static bool Overlap(const Writer& w, const TensorRef& t) {
    return w.begin < t.end_byte() && t.begin_byte() < w.end;
  }

  void Begin(uint32_t i) {
    for (const TensorRef& t : Tensors(i)) {
      if (t.is_output || !IsReal(t)) continue;
      const auto it = storages_.find(t.storage);
      if (it == storages_.end()) continue;
      for (const Writer& w : it->second.writers) {
        if (Overlap(w, t)) producers_[i].push_back({t.storage, w.node});
      }
    }
  }

  uint64_t Mutated(uint32_t i) {
    const Node& node = document_.nodes[i];
    const std::string_view name = document_.strings.Get(node.name);
    if (owners_[i] >= 0) {
      // c10d:: schemas do not mark what they write: it is the first argument, the output or the
      // tensors reduced in place.
      return name == "c10d::send" ? 0 : 1;
    }
    const std::string_view schema = document_.strings.Get(node.schema);
    if (schema.empty()) return name.ends_with('_') && !name.ends_with("__") ? 1 : 0;
    const auto [it, inserted] = mutated_.try_emplace(node.schema, 0);
    if (inserted) it->second = MutatedBySchema(schema);
    return it->second;
  }

  void End(uint32_t i, const std::vector<uint32_t>& last_below) {
    const bool leaf = last_below[i] == i || owners_[i] >= 0;
    for (const auto& [storage, producer] : producers_[i]) {
      const Storage& s = storages_[storage];
      const bool read_below =
          s.last_reader >= 0 && ancestry_.IsBelow(static_cast<uint32_t>(s.last_reader), i);
      if (!read_below && producer != i) edges_.push_back({i, producer, DependencyKind::kData});
    }
    for (const auto& [storage, producer] : producers_[i]) {
      int64_t& reader = storages_[storage].last_reader;
      if (reader < 0 || !ancestry_.IsBelow(static_cast<uint32_t>(reader), i)) reader = i;
    }
    producers_[i].clear();
    producers_[i].shrink_to_fit();
    const uint64_t mutated = Mutated(i);
    for (const TensorRef& t : Tensors(i)) {
      if (!IsReal(t)) continue;
      if (t.is_output) {
        if (IsAmongInputs(i, t.storage)) {
          if (owners_[i] >= 0) Write(i, t, leaf, false);
        } else {
          Write(i, t, leaf, true);
        }
      } else if (t.argument < 64 && ((mutated >> t.argument) & 1) != 0) {
        Write(i, t, leaf, false);
      }
    }
  }

  bool IsAmongInputs(uint32_t i, int64_t storage) const {
    for (const TensorRef& t : Tensors(i)) {
      if (!t.is_output && t.storage == storage) return true;
    }
    return false;
  }

  // `fresh`: the operator returns the storage without having been given it.
  void Write(uint32_t i, const TensorRef& t, bool leaf, bool fresh) {
    std::vector<Writer>& writers = storages_[t.storage].writers;
    if (!leaf) {
      bool allocated_below = false;
      bool written_before = false;
      for (const Writer& w : writers) {
        if (!Overlap(w, t)) continue;
        if (ancestry_.IsBelow(w.node, i)) {
          if (!IsAllocation(document_.strings.Get(document_.nodes[w.node].name))) return;
          allocated_below = true;
        } else {
          written_before = true;
        }
      }
      // Handed through from a place that the trace does not show.
      if (fresh && !allocated_below && written_before) return;
    }
    const int64_t begin = t.begin_byte();
    const int64_t end = t.end_byte();
    if (fresh && leaf) {
      // Storage ids are reused after memory is freed: what was there is gone. Several outputs of
      // one operator may share a storage.
      std::erase_if(writers, [i](const Writer& w) { return w.node != i; });
    }
    Overwrite(writers, begin, end);
    if (writers.size() >= kMaxWriters) writers.erase(writers.begin());
    writers.push_back({begin, end, i});
  }

  // Cuts [begin, end) out of what earlier operators wrote. What a strided write leaves within its
  // range is still found through the writer, which as an in-place operator depends on it.
  static void Overwrite(std::vector<Writer>& writers, int64_t begin, int64_t end) {
    const size_t count = writers.size();
    for (size_t i = 0; i < count; ++i) {
      Writer& w = writers[i];
      if (w.end <= begin || end <= w.begin) continue;
      const Writer right{end, w.end, w.node};
      w.end = std::max(w.begin, begin);
      if (right.begin < right.end) {
        if (w.begin < w.end) {
          writers.push_back(right);
        } else {
          w = right;
        }
      }
    }
    std::erase_if(writers, [](const Writer& w) { return w.begin >= w.end; });
  }

  // record_param_comms "wait" names the collective by sequence number.
  void AddWaits() {
    absl::flat_hash_map<int64_t, uint32_t> latest;
    for (uint32_t i = 0; i < document_.nodes.size(); ++i) {
      const int32_t comm = document_.nodes[i].comm;
      if (comm < 0) continue;
      const CommRecord& record = document_.comms[static_cast<size_t>(comm)];
      if (record.sequence < 0) continue;
      if (!record.is_wait) {
        latest.insert_or_assign(record.sequence, static_cast<uint32_t>(owners_[i]));
      } else if (const auto it = latest.find(record.sequence); it != latest.end()) {
        edges_.push_back({i, it->second, DependencyKind::kSync});
      }
    }
  }

  const Document& document_;
  const std::vector<int32_t>& parents_;
  const std::vector<int32_t>& owners_;
  const Ancestry ancestry_;
  absl::flat_hash_map<int64_t, Storage> storages_;
  absl::flat_hash_map<StringId, uint64_t> mutated_;
  std::vector<std::vector<std::pair<int64_t, uint32_t>>> producers_;  // of open operators
  std::vector<Edge> edges_;
};

}  // namespace

std::vector<int32_t> ParentPositions(const Document& document) {
  std::vector<int32_t> parents(document.nodes.size(), -1);
  for (size_t i = 0; i < parents.size(); ++i) {
    const auto it =
        std::lower_bound(document.nodes.begin(), document.nodes.end(), document.nodes[i].parent,
                         [](const Node& n, uint64_t id) { return n.id < id; });
    if (it == document.nodes.end() || it->id != document.nodes[i].parent) continue;
    const auto position = static_cast<size_t>(it - document.nodes.begin());
    if (position < i) parents[i] = static_cast<int32_t>(position);
  }
  return parents;
}

std::vector<int32_t> CommunicationOwners(const Document& document,
                                         const std::vector<int32_t>& parents) {
  std::vector<int32_t> owners(parents.size(), -1);
  for (size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] >= 0) owners[i] = owners[static_cast<size_t>(parents[i])];
    const int32_t comm = document.nodes[i].comm;
    if (owners[i] < 0 && comm >= 0 && !document.comms[static_cast<size_t>(comm)].is_wait) {
      owners[i] = static_cast<int32_t>(i);
    }
  }
  return owners;
}

std::vector<Edge> FindDependencies(const Document& document, const std::vector<int32_t>& parents,
                                   const std::vector<int32_t>& comm_owners) {
  return Tracker(document, parents, comm_owners).Run();
}

}  // namespace foretrace::pytorch_et
