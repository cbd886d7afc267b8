#pragma once
// Calibrated durations of the kernels of a trace: from a device node to the call that launched it,
// to the operator, to a time.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/embedding/embedding_model.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/operator/trace_operator.h"
#include "simulator/cost/traced/kernel_calls.h"
#include "simulator/cost/traced/launch_flow.h"
#include "simulator/cost/traced/observed_kernels.h"

namespace foretrace {

// Whether kernels that a library chose for the models' chip are estimated as the kernels that they
// are; kIgnored: by their operators alone, as on another chip, whose library would choose others.
enum class ChosenKernels : uint8_t { kUsed, kIgnored };

// For one trace store, which must outlive the model: durations are worked out at construction, in
// time linear in the nodes, and Predict is an array read.
//
// An operator's predicted time is shared out over the kernels that the recording shows for it: one
// kernel each where the numbers agree; otherwise helpers (layout transforms, adding of split
// reductions, sorting of indices) take what their bytes cost, and the main kernels the rest. Calls
// that are no known operator are taken to read their arguments and write their result once, and
// flagged. Kernels without such a call take the times of kernels like them (kernel_likes.h),
// flagged, or what their launch says (launched_kernels.h), flagged; those without either are left
// to the next model of the chain.
class KernelCostModel : public CostModel {
 public:
  // `embedding` null: lookups are analytic. `mask`: of attention of which the recording does not
  // say which tokens it hides; unknown: as the rest of it suggests.
  KernelCostModel(std::shared_ptr<const KernelModels> models, const TraceStore& store,
                  std::shared_ptr<const EmbeddingModels> embedding = nullptr,
                  ChosenKernels chosen = ChosenKernels::kUsed,
                  AttentionMask mask = AttentionMask::kUnknown);

  std::string_view name() const override { return "kernel"; }
  std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                  NodeIndex node) const override;
  // The class of the operator behind a device node, for reports by class; kOther when unknown.
  KernelKind KindOf(const RankTrace& rank, NodeIndex node) const;
  // The framework call whose operator the node belongs to; invalid when unknown.
  NodeIndex CallOf(const RankTrace& rank, NodeIndex node) const;
  // The lookups of embedding tables, in order of their calls.
  struct Lookup {
    NodeIndex call;
    EmbeddingOp op;
    DType dtype = DType::kFloat32;
    Direction pass = Direction::kForward;
    std::vector<NodeIndex> kernels;  // in order of issue
  };
  std::span<const Lookup> lookups(const RankTrace& rank) const;
  // Calls of attention of which nothing recorded says which tokens a mask hides, by what they are
  // taken for.
  struct AssumedMasks {
    int64_t causal = 0, none = 0;
  };
  const AssumedMasks& assumed_masks() const { return assumed_masks_; }

 private:
  struct Entry {
    Estimate estimate;  // kMissing: no answer
    KernelKind kind = KernelKind::kOther;
    NodeIndex call;
    // What its FLOP take at the rate that the board's power lets last, its bytes at the memory's
    // bandwidth; both zero: its work is not known.
    SimTime lasting, streaming;
    bool limited = false;  // by the board's power, as far as that is known
  };

  std::vector<Entry> Prepare(const TraceStore& store, const RankTrace& rank);
  void SetMask(const TraceStore& store, const RankTrace& rank, const CallKernels& op,
               TracedOperator& traced);
  // GEMMs whose kernel's code was displaced since it last ran.
  void AddCodeFetches(const TraceStore& store, const RankTrace& rank,
                      std::vector<Entry>& entries) const;
  // GEMMs that the board's power holds back, by what ran before them.
  void LimitPower(const RankTrace& rank, std::vector<Entry>& entries) const;
  // What the call's main kernels do. `launched`: estimated by their blocks.
  void NoteWork(const TraceStore& store, const RankTrace& rank, const ObservedKernels& observed,
                bool launched, std::vector<Entry>& entries) const;
  // The GEMMs of a layer of experts, of whose call no more is known than what it is given.
  void AssignExperts(const TraceStore& store, const RankTrace& rank, const CallKernels& op,
                     std::vector<Entry>& entries) const;
  // All-reduces that the call runs as kernels of its own.
  void AssignPeerReductions(const TraceStore& store, const RankTrace& rank, const CallKernels& op,
                            std::vector<Entry>& entries) const;
  // Kernels of that call which have a warp for each bag of a batch.
  void AssignBags(const TraceStore& store, const RankTrace& rank, const OpaqueOp& call,
                  const CallKernels& op, std::vector<Entry>& entries) const;
  // Kernels that no call with shapes says anything of. `flow`: of the rank, where it was looked at.
  void EstimateByLikes(const TraceStore& store, const RankTrace& rank,
                       std::optional<LaunchFlow> flow, std::vector<Entry>& entries) const;
  void Assign(const TraceStore& store, const RankTrace& rank, const TracedOperator& traced,
              const CallKernels& op, std::vector<Entry>& entries) const;
  // Of a write through indices that runs as several kernels, those that sort and that write.
  void AssignIndexedWrites(const TraceStore& store, const RankTrace& rank, const OperatorCall& call,
                           std::span<const NodeIndex> mains, std::vector<Entry>& entries) const;
  // Of chunks of rows of a loss.
  void AssignLosses(const TraceStore& store, const RankTrace& rank, const CallKernels& op,
                    std::vector<Entry>& entries) const;
  // All steps of a recurrence. False: the call is none, or not enough is known.
  bool AssignRecurrence(const TraceStore& store, const RankTrace& rank, const CallKernels& op,
                        std::vector<Entry>& entries) const;
  // Generated kernels say what they do, as do those of calls of which only the tensors are known,
  // or what their launches say.
  void NameKinds(const TraceStore& store, const RankTrace& rank, const OperatorCall& call,
                 std::span<const NodeIndex> kernels, std::vector<Entry>& entries);
  // Of the gradient of a whole table.
  void AssignDenseGradient(const TraceStore& store, const RankTrace& rank, const OperatorCall& call,
                           std::span<const NodeIndex> kernels, std::vector<Entry>& entries) const;
  // Of a convolution all of whose kernels say what they are.
  void AssignConvolution(const TraceStore& store, const RankTrace& rank,
                         const ObservedKernels& observed, const CallKernels& op,
                         std::vector<Entry>& entries) const;
  SimTime Floor() const;  // of any kernel
  SimTime HelperTime(const OperatorCall& call, const KernelList& list, size_t helpers, bool alone,
                     SimTime total) const;
  // The kernels and, apart from them, the sorting of indices.
  struct LookupEstimate {
    Estimate kernels, sort;
  };
  LookupEstimate PredictLookup(const EmbeddingOp& op, DType dtype, Direction pass) const;

  std::shared_ptr<const KernelModels> models_;
  std::shared_ptr<const EmbeddingModels> embedding_;
  const TraceStore* store_;
  ChosenKernels chosen_;
  AttentionMask mask_;
  std::map<std::string, bool> chosen_for_chip_;    // the kernels recorded on a device of that name
  std::map<std::string, GpuPeaks> recorded_;       // that device, else the models'
  std::map<int32_t, std::vector<Entry>> entries_;  // by rank number
  std::map<int32_t, std::vector<Lookup>> lookups_;
  absl::flat_hash_map<uint32_t, KernelKind> named_kinds_;  // by name
  AssumedMasks assumed_masks_;
};

}  // namespace foretrace
