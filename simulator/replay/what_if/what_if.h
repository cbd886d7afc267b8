#pragma once
// What-if questions on a captured trace.
//
//   --what-if SELECTOR:ACTION          may be repeated; edits apply in order
//   SELECTOR   node_selector.h
//   ACTION
//     xF           F times as long             kind=collective:x0.5, cpu=aten::linear:x0.8
//     =T           as long as T                name=gemm:=12us
//     +T           longer by T                 name=softmax:+3us
//     remove       device work is not done, nor launched     op=aten::dropout:remove
//                  calls cost nothing, and hold nothing where they blocked; the device work that
//                  they issue stays            call=cudaStreamSynchronize:remove
//     fuse         neighbouring kernels of a stream become one, as long as all together, within
//                  each call that op= names    op=Optimizer.step:fuse
//     graph        neighbouring launches become one launch of a graph, likewise
//     stream=N     device work runs on that stream, beside what follows it on its own
//                                              name=embedding_backward:stream=40
//     ranks=N      the communicators of the collectives have N members    comm=dp:ranks=64
//     buckets=S    all-reduces or reduce-scatters hold S: larger ones become several, and smaller
//                  neighbours one; bytes with MB or MiB    comm=dp:buckets=50MB
//     delay=T      the selected ranks start T later (a straggler from the start)
//   T is a number with us, ms or s.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/edit.h"
#include "simulator/network/network_model.h"
#include "simulator/replay/scale/scale_out.h"
#include "simulator/replay/what_if/node_selector.h"

namespace foretrace {

class WhatIf {
 public:
  // Errors: text that does not follow the grammar.
  static absl::StatusOr<WhatIf> Parse(const std::vector<std::string>& texts);

  bool empty() const { return edits_.empty() && !scale_.has_value(); }
  // After all edits, the job on more ranks.
  void SetScaleOut(ScaleOut scale) { scale_ = std::move(scale); }
  const std::optional<ScaleOut>& scale_out() const { return scale_; }
  // The same, but for when the last of more ranks comes.
  WhatIf With(LastArrival last) const;
  WhatIf WithoutScaleOut() const;
  // The job has to be compiled with keep_overheads.
  bool edits_overheads() const;
  // Selects by module: SetModules has to come before Apply.
  bool selects_modules() const;
  void SetModules(const std::shared_ptr<const ModuleMap>& modules);
  // Asks for times of collectives that were not recorded.
  bool resizes_collectives() const;

  // Applies all edits, in order, to a program compiled as `job`, whose communicators learn of
  // collectives that are added. `network` says what collectives of
  // other sizes take; null: none does. Errors: an edit that selects nothing, or nothing that its
  // action could apply to.
  absl::Status Apply(const TraceStore& store, CompiledJob& job, NetworkModel* network,
                     Program& program) const;

 private:
  enum class Action : uint8_t {
    kChange,
    kDelay,
    kRemove,
    kFuse,
    kGraph,
    kStream,
    kRanks,
    kBuckets,
  };
  struct Edit {
    std::string text;
    NodeSelector selector;
    Action action = Action::kChange;
    DurationChange change;
    SimTime delay;
    int64_t number = 0;  // of the stream, of ranks, of bytes
  };

  static absl::StatusOr<Edit> ParseEdit(const std::string& text);
  static ItemSet SelectDeviceWork(const Edit& edit, const TraceStore& store, const CompiledJob& job,
                                  const Program& program);
  // Nodes of device work by rank, whose times an earlier edit has changed.
  struct Changed {
    const Edit* edit = nullptr;
    std::vector<std::pair<uint32_t, NodeIndex>> nodes;  // ascending
  };
  // Notes that `edit` changes the times of `items`. Errors: it undoes all of an earlier edit, which
  // then had no effect.
  static absl::Status NoteChanges(const Edit& edit, const ItemSet& items, const Program& program,
                                  std::vector<Changed>& changes);
  static absl::Status ApplyToDevice(const Edit& edit, const TraceStore& store, CompiledJob& job,
                                    const ItemSet& items, NetworkModel* network, Program& program);
  static absl::Status Restructure(const Edit& edit, const TraceStore& store, const CompiledJob& job,
                                  const ItemSet& items, Program& program);
  static absl::Status ChangeCollectives(const Edit& edit, const TraceStore& store, CompiledJob& job,
                                        const ItemSet& items, NetworkModel* network,
                                        Program& program);
  static absl::StatusOr<size_t> ChangeBuckets(const Edit& edit, const TraceStore& store,
                                              CompiledJob& job, const ItemSet& items,
                                              NetworkModel* network, Program& program);
  static absl::Status ApplyToCpu(const Edit& edit, const TraceStore& store, Program& program);

  std::vector<Edit> edits_;
  std::optional<ScaleOut> scale_;
};

// "12us", "0.5ms", "1s"; false when it is none.
bool ParseTime(std::string_view text, SimTime& time);

}  // namespace foretrace
