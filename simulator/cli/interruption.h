#pragma once
// Ctrl-C and kill, in one place for every command.

#include <atomic>
#include <stop_token>
#include <thread>

namespace foretrace {

// While it lives, the first SIGINT or SIGTERM asks `token()` to stop, and a command that does not
// end within a second, or a second signal, ends the process with 128 + the signal's number, as
// shells do. Nothing half written remains: outputs have no name before they are whole
// (base/atomic_file.h). Make it before any other thread.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  // 0 before a signal, else 128 + its number.
  int exit_code() const { return exit_code_; }

 private:
  void Watch();

  std::stop_source source_;
  std::atomic<int> exit_code_ = 0;
  std::thread watcher_;
};

}  // namespace foretrace
