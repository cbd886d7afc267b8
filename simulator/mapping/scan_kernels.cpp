#include "simulator/mapping/scan_kernels.h"

#include "simulator/graph/state_scan.h"

namespace foretrace {

double DecayGemmSeconds(const MappedLayer& layer, const GraphOp& op, const KernelWork& work,
                        const ClusterParameters& cluster) {
  if (op.kind != GraphOpKind::kStateScan) return 0;
  return LeastSecondsOfDecays(ScanOf(layer.graph(), layer.sizes(), op), work,
                              cluster.multiprocessors);
}

KernelList ScanCopies(const MappedLayer& layer, const GraphOp& op) {
  const OperatorGraph& g = layer.graph();
  KernelList list;
  const auto copy = [&](TensorId t, int times) {
    const OperatorCall call{CopyOp{Elements(g, layer.sizes(), t), true}, g.tensor(t).dtype,
                            Direction::kForward};
    for (int i = 0; i < times; ++i) {
      for (const KernelWork& work : Kernels(call)) list.push_back(work);
    }
  };
  for (int i = 0; i < kScanTensors; ++i) copy(op.inputs[static_cast<size_t>(i)], 3);
  copy(op.outputs[0], 2);
  return list;
}

}  // namespace foretrace
