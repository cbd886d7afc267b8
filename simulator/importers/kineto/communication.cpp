#include "simulator/importers/kineto/communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "simulator/base/utf8.h"
#include "simulator/importers/framework/split_bytes.h"

namespace foretrace::kineto {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 60;

// elements * size, or nullopt when either is unknown or out of range.
std::optional<int64_t> BytesOf(std::optional<int64_t> elements, DType dtype) {
  const int64_t size = ElementSize(dtype);
  if (!elements || *elements < 0 || size == 0 || *elements > kMaxBytes / size) return std::nullopt;
  return *elements * size;
}

// Bytes of all tensors of one argument.
std::optional<int64_t> ArgumentBytes(const Event& event, uint32_t argument, DType& dtype) {
  if (argument < event.types.size()) {
    const DType declared = ParseDType(event.types[argument]);
    if (declared != DType::kUnknown) dtype = declared;
  }
  std::optional<int64_t> elements;
  for (const InputDims& dims : event.dims) {
    if (dims.argument != argument || dims.count == 0) continue;
    int64_t count = 1;
    for (uint32_t i = 0; i < dims.count; ++i) {
      const int64_t d = event.dim_values[dims.begin + i];
      if (d < 0 || (d > 0 && count > kMaxBytes / d)) return std::nullopt;
      count *= d;
    }
    elements = std::min(elements.value_or(0), kMaxBytes - count) + count;
  }
  return BytesOf(elements, dtype);
}

// Of a list of rows as text.
std::vector<int64_t> SplitsOf(std::string_view text, std::optional<int64_t> total) {
  const auto rows = json::ParseIntegerList(text);
  return rows && total ? SplitBytes(*rows, *total) : std::vector<int64_t>();
}

// "nccl:send 0->1" and "nccl:recv 0<-1": the second number is the peer.
int64_t PeerFromName(std::string_view name) {
  for (const std::string_view arrow : {"->", "<-"}) {
    const size_t at = name.find(arrow);
    if (at == std::string_view::npos) continue;
    std::string_view peer = name.substr(at + arrow.size());
    peer = peer.substr(0, peer.find_first_not_of("0123456789"));
    return json::ParseInteger(peer).value_or(-1);
  }
  return -1;
}

void SetOperation(std::string_view name, CommInfo& info) {
  if (name.starts_with("send") && !name.starts_with("sendrecv")) {
    info.is_send = true;
  } else if (name.starts_with("recv")) {
    info.is_recv = true;
  } else {
    info.op = ParseCollectiveOp(name);
  }
}

void DescribeFromArguments(const Event& event, CommInfo& info) {
  SetOperation(event.Text(Field::kCollectiveName), info);
  info.dtype = ParseDType(event.Text(Field::kDtype));
  info.bytes_in = BytesOf(event.Integer(Field::kInElements), info.dtype);
  info.bytes_out = BytesOf(event.Integer(Field::kOutElements), info.dtype);
  info.group_size = std::max<int64_t>(0, event.IntegerOr(Field::kGroupSize, 0));
  info.sequence = event.IntegerOr(Field::kSequence, -1);
  info.group = event.Text(Field::kGroupName);
  info.group_description = event.Text(Field::kGroupDescription);
  if (const auto ranks = json::ParseIntegerList(event.Text(Field::kGroupRanks))) {
    info.group_ranks = *ranks;
  }
  // PyTorch looks partners of sends and receives up in the group, but not roots.
  if (info.is_send || info.is_recv) {
    info.peer_rank =
        event.IntegerOr(info.is_recv ? Field::kSourceRank : Field::kDestinationRank, -1);
  } else {
    info.peer = event.IntegerOr(Field::kRootRank, -1);
  }
  info.in_splits = SplitsOf(event.Text(Field::kInSplit), info.bytes_in);
  info.out_splits = SplitsOf(event.Text(Field::kOutSplit), info.bytes_out);
}

// What the other direction must be, where only one is known.
void CompleteBytes(CommInfo& info) {
  if (info.bytes_in && !info.bytes_out) {
    switch (info.op) {
      case CollectiveOp::kAllReduce:
      case CollectiveOp::kBroadcast:
      case CollectiveOp::kReduce:
      case CollectiveOp::kAllToAll:
        info.bytes_out = info.bytes_in;
        break;
      case CollectiveOp::kAllGather:
        if (info.group_size > 0 && *info.bytes_in < kMaxBytes / info.group_size) {
          info.bytes_out = *info.bytes_in * info.group_size;
        }
        break;
      case CollectiveOp::kReduceScatter:
        if (info.group_size > 0) info.bytes_out = *info.bytes_in / info.group_size;
        break;
      default:
        break;
    }
  }
}

// The partner's place in the group; nullopt: not known.
std::optional<size_t> GroupIndex(const CommInfo& info, const std::vector<int64_t>& group) {
  if (info.peer_rank >= 0) {
    const auto at = std::find(group.begin(), group.end(), info.peer_rank);
    if (at != group.end()) return static_cast<size_t>(at - group.begin());
  }
  constexpr int64_t kMostMembers = 1 << 16;
  if (info.peer < 0 || info.peer >= kMostMembers) return std::nullopt;
  return static_cast<size_t>(info.peer);
}

// What one kernel does that serves all that `ranges` describe; of sends and receives, partners and
// bytes. Each operation has a record_param_comms range, an annotation, or both; the former know
// more.
CommInfo Exchange(const std::vector<const CommRange*>& ranges) {
  std::vector<const CommInfo*> operations;
  for (const CommSource source : {CommSource::kRecordParam, CommSource::kAnnotation}) {
    for (const CommRange* range : ranges) {
      const CommInfo& info = range->info;
      if (range->source == source && (info.is_send || info.is_recv)) operations.push_back(&info);
    }
    if (!operations.empty()) break;
  }
  CommInfo exchange;
  for (const CommRange* range : ranges) {
    if (range->source == CommSource::kRecordParam) exchange.FillFrom(range->info);
  }
  if (operations.empty()) return exchange;
  exchange.op = CollectiveOp::kUnknown;
  exchange.is_send = exchange.is_recv = false;
  exchange.peer = operations.front()->peer;
  exchange.peer_rank = operations.front()->peer_rank;
  exchange.dtype = operations.front()->dtype;
  exchange.sequence = -1;
  int64_t sent = 0, received = 0;
  bool all_known = true;
  for (const CommInfo* info : operations) {
    exchange.is_send |= info->is_send;
    exchange.is_recv |= info->is_recv;
    const int64_t bytes = (info->is_send ? info->bytes_in : info->bytes_out).value_or(0);
    int64_t& total = info->is_send ? sent : received;
    total = std::min(kMaxBytes, total + bytes);
    if (exchange.peer != info->peer) exchange.peer = -1;
    if (exchange.peer_rank != info->peer_rank) exchange.peer_rank = -1;
    const auto index = GroupIndex(*info, exchange.group_ranks);
    all_known &= index.has_value();
    if (!index) continue;
    auto& splits = info->is_send ? exchange.in_splits : exchange.out_splits;
    splits.resize(std::max({splits.size(), *index + 1, exchange.group_ranks.size()}));
    // A transfer of unknown size is a transfer all the same.
    splits[*index] = std::min(kMaxBytes, splits[*index] + std::max<int64_t>(bytes, 1));
  }
  if (!all_known) {
    exchange.in_splits.clear();
    exchange.out_splits.clear();
  }
  if (exchange.is_send && exchange.is_recv) {
    exchange.op = CollectiveOp::kSendRecv;
    exchange.is_send = exchange.is_recv = false;
  }
  exchange.bytes_in = sent > 0 ? std::optional(sent) : std::nullopt;
  exchange.bytes_out = received > 0 ? std::optional(received) : std::nullopt;
  return exchange;
}

}  // namespace

void CommInfo::FillFrom(const CommInfo& other) {
  if (!HasOperation() || (op == CollectiveOp::kSendRecv && other.HasOperation())) {
    op = other.op;
    is_send = other.is_send;
    is_recv = other.is_recv;
  }
  if (!bytes_in) bytes_in = other.bytes_in;
  if (!bytes_out) bytes_out = other.bytes_out;
  if (dtype == DType::kUnknown) dtype = other.dtype;
  if (group_size == 0) group_size = other.group_size;
  if (peer < 0) peer = other.peer;
  if (peer_rank < 0) peer_rank = other.peer_rank;
  if (sequence < 0) sequence = other.sequence;
  if (group.empty()) {
    group = other.group;
    group_description = other.group_description;
  }
  if (group_ranks.empty()) group_ranks = other.group_ranks;
  if (in_splits.empty()) in_splits = other.in_splits;
  if (out_splits.empty()) out_splits = other.out_splits;
}

std::optional<CommSource> CommRangeSource(std::string_view name) {
  if (name.starts_with("nccl:")) return CommSource::kAnnotation;
  if (name.starts_with("c10d::")) return CommSource::kC10d;
  if (name == "record_param_comms") return CommSource::kRecordParam;
  return std::nullopt;
}

std::string UnusableArgument(const Event& event) {
  if (!event.Has(Field::kCollectiveName)) return "";
  const DType dtype = ParseDType(event.Text(Field::kDtype));
  const auto is_size = [&](std::string_view text) {
    return BytesOf(json::ParseInteger(text), dtype == DType::kUnknown ? DType::kInt8 : dtype)
        .has_value();
  };
  const auto is_list = [](std::string_view text) {
    if (text.find("...") != std::string_view::npos) return true;
    auto ranks = json::ParseIntegerList(text);
    if (!ranks) return false;
    std::sort(ranks->begin(), ranks->end());
    return (ranks->empty() || ranks->front() >= 0) &&
           std::adjacent_find(ranks->begin(), ranks->end()) == ranks->end();
  };
  const auto fits_ranks = [&](std::string_view text) {
    const auto size = json::ParseInteger(text);
    if (!size || *size < 0) return false;
    const std::string_view list = event.Text(Field::kGroupRanks);
    const auto ranks = json::ParseIntegerList(list);
    return *size == 0 || !is_list(list) || !ranks || ranks->empty() ||
           std::cmp_equal(*size, ranks->size());
  };
  struct Argument {
    Field field;
    const char* key;
    std::function<bool(std::string_view)> usable;
  };
  const Argument arguments[] = {
      {Field::kDtype, "dtype", [&](std::string_view) { return dtype != DType::kUnknown; }},
      {Field::kInElements, "In msg nelems", is_size},
      {Field::kOutElements, "Out msg nelems", is_size},
      {Field::kGroupRanks, "Process Group Ranks", is_list},
      {Field::kGroupSize, "Group size", fits_ranks}};
  for (const Argument& argument : arguments) {
    const std::string_view text = event.Text(argument.field);
    if (text.empty() || argument.usable(text)) continue;
    return fmt::format("\"{}\" is \"{}\"", argument.key, Excerpt(text, 60));
  }
  return "";
}

CommInfo DescribeCommunication(const Event& event, CommSource source) {
  CommInfo info;
  if (event.Has(Field::kCollectiveName)) DescribeFromArguments(event, info);
  std::string_view name = event.Text(Field::kName);
  switch (source) {
    case CommSource::kRecordParam:
      break;
    case CommSource::kKernel:
      if (!info.HasOperation()) info.op = ParseCollectiveOp(name.substr(0, name.find('(')));
      break;
    case CommSource::kAnnotation: {
      name.remove_prefix(std::string_view("nccl:").size());
      SetOperation(name, info);
      if (info.peer < 0) info.peer = PeerFromName(name);
      DType dtype = info.dtype;
      const auto bytes = ArgumentBytes(event, 0, dtype);
      info.dtype = dtype;
      if (info.is_recv) {
        if (!info.bytes_out) info.bytes_out = bytes;
      } else if (!info.bytes_in) {
        info.bytes_in = bytes;
      }
      break;
    }
    case CommSource::kC10d: {
      name.remove_prefix(std::string_view("c10d::").size());
      SetOperation(name, info);
      // The _base_ operators take (output, input, ...), the others their input or in-place tensors
      // first, whose element type a TensorList does not tell.
      if (name.find("base") != std::string_view::npos) {
        info.bytes_out = ArgumentBytes(event, 0, info.dtype);
        info.bytes_in = ArgumentBytes(event, 1, info.dtype);
        if (info.op == CollectiveOp::kAllToAll && event.concrete.size() > 4) {
          // alltoall_base_(output, input, process_group, output_split_sizes, input_split_sizes)
          info.out_splits = SplitsOf(event.concrete[3], info.bytes_out);
          info.in_splits = SplitsOf(event.concrete[4], info.bytes_in);
        }
      }
      break;
    }
  }
  return info;
}

CommInfo ResolveCommunication(const CommInfo& own, const std::vector<CommRange>& ranges,
                              SimTime launch, SimTime previous_launch) {
  CommInfo result = own;
  // Ranges nest a few deep, so that looking back over those that start after the previous
  // collective finds all that matter; one long enclosing c10d range is found by its end.
  std::array<const CommRange*, 3> around{};
  auto it = std::upper_bound(ranges.begin(), ranges.end(), launch,
                             [](SimTime t, const CommRange& r) { return t < r.start; });
  std::vector<const CommRange*> before;
  int looked_at = 0;
  constexpr int kLookBack = 4096;
  while (it != ranges.begin() && ++looked_at <= kLookBack) {
    --it;
    if (it->end > launch) {
      const CommRange*& slot = around[static_cast<size_t>(it->source)];
      if (slot == nullptr) slot = &*it;
    } else if (it->start > previous_launch) {
      before.push_back(&*it);
    } else {
      break;
    }
  }
  for (const CommSource source :
       {CommSource::kRecordParam, CommSource::kC10d, CommSource::kAnnotation}) {
    if (const CommRange* range = around[static_cast<size_t>(source)]) result.FillFrom(range->info);
  }
  const bool described = result.HasOperation() && result.op != CollectiveOp::kSendRecv;
  if (!described) result.FillFrom(Exchange(before));
  CompleteBytes(result);
  return result;
}

}  // namespace foretrace::kineto
