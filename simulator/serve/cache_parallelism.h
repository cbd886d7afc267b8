#pragma once
// Cache Parallelism (Jeon 2024, section 4.4): keys and values divided over devices by position, the
// rest of a layer over requests. What its decode step moves and takes against tensor and data
// parallelism, on one layer.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "simulator/base/real_quantities.h"
#include "simulator/serve/device_costs.h"
#include "simulator/workload/transformer.h"

namespace foretrace::serve {

// What one device has of a head's attention: the maximum of its scores, the sum of their
// exponentials relative to it, and the weighted mean of its values.
struct PartialAttention {
  double maximum = 0;
  double sum = 0;
  std::vector<double> output;
};
PartialAttention Attend(std::span<const double> scores,
                        std::span<const std::vector<double>> values);
// That of all positions together; exact. Parts have outputs of one size, and one at least is not
// empty (sum 0).
PartialAttention Merge(std::span<const PartialAttention> parts);

// kThesis: as printed, where tensor parallelism's is the total over devices and the all-to-all is
// halved instead of divided. kPerGpu: what one device sends, of both.
enum class VolumeForm : uint8_t { kThesis, kPerGpu };

// Elements that a layer's decode step of `batch` requests moves over `devices`.
double TensorVolume(VolumeForm form, int64_t batch, int64_t hidden, int32_t devices);
double CacheVolume(VolumeForm form, int64_t batch, int64_t hidden, int64_t heads, int32_t devices);

enum class DecodeParallelism : uint8_t { kCache, kData, kTensor, kCount };
std::string_view Name(DecodeParallelism parallelism);

// One layer's decode step. Sequences that do not fit in the devices' memory are brought back from
// the host in their turn (section 4.5.2's eviction).
struct DecodeScenario {
  TransformerConfig model;
  int32_t devices = 4;
  int64_t max_batch = 128;
  int64_t context = 0;       // tokens of a sequence in the mean
  double spread = 0;         // the longest replica's share of keys and values over the mean, less 1
  Bytes kv_memory;           // of a device for this layer
  Bandwidth host_bandwidth;  // to bring evicted sequences back
  int32_t block_tokens = 16;
  RealUs table_per_1000_blocks;  // the host copies a device's block table
  RealUs host;                   // of a step otherwise
};
struct DecodeStep {
  RealUs compute, communication, host;
  int64_t batch = 0;
  RealUs latency() const { return compute + communication + host; }
  double tokens_per_s() const { return static_cast<double>(batch) / latency().us() * 1e6; }
};
DecodeStep DecodeLayer(const DecodeScenario& scenario, DecodeParallelism parallelism,
                       const DeviceCosts& costs);

}  // namespace foretrace::serve
