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
  return Estimate{
      SimTime::FromUs(host->latency.us() + static_cast<double>(bytes.count()) / (gbps * 1e3)),
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
