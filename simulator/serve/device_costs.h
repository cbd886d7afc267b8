#pragma once
// What kernels and transfers take on the devices of a deployment, as the step model asks for it.

#include <cstdint>
#include <optional>
#include <string>

#include "simulator/base/collective_op.h"
#include "simulator/base/estimate.h"
#include "simulator/base/units.h"
#include "simulator/cost/collective/expert_exchange.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/workload/weight_format.h"

namespace foretrace::serve {

// Attention of a device's heads over sequences that are alike.
struct AttentionShape {
  bool decode = false;  // one token each over `tokens` in the cache; else a prompt of as many
  bool latent = false;  // over latents of 512 elements and 64 rotated (DeepSeek-V2)
  int64_t heads = 0, kv_heads = 0, depth = 0, window = 0;  // window 0: all tokens
  int64_t kv_width = 2;                                    // bytes of an element of keys and values
  double sequences = 1, tokens = 0;
};

// The experts' GEMMs of a device for `tokens` of all that share them; sizes before sharding.
struct ExpertShape {
  int64_t hidden = 0, ffn = 0, experts = 0, top_k = 0, tensor = 1, expert = 1, tokens = 0;
  WeightFormat weights = WeightFormat::kModel;
};

// Thread-safe.
class DeviceCosts {
 public:
  virtual ~DeviceCosts() = default;
  virtual Estimate Kernel(const KernelWork& work) const = 0;
  // A GEMM whose weights are stored so and were measured so, with what its kernels do to its
  // other operand.
  virtual std::optional<Estimate> Gemm(const KernelWork& /*work*/, WeightFormat) const {
    return std::nullopt;
  }
  // Whether its units multiply such weights as they are, by operands of 8 bits; else they are
  // unpacked to the model's precision.
  virtual bool Multiplies(WeightFormat) const { return false; }
  // Where they were measured as one operator.
  virtual std::optional<Estimate> Attention(const AttentionShape&) const { return std::nullopt; }
  virtual std::optional<Estimate> Experts(const ExpertShape&) const { return std::nullopt; }
  // Among `ranks` neighbours; `bytes` as TransferSpec::bytes defines it. Among one nothing.
  virtual Estimate Collective(CollectiveOp op, int32_t ranks, Bytes bytes) const = 0;
  // Dispatch or combine of DeepEP over routing.ranks neighbours; routing.nodes follows from where
  // they are. nullopt: the devices have not the links for it.
  virtual std::optional<Estimate> ExpertTransfer(const ExpertExchange&) const {
    return std::nullopt;
  }
  // Of all links of a device to `ranks` - 1 neighbours, one direction, where a switch connects
  // them; zero: it does not.
  virtual Bandwidth SwitchBandwidth(int32_t /*ranks*/) const { return Bandwidth(); }
  // From a device to one `distance` devices on.
  virtual Estimate Send(int32_t distance, Bytes bytes) const = 0;
  // What a kernel takes of energy above an idle device's, and that power; 0: not known.
  virtual double JoulesAboveIdle(DType, Flop, Bytes, SimTime) const { return 0; }
  virtual double IdleWatts() const { return 0; }
  // 0: not known.
  virtual int32_t Multiprocessors() const { return 0; }
  virtual std::string Source() const = 0;
};

}  // namespace foretrace::serve
