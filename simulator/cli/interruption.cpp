#include "simulator/cli/interruption.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <ctime>

namespace foretrace {
namespace {

constexpr int kEnd = SIGUSR1;  // to the watcher alone: nothing more to watch

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, kEnd}) sigaddset(&set, number);
  return set;
}

}  // namespace

Interruption::Interruption() {
  // A shell's background jobs begin with SIGINT ignored; who sends it to one means it.
  signal(SIGINT, SIG_DFL);
  // A file beyond the limit of sizes (ulimit -f) is then an error of writing (EFBIG).
  signal(SIGXFSZ, SIG_IGN);
  const sigset_t set = Watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watcher_ = std::thread([this] { Watch(); });
}

Interruption::~Interruption() {
  pthread_kill(watcher_.native_handle(), kEnd);
  watcher_.join();
}

void Interruption::Watch() {
  const sigset_t set = Watched();
  int number = 0;
  if (sigwait(&set, &number) != 0 || number == kEnd) return;
  exit_code_ = 128 + number;
  source_.request_stop();
  const timespec patience{0, 800'000'000};
  if (sigtimedwait(&set, nullptr, &patience) == kEnd) return;
  constexpr char kText[] = "foretrace: interrupted\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(128 + number);
}

}  // namespace foretrace
