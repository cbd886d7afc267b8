#include "simulator/cost/memcpy/copy_cost_model.h"

#include <algorithm>
#include <array>
#include <utility>

namespace foretrace {
namespace {

constexpr double kPayloadShare = 0.85;
// A copy engine's start, and the copy of one core into a pinned buffer (one socket's single-thread
// copy bandwidth, about 6 GB/s on the hosts of these generations).
constexpr double kSetUpUs = 1.5;
constexpr double kStagingGbps = 6;

KernelWork DeviceWork(KernelKind kind, Bytes bytes) {
  KernelWork work;
  work.kind = kind;
  work.written = bytes;
  if (kind == KernelKind::kMemcpy) work.read = bytes;
  return work;
}

}  // namespace

double HostLinkGbps(const GpuPeaks& device) {
  // PCIe x16, GB/s and direction.
  static constexpr std::array<std::pair<std::string_view, double>, 4> kByPrefix = {
      {{"a100", 31.5}, {"a40", 31.5}, {"h100", 63.0}, {"h200", 63.0}}};
  for (const auto& [prefix, gbps] : kByPrefix) {
    if (device.name.starts_with(prefix)) return gbps * kPayloadShare;
  }
  return 15.75 * kPayloadShare;
}

CopyCostModel::CopyCostModel(std::shared_ptr<const KernelModels> kernels,
                             std::shared_ptr<const CopyModels> copies)
    : kernels_(std::move(kernels)), copies_(std::move(copies)) {}

Estimate CopyCostModel::HostCopy(CopyDirection direction, bool pinned, Bytes bytes) const {
  if (copies_ != nullptr) {
    const std::string_view name = direction == CopyDirection::kHostToDevice ? "htod" : "dtoh";
    if (const auto estimate = copies_->CopyTime(name, pinned, bytes)) return *estimate;
  }
  const double link = HostLinkGbps(kernels_->device());
  const double gbps = pinned ? link : std::min(link, kStagingGbps);
  return {SimTime::FromUs(kSetUpUs + static_cast<double>(bytes.count()) / (gbps * 1e3)),
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
    default:
      return std::nullopt;
  }
}

}  // namespace foretrace
