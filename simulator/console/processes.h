#pragma once
// The processes of one job that mpirun started, or this one alone.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

// All processes make the same calls in the same order.
class Processes {
 public:
  virtual ~Processes() = default;
  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  // `text` of process 0.
  virtual std::string Broadcast(std::string text) const { return text; }
  // Everyone's, in order.
  virtual std::vector<std::string> Gather(std::string own) const { return {std::move(own)}; }
  virtual bool Any(bool own) const { return own; }

  // mpirun started this process: its terminal is mpirun's, whose own output may be a file.
  static bool Launched();
  // MPI where mpirun started the process. Errors: foretrace was built without it.
  static absl::StatusOr<std::unique_ptr<Processes>> Start();
};

}  // namespace foretrace
