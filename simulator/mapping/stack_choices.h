#pragma once
// What a release of training software does by itself (software_stack.h), put into a model, a
// mapping and a cluster.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/parallel_mapping.h"
#include "simulator/mapping/software_stack.h"

namespace foretrace {

struct NamedRelease {
  std::string stack;  // SoftwareStack::name
  std::string file;   // that it was read from; empty: none
  StackRelease release;

  // "nemo since v25.02", or the name alone; both with what Compile did.
  std::string Text() const;
};

// Of "NAME" the newest release for the run, of "NAME@RELEASE" the last that is not later; NAME as
// FindShipped takes it. Errors: no stack has that name, or its file is bad; no release is so early,
// or written so.
absl::StatusOr<NamedRelease> NamedReleaseOf(const std::string& text, const StackRun& run);
// The same of the stack that NAME is.
absl::StatusOr<NamedRelease> ReleaseOf(const SoftwareStack& stack, const std::string& text,
                                       const StackRun& run);

// Kernels by torch.compile where software leaves that to its users.
void Compile(StackRelease& release);

// Whether exchanges of tensor parallelism can go part by part beside GEMMs: kernels of userbuffers
// and of symmetric memory read and write other devices' memory, which those of a node have in reach
// (Transformer Engine, common/comm_gemm_overlap/userbuffers, whose domain is joined by NVLink;
// PyTorch, torch/distributed/_symmetric_memory).
inline bool RunsInParts(const ParallelMapping& mapping, int32_t devices_per_node) {
  return mapping.tensor <= devices_per_node;
}

// Which kernels and formats it takes.
void SetKernels(const StackRelease& release, TransformerConfig& model);
// The loss that it computes under the mapping, where that depends on what is trained.
LossForm LossOf(const StackRelease& release, const ParallelMapping& mapping);
// A GEMM over an odd vocabulary loads its operands element by element.
void PadVocabulary(const StackRelease& release, int32_t tensor, TransformerConfig& model);
// Schedule, overlap, sequence parallelism, rings (of what is not exchanged all to all) and formats
// of gradients, by the mapping's degrees; what is divided (zero) and recomputed stays. Returns what
// it would do and cannot under the mapping, for people; empty: nothing.
std::string SetChoices(const StackRelease& release, const TransformerConfig& model,
                       ParallelMapping& mapping);
// How tokens go to experts and what hides it, where the mapping divides experts; with software that
// does not send them all to all experts are whole where they would be divided. Part of SetChoices.
void SetDispatch(const StackRelease& release, const TransformerConfig& model,
                 ParallelMapping& mapping);
// What is divided where a run does not say, or as `zero` says of runs without pipelines.
int32_t DividedAs(const StackRelease& release, int32_t zero, const ParallelMapping& mapping);
// Under zero 3, weights are divided among `shards` replicas where that leaves copies. Returns why
// not, where experts are in the way; else nothing.
std::string DivideAmong(int32_t shards, ParallelMapping& mapping);
// Whether the release could do what a mapping's words say of kept inputs. Infeasible, with a
// remedy.
absl::Status CheckInputsOf(const StackRelease& release, const ParallelMapping& mapping);
// On a cluster of devices with that chip.
void SetCluster(const StackRelease& release, const std::string& chip, ClusterParameters& cluster);

}  // namespace foretrace
