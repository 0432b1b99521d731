#include "profile/host.h"

#include "cli/error.h"
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

/// Median seconds of a few calls after a warm-up.
double median_seconds(const std::function<void()> &work) {
  work();
  std::vector<double> seconds;
  const Stopwatch total;
  while (seconds.size() < 3 || (seconds.size() < 15 && total.seconds() < 0.3)) {
    const Stopwatch watch;
    work();
    seconds.push_back(watch.seconds());
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

/// Grows the matrices until a product takes long enough to be measured, so that neither a fast nor
/// a very slow implementation (bf16 without instructions for it) takes more than a moment.
double product_gflops(at::ScalarType type) {
  const at::InferenceMode inference;
  double gflops = 0;
  for (std::int64_t n = 128; n <= 2048; n *= 2) {
    const at::Tensor a = torch::randn({n, n}).to(type), b = torch::randn({n, n}).to(type);
    const Stopwatch once;
    at::mm(a, b);
    if (once.seconds() > 0.5 && gflops > 0) break;
    const double seconds = median_seconds([&] { at::mm(a, b); });
    gflops = 2.0 * std::pow(static_cast<double>(n), 3) / seconds / 1e9;
    if (seconds > 0.05) break;
  }
  return gflops;
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
  const double seconds = median_seconds([&] {
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < from.size(); ++i)
      workers.emplace_back([&, i] { std::memcpy(to[i].data.get(), from[i].data.get(), from[i].bytes()); });
    for (std::thread &worker : workers) worker.join();
  });
  return static_cast<double>(from[0].bytes()) * threads / seconds;
}

} // namespace

plan::HostProfile measure_host(int threads) {
  plan::HostProfile host;
  host.cpu = processor_name();
  host.cores = usable_cores();
  host.memory_bytes = usable_memory();
  const int before = at::get_num_threads();
  at::set_num_threads(threads > 0 ? threads : host.cores);
  host.blas = {product_gflops(at::kFloat), at::get_num_threads()};
  check_interrupt();
  host.bf16 = plan::ProductSpeed{product_gflops(at::kBFloat16), at::get_num_threads()};
  at::set_num_threads(before);
  host.blas_slow = host.blas.gflops < kSlowGflopsPerCore * std::min(host.blas.threads, host.cores);
  check_interrupt();
  host.memory_bandwidth = copy_bandwidth(host.cores);
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
