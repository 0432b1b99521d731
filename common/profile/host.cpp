#include "profile/host.h"

#include "cli/error.h"
#include "profile/stream.h"
#include "runtime/clock.h"
#include "runtime/host.h"
#include "runtime/tensor.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

namespace tl::profile {

namespace {

// Below this a core runs a reference BLAS: even old cores reach twice as much with a tuned one.
constexpr double kSlowGflopsPerCore = 8;

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos && line.compare(0, 10, "model name") == 0) return line.substr(colon + 2);
  }
  return "unknown";
}

struct Timing {
  double median = 0, best = 0; // seconds
};

/// A few calls after a warm-up.
Timing time_calls(const std::function<void()> &work) {
  work();
  std::vector<double> seconds;
  const Stopwatch total;
  while (seconds.size() < 3 || (seconds.size() < 15 && total.seconds() < 0.3)) {
    const Stopwatch watch;
    work();
    seconds.push_back(watch.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front()};
}

struct Speed {
  double usual = 0; // GFLOP/s, of the largest matrices
  double best = 0;  // of any call: what the implementation can do when nobody else uses the cores
};

/// Grows the matrices until a product takes long enough to be measured, so that neither a fast nor
/// a very slow implementation (bf16 without instructions for it) takes more than a moment.
Speed product_speed(at::ScalarType type) {
  const at::InferenceMode inference;
  Speed speed;
  for (std::int64_t n = 128; n <= 2048; n *= 2) {
    const at::Tensor a = torch::randn({n, n}).to(type), b = torch::randn({n, n}).to(type);
    const Stopwatch once;
    at::mm(a, b);
    if (once.seconds() > 0.5 && speed.usual > 0) break;
    const Timing timing = time_calls([&] { at::mm(a, b); });
    const double operations = 2.0 * std::pow(static_cast<double>(n), 3) / 1e9;
    speed.usual = operations / timing.median;
    speed.best = std::max(speed.best, operations / timing.best);
    if (timing.median > 0.05) break;
  }
  return speed;
}

/// Bytes copied a second, all threads together, from memory to memory.
double copy_bandwidth(int threads) {
  constexpr std::int64_t kBlock = 64 << 20; // larger than most caches
  std::vector<Tensor> from, to;
  for (int i = 0; i < threads; ++i) {
    from.push_back(Tensor::empty(DType::u8, {kBlock / threads}));
    to.push_back(Tensor::empty(DType::u8, {kBlock / threads}));
    std::memset(from.back().data.get(), 1, from.back().bytes());
  }
  const Timing timing = time_calls([&] {
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < from.size(); ++i)
      workers.emplace_back([&, i] { std::memcpy(to[i].data.get(), from[i].data.get(), from[i].bytes()); });
    for (std::thread &worker : workers) worker.join();
  });
  return static_cast<double>(from[0].bytes()) * threads / timing.median;
}

} // namespace

plan::HostProfile measure_host(int threads) {
  plan::HostProfile host;
  host.cpu = processor_name();
  host.cores = usable_cores();
  host.memory_bytes = usable_memory();
  const int before = at::get_num_threads();
  at::set_num_threads(threads > 0 ? threads : host.cores);
  const Speed speed = product_speed(at::kFloat);
  host.blas = {speed.usual, at::get_num_threads()};
  check_interrupt();
  host.bf16 = plan::ProductSpeed{product_speed(at::kBFloat16).usual, at::get_num_threads()};
  at::set_num_threads(before);
  host.blas_slow = speed.best < kSlowGflopsPerCore * std::min(host.blas.threads, host.cores);
  check_interrupt();
  host.memory_bandwidth = copy_bandwidth(host.cores);
  check_interrupt();
  host.stream = measure_stream();
  return host;
}

std::string blas_warning(const plan::HostProfile &host) {
  if (!host.blas_slow) return "";
  char speed[32];
  std::snprintf(speed, sizeof speed, "%.1f", host.blas.gflops);
  return "matrix products run at only " + std::string(speed) + " GFLOP/s on " +
         std::to_string(host.blas.threads) +
         " thread(s): a reference BLAS; install libopenblas0 and profile again";
}

} // namespace tl::profile
