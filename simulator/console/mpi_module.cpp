#include "simulator/console/mpi_module.h"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace foretrace {
namespace {

class MpiProcesses : public Processes {
 public:
  MpiProcesses() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiProcesses() override { MPI_Finalize(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::string Broadcast(std::string text) const override {
    auto bytes = static_cast<uint64_t>(text.size());
    MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    text.resize(bytes);
    // MPI counts are int.
    constexpr uint64_t kPiece = uint64_t{1} << 30;
    for (uint64_t at = 0; at < bytes; at += kPiece) {
      const auto piece = static_cast<int>(std::min(kPiece, bytes - at));
      MPI_Bcast(text.data() + at, piece, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    return text;
  }

  std::vector<std::string> Gather(std::string own) const override {
    const auto count = static_cast<size_t>(size_);
    std::vector<int> sizes(count), offsets(count);
    const auto mine = static_cast<int>(own.size());
    MPI_Allgather(&mine, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
    int total = 0;
    for (size_t i = 0; i < count; ++i) {
      offsets[i] = total;
      total += sizes[i];
    }
    std::string all(static_cast<size_t>(total), '\0');
    MPI_Allgatherv(own.data(), mine, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE,
                   MPI_COMM_WORLD);
    std::vector<std::string> out;
    for (size_t i = 0; i < count; ++i) {
      out.push_back(all.substr(static_cast<size_t>(offsets[i]), static_cast<size_t>(sizes[i])));
    }
    return out;
  }

  bool Any(bool own) const override {
    int value = own ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return value != 0;
  }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace

extern "C" [[gnu::visibility("default")]] Processes* foretrace_start_mpi() {
  return new MpiProcesses();
}
static_assert(std::is_same_v<decltype(foretrace_start_mpi), StartMpi>);

}  // namespace foretrace
