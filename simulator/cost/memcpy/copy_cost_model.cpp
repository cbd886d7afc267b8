#include "simulator/cost/memcpy/copy_cost_model.h"

#include <algorithm>
#include <utility>

namespace foretrace {
namespace {

// What a host's last cache still holds of data that its cores have just made, or will take: a core
// then copies at twice the rate that it reads DRAM at (6 to 11 MB on the host of OWLv2's recording:
// 18 to 24 GB/s, where 39 MB on such a host take 11).
constexpr int64_t kCachedBytes = int64_t{16} << 20;
constexpr double kCachedSpeedup = 2;

// Few pinned bytes go to a device with the command itself; from 20 KiB on an engine is started,
// which fetches them. What copies of 128 bytes to 150 MB take on an H100 (the captured jobs of
// traces/README.md: 0.9 us for 4 KiB, 1.4 for 16, 3.2 for 32, 7.2 for 256), as do those of DLRM-8
// (V100) and gpt-oss (B200), as far as they go.
constexpr int64_t kWithTheCommand = int64_t{20} << 10;
constexpr double kCommandUs = 0.85, kCommandGbps = 30, kEngineUs = 2.4;

KernelWork DeviceWork(KernelKind kind, Bytes bytes) {
  KernelWork work;
  work.kind = kind;
  work.written = bytes;
  if (kind == KernelKind::kMemcpy) work.read = bytes;
  return work;
}

}  // namespace

CopyCostModel::CopyCostModel(std::shared_ptr<const KernelModels> kernels,
                             std::shared_ptr<const CopyModels> copies)
    : kernels_(std::move(kernels)), copies_(std::move(copies)) {}

std::optional<Estimate> CopyCostModel::HostCopy(CopyDirection direction, bool pinned,
                                                Bytes bytes) const {
  if (copies_ != nullptr) {
    const std::string_view name = direction == CopyDirection::kHostToDevice ? "htod" : "dtoh";
    if (const auto estimate = copies_->CopyTime(name, pinned, bytes)) return *estimate;
  }
  const MemoryLevel* host = kernels_->device().accelerator.level(MemoryKind::kHost);
  if (host == nullptr) return std::nullopt;
  const double link = host->bandwidth.bytes_per_second() / 1e9 * host->efficiency;
  const double staging =
      host->staging.bytes_per_second() / 1e9 * (bytes.count() <= kCachedBytes ? kCachedSpeedup : 1);
  const double gbps = pinned || staging <= 0 ? link : std::min(link, staging);
  double start_us = host->latency.us(), rate = gbps;
  if (pinned && direction == CopyDirection::kHostToDevice) {
    const bool small = bytes.count() <= kWithTheCommand;
    start_us = small ? kCommandUs : std::max(start_us, kEngineUs);
    if (small) rate = std::min(rate, kCommandGbps);
  }
  return Estimate{SimTime::FromUs(start_us + static_cast<double>(bytes.count()) / (rate * 1e3)),
                  EstimateSource::kAnalytic, true};
}

std::optional<Estimate> CopyCostModel::PeerCopy(Bytes bytes) const {
  const Bandwidth links = kernels_->device().accelerator.links.total();
  if (!(links.bytes_per_second() > 0)) {
    return HostCopy(CopyDirection::kHostToDevice, true, bytes);
  }
  const Estimate within =
      kernels_->Predict(DeviceWork(KernelKind::kMemcpy, bytes), Precision::kFloat32);
  const SimTime over =
      SimTime::FromUs(static_cast<double>(bytes.count()) / (links.bytes_per_second() / 1e6));
  return Estimate{std::max(within.time, over), EstimateSource::kAnalytic, true};
}

std::optional<Estimate> CopyCostModel::ByCore(Bytes bytes) const {
  const MemoryLevel* host = kernels_->device().accelerator.level(MemoryKind::kHost);
  if (host == nullptr || !(host->staging.bytes_per_second() > 0)) return std::nullopt;
  return Estimate{SimTime::FromUs(static_cast<double>(bytes.count()) /
                                  (host->staging.bytes_per_second() / 1e6)),
                  EstimateSource::kAnalytic, true};
}

std::optional<Estimate> CopyCostModel::Predict(const TraceStore&, const RankTrace& rank,
                                               NodeIndex node) const {
  const NodeKind kind = rank.kind(node);
  if (kind != NodeKind::kMemcpy && kind != NodeKind::kMemset) return std::nullopt;
  const WorkAttr* work = rank.work(node);
  if (work == nullptr || work->bytes.count() < 0) return std::nullopt;
  if (kind == NodeKind::kMemset) {
    return kernels_->Predict(DeviceWork(KernelKind::kFill, work->bytes), Precision::kFloat32);
  }
  switch (rank.memcpy_kind(node)) {
    case MemcpyKind::kHostToDevicePinned:
      return HostCopy(CopyDirection::kHostToDevice, true, work->bytes);
    case MemcpyKind::kHostToDevicePageable:
      return HostCopy(CopyDirection::kHostToDevice, false, work->bytes);
    case MemcpyKind::kDeviceToHostPinned:
      return HostCopy(CopyDirection::kDeviceToHost, true, work->bytes);
    case MemcpyKind::kDeviceToHostPageable:
      return HostCopy(CopyDirection::kDeviceToHost, false, work->bytes);
    case MemcpyKind::kDeviceToDevice:
      return kernels_->Predict(DeviceWork(KernelKind::kMemcpy, work->bytes), Precision::kFloat32);
    case MemcpyKind::kPeerToPeer:
      return PeerCopy(work->bytes);
    case MemcpyKind::kHostToHost:
      return ByCore(work->bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace foretrace
