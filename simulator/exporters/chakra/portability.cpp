#include "simulator/exporters/chakra/portability.h"

#include <fmt/format.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "chakra.pb.h"
#include "simulator/exporters/chakra/chakra_writer.h"

namespace foretrace {
namespace {

using chakra_wire::NodeType;

constexpr size_t kMostProblems = 20;

struct Item {
  NodeType type = chakra_wire::COMP_NODE;
  bool on_cpu = false;
  int64_t op = -1;
  int64_t size = 0;
  int32_t group = CommView::kAllRanks;
  int32_t peer = -1;
  int32_t tag = 0;
  uint32_t waits_for = 0;
  std::vector<uint32_t> successors;
  std::vector<uint32_t> producers;
};

struct File {
  int32_t rank = 0;
  std::vector<Item> items;
};

int64_t Integer(const chakra_wire::AttributeProto& a) {
  switch (a.value_case()) {
    case chakra_wire::AttributeProto::kInt64Val:
      return a.int64_val();
    case chakra_wire::AttributeProto::kInt32Val:
      return a.int32_val();
    case chakra_wire::AttributeProto::kUint64Val:
      return static_cast<int64_t>(a.uint64_val());
    case chakra_wire::AttributeProto::kBoolVal:
      return a.bool_val() ? 1 : 0;
    default:
      return 0;
  }
}

// What a reader of the schema uses.
Item Decode(const chakra_wire::Node& node) {
  Item item;
  item.type = node.type();
  for (const chakra_wire::AttributeProto& a : node.attr()) {
    if (a.name() == "is_cpu_op") item.on_cpu = Integer(a) != 0;
    if (a.name() == "comm_type") item.op = Integer(a);
    if (a.name() == "comm_size") item.size = Integer(a);
    if (a.name() == "comm_tag") item.tag = static_cast<int32_t>(Integer(a));
    const bool peer =
        a.name() == (node.type() == chakra_wire::COMM_SEND_NODE ? "comm_dst" : "comm_src");
    if (peer) item.peer = static_cast<int32_t>(Integer(a));
    if (a.name() == "pg_name" && !a.string_val().empty()) item.group = std::stoi(a.string_val());
  }
  for (const auto* list : {&node.ctrl_deps(), &node.data_deps()}) {
    for (const uint64_t producer : *list) item.producers.push_back(static_cast<uint32_t>(producer));
  }
  item.waits_for = static_cast<uint32_t>(item.producers.size());
  return item;
}

// Nodes without time, in steps: what may begin begins, until nothing can.
class Run {
 public:
  Run(std::vector<File>& files, const CommView& view, int32_t world)
      : files_(files), ready_(files.size()), busy_(files.size(), false), calls_(files.size()) {
    for (int32_t r = 0; r < world; ++r) members_[CommView::kAllRanks].push_back(r);
    for (const CommView::Group& group : view.groups) members_[group.number] = group.ranks;
  }

  void Execute(Portability& found) {
    for (uint32_t f = 0; f < files_.size(); ++f) {
      for (uint32_t n = 0; n < files_[f].items.size(); ++n) {
        if (files_[f].items[n].waits_for == 0) ready_[f].push(n);
      }
    }
    bool moved = true;
    while (moved) {
      moved = false;
      for (uint32_t f = 0; f < files_.size(); ++f) moved |= Advance(f, found);
    }
    found.never_run = found.nodes - finished_;
    if (found.never_run == 0) return;
    for (const auto& [key, meeting] : open_) {
      const auto& [group, call] = key;
      Problem(found, fmt::format("group {}: its collective {} waits for {} of {} ranks without end",
                                 group, call + 1, members_[group].size() - meeting.members.size(),
                                 members_[group].size()));
    }
    for (uint32_t f = 0; f < files_.size(); ++f) {
      if (receives_[f].empty()) continue;
      Problem(found, fmt::format("rank {}: {} receives have no send of their sender, tag and size",
                                 files_[f].rank, receives_[f].size()));
    }
  }

 private:
  struct Meeting {
    int64_t op = 0;
    int64_t size = 0;
    std::vector<std::pair<uint32_t, uint32_t>> members;  // file, node
  };
  using Message = std::tuple<int32_t, int32_t, int32_t, int64_t>;  // from, to, tag, size

  static void Problem(Portability& found, std::string text) {
    if (found.problems.size() < kMostProblems) found.problems.push_back(std::move(text));
  }

  bool Advance(uint32_t f, Portability& found) {
    bool moved = false;
    std::vector<uint32_t> held;  // one communication at a time
    while (!ready_[f].empty()) {
      const uint32_t n = ready_[f].top();
      ready_[f].pop();
      const Item& item = files_[f].items[n];
      const bool communicates =
          item.type == chakra_wire::COMM_COLL_NODE || item.type == chakra_wire::COMM_SEND_NODE;
      if (communicates && busy_[f]) {
        held.push_back(n);
        continue;
      }
      moved = true;
      Begin(f, n, found);
    }
    for (const uint32_t n : held) ready_[f].push(n);
    return moved;
  }

  void Begin(uint32_t f, uint32_t n, Portability& found) {
    const Item& item = files_[f].items[n];
    const int32_t rank = files_[f].rank;
    if (item.type == chakra_wire::COMM_SEND_NODE) {
      ++sent_[{rank, item.peer, item.tag, item.size}];
      Finish(f, n);
      for (uint32_t g = 0; g < files_.size(); ++g) {
        if (files_[g].rank == item.peer) Receive(g);
      }
    } else if (item.type == chakra_wire::COMM_RECV_NODE) {
      receives_[f].push_back(n);
      Receive(f);
    } else if (item.type == chakra_wire::COMM_COLL_NODE) {
      Meet(f, n, found);
    } else {
      Finish(f, n);
    }
  }

  void Receive(uint32_t f) {
    std::vector<uint32_t> left;
    for (const uint32_t n : std::exchange(receives_[f], {})) {
      const Item& item = files_[f].items[n];
      const auto at = sent_.find({item.peer, files_[f].rank, item.tag, item.size});
      if (at == sent_.end() || at->second == 0) {
        left.push_back(n);
        continue;
      }
      --at->second;
      Finish(f, n);
    }
    receives_[f].insert(receives_[f].end(), left.begin(), left.end());
  }

  void Meet(uint32_t f, uint32_t n, Portability& found) {
    const Item& item = files_[f].items[n];
    const auto group = members_.find(item.group);
    const bool member =
        group != members_.end() && std::ranges::count(group->second, files_[f].rank) > 0;
    if (!member) {
      Problem(found,
              fmt::format("rank {}: node {} names group {}, which is not listed or without it",
                          files_[f].rank, n, item.group));
      Finish(f, n);
      return;
    }
    const std::pair key(item.group, calls_[f][item.group]++);
    Meeting& meeting = open_[key];
    if (meeting.members.empty()) {
      meeting.op = item.op;
      meeting.size = item.size;
    } else if (meeting.op != item.op || meeting.size != item.size) {
      Problem(found,
              fmt::format("group {}: its collective {} is of type {} and {} bytes on rank {}, "
                          "of type {} and {} bytes on rank {}",
                          item.group, key.second + 1, meeting.op, meeting.size,
                          files_[meeting.members.front().first].rank, item.op, item.size,
                          files_[f].rank));
    }
    busy_[f] = true;
    meeting.members.emplace_back(f, n);
    if (meeting.members.size() < group->second.size()) return;
    const std::vector<std::pair<uint32_t, uint32_t>> members = std::move(meeting.members);
    open_.erase(key);
    for (const auto& [file, node] : members) {
      busy_[file] = false;
      Finish(file, node);
    }
  }

  void Finish(uint32_t f, uint32_t n) {
    ++finished_;
    for (const uint32_t s : files_[f].items[n].successors) {
      if (--files_[f].items[s].waits_for == 0) ready_[f].push(s);
    }
  }

  std::vector<File>& files_;
  std::vector<std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>> ready_;
  std::vector<bool> busy_;
  std::vector<std::map<int32_t, int64_t>> calls_;  // collectives begun, by group
  std::map<int32_t, std::vector<int32_t>> members_;
  std::map<std::pair<int32_t, int64_t>, Meeting> open_;
  std::map<Message, int64_t> sent_;
  std::map<uint32_t, std::vector<uint32_t>> receives_;
  int64_t finished_ = 0;
};

absl::StatusOr<File> Read(const std::string& bytes, int32_t rank, Portability& found) {
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  chakra_wire::GlobalMetadata metadata;
  bool clean_end = false;
  using google::protobuf::util::ParseDelimitedFromZeroCopyStream;
  if (!ParseDelimitedFromZeroCopyStream(&metadata, &input, &clean_end)) {
    return absl::InternalError("the first message of an exported file cannot be read");
  }
  File file;
  file.rank = rank;
  chakra_wire::Node node;
  while (ParseDelimitedFromZeroCopyStream(&node, &input, &clean_end)) {
    file.items.push_back(Decode(node));
    if (node.type() == chakra_wire::COMP_NODE && node.duration_micros() == 0) {
      ++found.without_duration;
    }
    node.Clear();
  }
  if (!clean_end) return absl::InternalError("a node of an exported file cannot be read");
  for (uint32_t n = 0; n < file.items.size(); ++n) {
    for (const uint32_t producer : file.items[n].producers) {
      if (producer < file.items.size()) file.items[producer].successors.push_back(n);
    }
  }
  return file;
}

// Collectives that depend on no communication before them, but for the first of their group.
int64_t Unordered(const File& file) {
  int64_t count = 0;
  std::map<int32_t, std::vector<uint32_t>> by_group;
  for (uint32_t n = 0; n < file.items.size(); ++n) {
    if (file.items[n].type == chakra_wire::COMM_COLL_NODE)
      by_group[file.items[n].group].push_back(n);
  }
  // A chain over all of a rank's communication orders each group; it has one head.
  for (const auto& [group, nodes] : by_group) {
    const auto linked = [&](uint32_t n) {
      return std::ranges::any_of(file.items[n].producers, [&](uint32_t p) {
        return file.items[p].type != chakra_wire::COMP_NODE;
      });
    };
    const auto heads = std::ranges::count_if(nodes, [&](uint32_t n) { return !linked(n); });
    count += std::max<int64_t>(heads - 1, 0);
  }
  return count;
}

void Count(const File& file, Portability& found) {
  found.nodes += static_cast<int64_t>(file.items.size());
  for (const Item& item : file.items) {
    const bool collective = item.type == chakra_wire::COMM_COLL_NODE;
    found.collectives += collective ? 1 : 0;
    found.sends += item.type == chakra_wire::COMM_SEND_NODE ? 1 : 0;
    found.receives += item.type == chakra_wire::COMM_RECV_NODE ? 1 : 0;
    if (item.type == chakra_wire::COMP_NODE) continue;
    found.without_size += item.size == 0 ? 1 : 0;
    // ASTRA-sim: Workload::issue_coll_comm.
    constexpr int64_t kRun[] = {chakra_wire::ALL_REDUCE, chakra_wire::ALL_TO_ALL,
                                chakra_wire::ALL_GATHER, chakra_wire::REDUCE_SCATTER,
                                chakra_wire::BROADCAST};
    if (collective && std::ranges::find(kRun, item.op) == std::end(kRun)) ++found.unsupported;
  }
  found.unordered += Unordered(file);
}

}  // namespace

absl::StatusOr<Portability> CheckPortability(const TraceStore& store, const CommView& view) {
  Portability found;
  std::vector<File> files;
  for (const RankTrace& rank : store.ranks()) {
    auto file = Read(EncodeChakra(store, view, rank), rank.info().rank, found);
    if (!file.ok()) return file.status();
    Count(*file, found);
    files.push_back(*std::move(file));
  }
  if (static_cast<size_t>(store.world_size()) > files.size()) {
    found.problems.push_back(
        fmt::format("{} of the job's {} ranks have no trace; other simulators want a file of each",
                    static_cast<size_t>(store.world_size()) - files.size(), store.world_size()));
  }
  if (found.unsupported > 0) {
    found.problems.push_back(
        fmt::format("{} collectives are of types that ASTRA-sim does not run (reduce, gather, "
                    "scatter, barrier)",
                    found.unsupported));
  }
  Run(files, view, store.world_size()).Execute(found);
  return found;
}

}  // namespace foretrace
