#include "simulator/importers/framework/device_names.h"

#include <optional>
#include <utility>

namespace foretrace {

namespace {

// Of SYCL's layers below PyTorch's XPU: Unified Runtime, its predecessor and Level Zero, as their
// specifications say. Launches and copies are known by what they issued.
std::optional<RuntimeCall> ParseSyclCall(std::string_view name) {
  static constexpr std::pair<std::string_view, RuntimeCall> kCalls[] = {
      {"urQueueFinish", RuntimeCall::kStreamSynchronize},
      {"piQueueFinish", RuntimeCall::kStreamSynchronize},
      {"zeCommandQueueSynchronize", RuntimeCall::kStreamSynchronize},
      {"zeCommandListHostSynchronize", RuntimeCall::kStreamSynchronize},
      {"urEventWait", RuntimeCall::kEventSynchronize},
      {"piEventsWait", RuntimeCall::kEventSynchronize},
      {"zeEventHostSynchronize", RuntimeCall::kEventSynchronize},
      {"zeFenceHostSynchronize", RuntimeCall::kEventSynchronize},
  };
  for (const auto& [known, call] : kCalls) {
    if (name == known) return call;
  }
  return std::nullopt;
}

}  // namespace

RuntimeCall ParseRuntimeCall(std::string_view name) {
  if (const auto call = ParseSyclCall(name)) return *call;
  // Version suffixes: cudaStreamGetCaptureInfo_v2, cuMemcpyHtoDAsync_v2_ptsz.
  name = name.substr(0, name.find('_'));
  bool known = false;
  for (const std::string_view prefix : {"cuda", "hip", "cu"}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      known = true;
      break;
    }
  }
  if (!known) return RuntimeCall::kOther;
  const bool async = name.find("Async") != std::string_view::npos;
  if (name.starts_with("Memcpy")) {
    return async ? RuntimeCall::kMemcpyAsync : RuntimeCall::kMemcpySync;
  }
  if (name.starts_with("Memset")) return RuntimeCall::kMemset;
  // Stream-ordered allocation never holds the thread for the device.
  if (async && (name.starts_with("Malloc") || name.starts_with("Free"))) return RuntimeCall::kOther;
  static constexpr std::pair<std::string_view, RuntimeCall> kPrefixes[] = {
      {"LaunchKernel", RuntimeCall::kLaunchKernel},
      {"LaunchCooperativeKernel", RuntimeCall::kLaunchKernel},
      {"ModuleLaunch", RuntimeCall::kLaunchKernel},
      {"ExtLaunch", RuntimeCall::kLaunchKernel},
      {"ExtModuleLaunch", RuntimeCall::kLaunchKernel},
      {"HccModuleLaunch", RuntimeCall::kLaunchKernel},
      {"GraphLaunch", RuntimeCall::kGraphLaunch},
      {"StreamSynchronize", RuntimeCall::kStreamSynchronize},
      {"DeviceSynchronize", RuntimeCall::kDeviceSynchronize},
      {"CtxSynchronize", RuntimeCall::kDeviceSynchronize},
      {"EventSynchronize", RuntimeCall::kEventSynchronize},
      {"EventRecord", RuntimeCall::kEventRecord},
      {"EventQuery", RuntimeCall::kEventQuery},
      {"StreamWaitEvent", RuntimeCall::kStreamWaitEvent},
      {"Malloc", RuntimeCall::kMalloc},
      {"HostAlloc", RuntimeCall::kMalloc},
      {"HostMalloc", RuntimeCall::kMalloc},
      {"MemAlloc", RuntimeCall::kMalloc},
      {"Free", RuntimeCall::kFree},
      {"HostFree", RuntimeCall::kFree},
      {"MemFree", RuntimeCall::kFree},
  };
  for (const auto& [prefix, call] : kPrefixes) {
    if (name.starts_with(prefix)) return call;
  }
  return RuntimeCall::kOther;
}

MemcpyKind ParseMemcpyKind(std::string_view name, bool& host_kind_known) {
  const auto has = [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  };
  const bool pageable = has("Pageable");
  host_kind_known = pageable || has("Pinned");
  // Arrays (A) are device memory. HIP's earlier profilers spell the names out.
  if (has("HtoD") || has("HtoA") || has("HostToDevice")) {
    return pageable ? MemcpyKind::kHostToDevicePageable : MemcpyKind::kHostToDevicePinned;
  }
  if (has("DtoH") || has("AtoH") || has("DeviceToHost")) {
    return pageable ? MemcpyKind::kDeviceToHostPageable : MemcpyKind::kDeviceToHostPinned;
  }
  host_kind_known = true;
  // XPU's (pti_view_memcpy_type): memory that the driver does not know, which it stages, and host
  // memory that it does.
  static constexpr std::pair<std::string_view, MemcpyKind> kXpu[] = {
      {"Memcpy M2D", MemcpyKind::kHostToDevicePageable},
      {"Memcpy D2M", MemcpyKind::kDeviceToHostPageable},
      {"Memcpy H2D", MemcpyKind::kHostToDevicePinned},
      {"Memcpy D2H", MemcpyKind::kDeviceToHostPinned},
      {"Memcpy D2D", MemcpyKind::kDeviceToDevice},
  };
  for (const auto& [known, kind] : kXpu) {
    if (name.starts_with(known)) return kind;
  }
  for (const std::string_view within : {"DtoD", "DtoA", "AtoD", "AtoA", "DeviceToDevice"}) {
    if (has(within)) return MemcpyKind::kDeviceToDevice;
  }
  if (has("PtoP")) return MemcpyKind::kPeerToPeer;
  if (has("HtoH")) return MemcpyKind::kHostToHost;
  return MemcpyKind::kUnknown;
}

bool IsCollectiveKernel(std::string_view name) {
  // ncclKernel_AllReduce_RING_LL_Sum_float(...), ncclDevKernel_SendRecv(...), ncclSymDevKernel_...,
  // ncclKernel(ncclDevComm*) and mscclKernel_Sum_half_Simple_false(...) of RCCL,
  // ncclDevKernel_Generic_4(...).
  const size_t space = name.starts_with("void ") ? 5 : 0;
  name.remove_prefix(space);
  const bool library =
      name.starts_with("nccl") || name.starts_with("rccl") || name.starts_with("mscclKernel");
  return library && name.find("Kernel") != std::string_view::npos;
}

}  // namespace foretrace
