#include "simulator/importers/memory_snapshot/memory_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/memory_snapshot/pickle_reader.h"

namespace foretrace {
namespace {

constexpr int64_t kLargestSnapshot = int64_t{1} << 30;
constexpr int64_t kLargestBlock = int64_t{1} << 50;

// Snapshots of before PyTorch 2.1 keep the frames of a block in its history.
const std::vector<PickleRef>& FramesOf(const PickleValue& of) {
  const std::vector<PickleRef>& history = of.ListOf("history");
  if (of.Find("frames") == nullptr && !history.empty()) return history.front()->ListOf("frames");
  return of.ListOf("frames");
}

Bytes MemoryLedger::*RoleOf(const PickleValue& of) {
  for (const PickleRef frame : FramesOf(of)) {
    const std::string_view file = frame->Text("filename"), name = frame->Text("name");
    const auto within = [&](std::string_view part) { return file.find(part) != file.npos; };
    if (within("/torch/optim/")) return &MemoryLedger::optimizer;
    if (within("/torch/autograd/") && name.ends_with("backward")) return &MemoryLedger::gradients;
    if (!within("/torch/nn/modules/")) continue;
    const bool made = name == "__init__" || name == "_apply" || name == "to" || name == "cuda" ||
                      name == "reset_parameters";
    if (made) return &MemoryLedger::weights;
    if (name.find("_call_impl") != name.npos || name == "forward") {
      return &MemoryLedger::activations;
    }
  }
  return &MemoryLedger::other;
}

// "train.py:41 forward" of the innermost frame that is none of PyTorch's own.
std::string LineOf(const PickleValue& of) {
  for (const PickleRef frame : FramesOf(of)) {
    const std::string_view file = frame->Text("filename");
    const bool python = file.ends_with(".py");
    if (!python || file.find("/torch/") != std::string_view::npos) continue;
    return fmt::format("{}:{} {}", file.substr(file.rfind('/') + 1), frame->Integer("line"),
                       frame->Text("name"));
  }
  return "";
}

class AllocationHistory {
 public:
  AllocationHistory(const std::string& path, DeviceSnapshot& out) : path_(path), out_(out) {}

  absl::Status AddSegment(const PickleValue& segment) {
    FORETRACE_ASSIGN_OR_RETURN(const int64_t total, Size(segment, "total_size"));
    out_.reserved += Bytes(total);
    int64_t address = segment.Integer("address");
    for (const PickleRef block : segment.ListOf("blocks")) {
      FORETRACE_ASSIGN_OR_RETURN(const int64_t size, Size(*block, "size"));
      if (block->Text("state") == "active_allocated") {
        out_.allocated += Bytes(size);
        live_[block->Integer("address", address)] = {size, LineOf(*block), RoleOf(*block)};
      } else if (block->Text("state") == "inactive") {
        out_.free += Bytes(size);
        out_.largest_free = std::max(out_.largest_free, Bytes(size));
      }
      address += size;
    }
    return absl::OkStatus();
  }

  // From what was allocated at the end back to the beginning, so that what was there before the
  // history began counts.
  absl::Status Replay(const std::vector<PickleRef>& events) {
    Bytes allocated = out_.allocated, reserved = out_.reserved;
    Keep(allocated, reserved, events.size());
    for (size_t i = events.size(); i-- > 0;) {
      const PickleValue& event = *events[i];
      const std::string_view action = event.Text("action");
      if (action == "oom") ++out_.out_of_memory;
      const bool counts = action == "alloc" || action == "free_requested" ||
                          action == "segment_alloc" || action == "segment_map" ||
                          action == "segment_free" || action == "segment_unmap";
      if (!counts) continue;
      FORETRACE_ASSIGN_OR_RETURN(const int64_t size, Size(event, "size"));
      if (action == "alloc") allocated = allocated - Bytes(size);
      if (action == "free_requested") allocated += Bytes(size);
      if (action == "segment_alloc" || action == "segment_map") reserved = reserved - Bytes(size);
      if (action == "segment_free" || action == "segment_unmap") reserved += Bytes(size);
      Keep(allocated, reserved, i);
    }
    out_.events = static_cast<int64_t>(events.size());
    HoldersAt(events);
    return absl::OkStatus();
  }

 private:
  struct Block {
    int64_t size = 0;
    std::string line;
    Bytes MemoryLedger::*role = &MemoryLedger::other;
  };

  absl::StatusOr<int64_t> Size(const PickleValue& of, std::string_view key) const {
    const int64_t size = of.Integer(key, -1);
    if (size >= 0 && size <= kLargestBlock) return size;
    return InvalidInput("{}: a {} that is no size; is it a snapshot of torch.cuda.memory?", path_,
                        key);
  }

  void Keep(Bytes allocated, Bytes reserved, size_t before) {
    if (before_ && allocated <= out_.peak) return;
    before_ = before;
    out_.peak = allocated;
    out_.peak_reserved = reserved;
  }

  // What is live before event `before_`: what is at the end, less what came since, and what went.
  void HoldersAt(const std::vector<PickleRef>& events) {
    for (size_t i = events.size(); i-- > *before_;) {
      const PickleValue& event = *events[i];
      const std::string_view action = event.Text("action");
      if (action == "alloc") live_.erase(event.Integer("addr"));
      if (action == "free_requested")
        live_[event.Integer("addr")] = {event.Integer("size"), "", &MemoryLedger::other};
    }
    // The stack of a free says who freed; who allocated is in the history before.
    for (size_t i = 0; i < *before_; ++i) {
      const PickleValue& event = *events[i];
      if (event.Text("action") != "alloc") continue;
      const auto block = live_.find(event.Integer("addr"));
      if (block == live_.end()) continue;
      block->second.line = LineOf(event);
      block->second.role = RoleOf(event);
    }
    if (!events.empty() && *before_ > 0) {
      const int64_t us =
          events[*before_ - 1]->Integer("time_us") - events.front()->Integer("time_us");
      out_.peak_at = SimTime::FromNs(std::clamp(us, int64_t{0}, int64_t{1} << 40) * 1000);
    }
    std::map<std::string, SnapshotHolder> by_line;
    for (const auto& [address, block] : live_) {
      SnapshotHolder& holder = by_line[block.line];
      holder.line = block.line;
      ++holder.allocations;
      holder.bytes += Bytes(block.size);
      out_.ledger.*block.role += Bytes(block.size);
    }
    for (auto& [line, holder] : by_line) out_.holders.push_back(std::move(holder));
    std::ranges::stable_sort(out_.holders, std::greater(), &SnapshotHolder::bytes);
  }

  const std::string& path_;
  DeviceSnapshot& out_;
  std::map<int64_t, Block> live_;  // by address
  std::optional<size_t> before_;   // the event before which the peak is
};

}  // namespace

absl::StatusOr<std::vector<DeviceSnapshot>> ReadMemorySnapshot(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string bytes, ReadBinaryFile(path, kLargestSnapshot));
  FORETRACE_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Read(bytes, path));
  if (pickle.root().Find("segments") == nullptr) {
    return InvalidInput(
        "{}: no memory snapshot: it has no segments; torch.cuda.memory._dump_snapshot(\"{}\") "
        "after "
        "torch.cuda.memory._record_memory_history() writes one",
        path, path);
  }
  const std::vector<PickleRef>& traces = pickle.root().ListOf("device_traces");
  std::map<int64_t, std::vector<const PickleValue*>> segments;
  for (const PickleRef s : pickle.root().ListOf("segments")) {
    segments[s->Integer("device")].push_back(s);
  }
  for (size_t d = 0; d < traces.size(); ++d) {
    if (!traces[d]->list().empty()) segments.try_emplace(static_cast<int64_t>(d));
  }
  std::vector<DeviceSnapshot> devices;
  for (const auto& [device, owned] : segments) {
    DeviceSnapshot snapshot;
    snapshot.device = device;
    AllocationHistory allocations(path, snapshot);
    for (const PickleValue* segment : owned) {
      FORETRACE_RETURN_IF_ERROR(allocations.AddSegment(*segment));
    }
    const bool history = device >= 0 && static_cast<size_t>(device) < traces.size();
    static const std::vector<PickleRef> kNone;
    FORETRACE_RETURN_IF_ERROR(
        allocations.Replay(history ? traces[static_cast<size_t>(device)]->list() : kNone));
    devices.push_back(std::move(snapshot));
  }
  if (devices.empty()) return Infeasible("{}: nothing was reserved on any device", path);
  return devices;
}

}  // namespace foretrace
