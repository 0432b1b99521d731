// Leases: real processes that come, go and are killed at any moment never hold more than the budget, and
// everyone gets on.
#include "cli/error.h"
#include "lease/document.h"
#include "lease/lease.h"
#include "support/files.h"
#include "support/mutate.h"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <new>
#include <numeric>
#include <random>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tl;
using namespace tl::lease;

namespace {

Options options(const test::TempFolder &folder, std::int64_t budget) {
  Options result;
  result.folder = folder.path("leases");
  result.budget = budget;
  result.idle = 10;
  result.shared = 100;
  result.output_watched = false;
  return result;
}

const Demand kDemand{0, 200, 10, 2, 50, 4};

/// Starts and measures: holds memory for its first batch then.
std::int64_t start_and_run(Lease &lease, const Demand &demand = kDemand) {
  lease.start(150);
  return lease.run(demand, 100);
}

pid_t child(const std::function<void()> &body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  try {
    body();
    _exit(0);
  } catch (const Error &error) {
    _exit(static_cast<int>(error.code()));
  } catch (...) {
    _exit(99);
  }
}

/// Joins, loads its libraries, which takes `bytes` of its own, and goes on as another program.
std::unique_ptr<Lease> loaded(const Options &before, std::int64_t bytes) {
  auto *const first = new Lease(before); // its program ends without its destructors
  first->load();
  first->pass_on();
  Options after = before;
  after.idle = bytes;
  return Lease::resume(after);
}

int status_of(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Memory that this process and its children see.
template <class T> class Shared {
public:
  Shared() {
    void *memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    value_ = new (memory) T();
  }
  ~Shared() { munmap(value_, sizeof(T)); }
  T *operator->() { return value_; }

private:
  T *value_;
};

template <class Condition> void wait_until(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

std::size_t files_in(const std::string &folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

} // namespace

TEST_CASE("alone, a job gets what it wants, or what fits") {
  const test::TempFolder folder;
  for (const auto &[budget, batch] : {std::pair{5000, 50}, {810, 50}, {809, 49}, {330, 2}}) {
    Lease lease(options(folder, budget));
    CHECK(start_and_run(lease) == batch);
    CHECK(lease.held() == 200 + 10 * batch);
  }
  Lease lease(options(folder, 329)); // 100 shared, 10 for the next one to arrive, 220 for the smallest batch
  lease.start(150);
  CHECK_THROWS_WITH_AS(lease.run(kDemand, 100), doctest::Contains("needs 330 B at least"), Error);
}

TEST_CASE("the next program of a process takes its lease over") {
  const test::TempFolder folder;
  const auto expect = [](bool as_it_should_be) {
    if (!as_it_should_be) throw Error("not");
  };
  CHECK(status_of(child([&] {
          {
            const auto lease = loaded(options(folder, 1000), 60);
            expect(lease->held() == 60 && lease->budget() == 1000);
            expect(!std::getenv("TL_LEASE_DESCRIPTOR"));
            expect(files_in(folder.path("leases")) == 3); // the lease, the budget and the lock
            expect(start_and_run(*lease) == 50);
          }
          expect(files_in(folder.path("leases")) == 2);
        })) == 0);
}

TEST_CASE("a number that is no lease is not taken over") {
  const test::TempFolder folder;
  folder.write("000000000001-1.lease", "{}"); // of another folder
  const int other = open(folder.path("000000000001-1.lease").c_str(), O_RDWR);
  for (const auto &[number, status] : std::vector<std::pair<std::string, int>>{
           {std::to_string(other), 1}, {"1000", 1}, {"1", 2}, {"x", 2}, {"", 2}})
    CHECK(status_of(child([&, number = number] {
            setenv("TL_LEASE_DESCRIPTOR", number.c_str(), 1);
            Lease::resume(options(folder, 1000));
          })) == status);
  close(other);
}

TEST_CASE("who arrives waits until there is room for the libraries that others needed") {
  struct State {
    std::atomic<bool> running{false}, end{false}, second_loaded{false};
  };
  const test::TempFolder folder;
  Shared<State> state;
  const pid_t first = child([&] {
    const auto lease = loaded(options(folder, 1000), 60);
    lease->start(840);
    lease->run({0, 840, 0, 1, 1, 0}, 100); // 1000 less 100 shared, 10 for who arrives next: 50 are left
    state->running = true;
    wait_until([&] { return state->end.load(); });
  });
  wait_until([&] { return state->running.load(); });
  const pid_t second = child([&] {
    Lease lease(options(folder, 0));
    lease.load();
    state->second_loaded = true;
  });
  Directory directory(folder.path("leases"));
  wait_until([&] {
    const Directory::Turn turn(directory);
    const std::vector<Entry> entries = directory.read();
    return entries.size() == 2 && entries[1].demand.fixed == 60;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300)); // one look at least
  CHECK(!state->second_loaded);
  state->end = true;
  CHECK(status_of(first) == 0);
  CHECK(status_of(second) == 0);
  CHECK(state->second_loaded);
}

TEST_CASE("what could never fit is refused at once") {
  const test::TempFolder folder;
  Lease lease(options(folder, 1000));
  CHECK_THROWS_WITH_AS(lease.start(1000), doctest::Contains("raise --memory-budget"), Error);
}

TEST_CASE("the budget is that of the first, and of the file") {
  const test::TempFolder folder;
  CHECK_THROWS_WITH_AS(Lease(options(folder, 0)), doctest::Contains("give --memory-budget"), UsageError);
  {
    Lease first(options(folder, 1000));
    Lease second(options(folder, 0));
    CHECK(second.budget() == 1000);
    CHECK_THROWS_WITH_AS(Lease(options(folder, 2000)), doctest::Contains("share 1000 B, not 2.0 KiB"), Error);
  }
  CHECK(Lease(options(folder, 2000)).budget() == 2000); // nobody is there any more
  folder.write("leases/budget", "3k\n");
  CHECK(Lease(options(folder, 0)).budget() == 3072);
  for (const char *text : {"", "much\n", "0\n", "-5\n", "1G 2G\n", "4G\nmore\n"}) {
    folder.write("leases/budget", text);
    CHECK_THROWS_AS(Lease(options(folder, 0)), FormatError);
  }
}

TEST_CASE("a newcomer gets its half as soon as the other has freed it, and gives it back") {
  const test::TempFolder folder;
  Lease first(options(folder, 1110)); // 1000 for both
  CHECK(start_and_run(first) == 50);
  const pid_t second = child([&] {
    Lease lease(options(folder, 0));
    start_and_run(lease);
    while (lease.adapt(lease.held()) != 30) std::this_thread::yield();
  });
  wait_until([&] { return first.adapt(first.held()) < 50; });
  CHECK(first.held() == 700); // it says that it still has that
  CHECK(first.shrinking());
  wait_until([&] { return first.adapt(200 + 10 * first.batch()) == 30; });
  CHECK(!first.shrinking());
  CHECK(status_of(second) == 0);
  CHECK(first.adapt(first.held()) == 50);
}

TEST_CASE("a job that needs more than was measured is believed") {
  const test::TempFolder folder;
  Lease lease(options(folder, 510)); // 400 usable
  CHECK(start_and_run(lease) == 20);
  lease.adapt(450);
  CHECK(lease.held() == 450);
  CHECK(lease.adapt(450) == 15); // 250 fixed
  CHECK(lease.shrinking());
  lease.adapt(400);
  CHECK(lease.held() == 400);
  CHECK(!lease.shrinking());
}

TEST_CASE("an admin who changes the budget is followed") {
  const test::TempFolder folder;
  Lease lease(options(folder, 810));
  CHECK(start_and_run(lease) == 50);
  folder.write("leases/budget", "610");
  CHECK(lease.adapt(700) == 30);
  folder.write("leases/budget", "100000");
  lease.adapt(500);
  CHECK(lease.adapt(500) == 50);
}

TEST_CASE("kill -9 frees the share at once") {
  const test::TempFolder folder;
  Shared<std::atomic<int>> running;
  const pid_t holder = child([&] {
    Lease lease(options(folder, 1000));
    start_and_run(lease);
    *running.operator->() = 1;
    for (;;) pause();
  });
  wait_until([&] { return running->load() == 1; });
  const pid_t waiting = child([&] {
    Lease lease(options(folder, 0));
    lease.start(700); // does not fit beside the other
  });
  wait_until([&] { return files_in(folder.path("leases")) == 4; }); // budget, lock, two leases
  kill(holder, SIGKILL);
  CHECK(status_of(holder) == 128 + SIGKILL);
  CHECK(status_of(waiting) == 0);
  Lease next(options(folder, 0));
  CHECK(files_in(folder.path("leases")) == 3);
}

TEST_CASE("an interrupt ends the waiting, and so does a reader who leaves") {
  const test::TempFolder folder;
  Lease holder(options(folder, 1000));
  start_and_run(holder);
  const std::atomic<bool> cancelled{true};
  {
    Lease lease(options(folder, 0));
    const CancelScope scope(cancelled);
    CHECK_THROWS_AS(lease.start(700), Interrupted);
  }
  const pid_t pid = child([&] {
    int ends[2];
    if (pipe(ends) != 0) _exit(98);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    Options watched = options(folder, 0);
    watched.output_watched = true;
    Lease lease(watched);
    lease.start(700);
  });
  CHECK(status_of(pid) == static_cast<int>(ExitCode::closed_pipe));
}

TEST_CASE("those that wait are served in order of arrival") {
  const test::TempFolder folder;
  constexpr int kJobs = 6;
  struct Order {
    std::atomic<int> arrived{0}, served{0};
    std::atomic<int> place[kJobs] = {};
  };
  Shared<Order> order;
  std::vector<pid_t> jobs;
  {
    Lease holder(options(folder, 1000));
    start_and_run(holder);
    for (int i = 0; i < kJobs; ++i) {
      jobs.push_back(child([&, i] {
        Lease lease(options(folder, 0));
        order->arrived = i + 1;
        lease.start(600 + 20 * (kJobs - i)); // the later ones need less, and wait all the same
        order->place[i] = ++order->served;
      }));
      wait_until([&] { return order->arrived == i + 1; });
    }
    CHECK(order->served == 0);
  }
  for (const pid_t pid : jobs) CHECK(status_of(pid) == 0);
  for (int i = 0; i < kJobs; ++i) CHECK(order->place[i] == i + 1);
}

namespace {

constexpr int kSlots = 8;
constexpr std::int64_t kBudget = 2000;

/// What the children really use; the parent takes out those that it kills before it does.
struct Usage {
  std::atomic<std::int64_t> used[kSlots] = {};
  std::atomic<int> batches{0};
  std::atomic<bool> arriving{false}; // there is room for one

  std::vector<std::int64_t> read() const { return {std::begin(used), std::end(used)}; }

  /// At one moment: what two looks agree on.
  std::int64_t sum() const {
    for (std::vector<std::int64_t> before = read();;) {
      std::vector<std::int64_t> now = read();
      if (now == before) return std::accumulate(now.begin(), now.end(), std::int64_t{0});
      before = std::move(now);
    }
  }
};

/// A job that takes its time to free memory, as real ones do.
void busy_job(const test::TempFolder &folder, Usage &usage, int slot, unsigned seed) {
  std::mt19937 random(seed);
  const auto upto = [&random](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  Options free_to_wait = options(folder, kBudget); // those who run at their smallest batches cannot make room
  free_to_wait.idle = 0;
  Lease lease(free_to_wait);
  usage.arriving = false;
  lease.start(100);
  usage.used[slot] = 100;
  const Demand demand{0, 100 + upto(200), upto(20), upto(3), 3 + upto(60), static_cast<double>(upto(10))};
  lease.run(demand, 100);
  std::int64_t used = lease.held();
  for (std::int64_t batches = upto(30); batches > 0; --batches) {
    usage.used[slot] = used;
    std::int64_t needed = demand.memory(lease.batch());
    if (used > needed) { // some of it is free now
      used -= upto(used - needed);
      usage.used[slot] = used;
      needed = used;
    }
    lease.adapt(needed);
    used = std::max(used, demand.memory(lease.batch()));
    ++usage.batches;
  }
  usage.used[slot] = 0;
}

} // namespace

TEST_CASE("whatever comes, goes or is killed, the budget is never exceeded and everyone gets on") {
  const test::TempFolder folder;
  Shared<Usage> usage;
  std::mt19937 random(7);
  std::vector<pid_t> jobs(kSlots, 0);
  std::int64_t most = 0;
  unsigned started = 0;
  int killed = 0, finished = 0;
  const auto gone = [&](pid_t &pid, int status) {
    CAPTURE(status);
    REQUIRE((status == 128 + SIGKILL || status == 0)); // also when it has finished just before it was killed
    ++(status == 0 ? finished : killed);
    pid = 0;
  };
  while (finished < 20 || killed < 20) {
    for (int slot = 0; slot < kSlots; ++slot) {
      pid_t &pid = jobs[static_cast<std::size_t>(slot)];
      if (pid == 0 && !usage->arriving) {
        usage->arriving = true;
        pid = child([&, seed = ++started] { busy_job(folder, *usage.operator->(), slot, seed); });
      } else if (pid != 0 && !usage->arriving && random() % 100 == 0) {
        usage->used[slot] = 0; // it is as good as dead, and can no longer say so itself
        kill(pid, SIGKILL);
        gone(pid, status_of(pid));
        usage->used[slot] = 0;
      } else if (int status = 0; pid != 0 && waitpid(pid, &status, WNOHANG) == pid) {
        gone(pid, WIFEXITED(status) ? WEXITSTATUS(status) : 99);
      }
      most = std::max(most, 100 + usage->sum());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200)); // samples, not a busy loop
  }
  for (const pid_t pid : jobs) {
    if (pid == 0) continue;
    kill(pid, SIGKILL);
    status_of(pid);
  }
  CHECK(most <= kBudget);
  CHECK(most > kBudget / 2); // the memory was used
  CHECK(usage->batches > 100);
  CHECK(killed > 0);
  CHECK(finished > 0);
}

TEST_CASE("a lease survives as a document, and every damage to it is found") {
  Entry entry;
  entry.pid = 17;
  entry.state = State::running;
  entry.held = 1000;
  entry.shared = 100;
  entry.batch = 8;
  entry.demand = {1, 2, 3, 4, 5, 6.5};
  const json::Value document = to_json(entry);
  CHECK(to_json(entry_from_json(document, "x")) == document);
  for (const test::Mutation &mutation : test::mutations(document)) {
    CAPTURE(mutation.what);
    CHECK_THROWS_AS(entry_from_json(mutation.document, "x"), FormatError);
  }
  json::Value crossed = document;
  crossed["demand"]["least"] = 6;
  CHECK_THROWS_AS(entry_from_json(crossed, "x"), FormatError);
}

TEST_CASE("rubbish in the folder is no lease; a lease of somebody alive must make sense") {
  const test::TempFolder folder;
  folder.write("leases/notes.txt", "hello");
  folder.write("leases/x-y.lease", "hello");
  const std::string dead = folder.write("leases/000000000003-1.lease", "hello");
  {
    Lease lease(options(folder, 1000));
    CHECK(start_and_run(lease) > 0);
  }
  CHECK(!std::filesystem::exists(dead));
  const std::string alive = folder.write("leases/000000000004-1.lease", "hello");
  Shared<std::atomic<int>> locked;
  const pid_t owner = child([&] {
    const cli::Descriptor file(open(alive.c_str(), O_RDONLY));
    flock(file.get(), LOCK_EX);
    *locked.operator->() = 1;
    for (;;) pause();
  });
  wait_until([&] { return locked->load() == 1; });
  CHECK_THROWS_WITH_AS(Lease(options(folder, 1000)), doctest::Contains("000000000004-1.lease"), FormatError);
  kill(owner, SIGKILL);
  status_of(owner);
}
