#pragma once
// What choices of shardings add to the partitions of one pass, by kernel and edge, tabulated once
// for a search.

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/dataflow/pass_terms.h"
#include "simulator/dataflow/sharding_problem.h"

namespace foretrace::dataflow {

class PassTable {
 public:
  // What one choice of a kernel adds to its partition.
  struct Added {
    double compute = 0, memory = 0, network = 0, sram = 0;
    double once = 0;              // of an iteration
    double result = 0;            // ns to write or read the result off chip
    double tile = 0;              // bytes
    std::vector<double> convert;  // ns, by layout that consumers read
  };

  // An edge within the pass.
  struct Edge {
    const Tensor* tensor = nullptr;
    size_t from = 0, to = 0;
    double depth = 0;
    std::vector<uint8_t> read;  // by the consumer's choice: index of the producer's layouts
  };

  // All outlive the table. `mask`: the choices that count, also for what the other pass reads.
  PassTable(const ShardingProblem& problem, const System& system, const Formulas& formulas,
            const Mapping& mapping, const ShardingProblem::Mask& mask, Direction pass);

  KernelSet all() const { return all_; }                           // kernels of the pass
  KernelSet needs(size_t kernel) const { return needs_[kernel]; }  // producers within it
  const std::vector<std::string>& layouts(size_t producer) const { return layouts_[producer]; }
  const Edge& edge(size_t id) const { return edges_[id]; }
  const std::vector<Edge>& next_layer() const { return next_; }
  const std::vector<size_t>& into(size_t kernel) const { return into_[kernel]; }
  const std::vector<size_t>& out_of(size_t kernel) const { return out_[kernel]; }
  const std::vector<Added>& added(size_t kernel) const { return added_[kernel]; }  // by choice
  // Of what is done, kernels whose choice matters to what is not.
  KernelSet Frontier(KernelSet set) const;
  // The least computation of the pass's kernels that are not in `set`.
  double RestCompute(KernelSet set) const;

 private:
  Edge EdgeOf(const Tensor& tensor, const std::vector<int>& level);
  void AddEdges();
  void AddKernels();
  void AddInputs();
  Added AddedBy(size_t i, size_t choice) const;
  double ForcedNs(size_t i, size_t choice) const;

  const ShardingProblem& problem_;
  const Workload& workload_;
  const System& system_;
  const Mapping& mapping_;
  const ShardingProblem::Mask& mask_;
  PassTerms terms_;
  KernelSet all_ = 0;
  std::vector<KernelSet> needs_;
  std::vector<std::vector<std::string>> layouts_;
  std::vector<Edge> edges_, next_;
  std::vector<std::vector<size_t>> into_, out_;
  std::vector<std::vector<Added>> added_;
  std::vector<double> least_compute_;
};

}  // namespace foretrace::dataflow
