// Profiles made up for a graph: every node costs what we say.
#pragma once

#include "plan/planner.h"
#include "support/graphs.h"

#include <functional>

namespace tl::test {

/// Seconds that one record costs at node n (and twice that to train), the same for each batch.
using NodeSeconds = std::function<double(int)>;

inline plan::Profile make_profile(const Graph &graph, const NodeSeconds &seconds, const std::string &origin) {
  plan::Profile profile;
  profile.origin = origin;
  plan::HostProfile host;
  host.cpu = "made up";
  host.cores = 4;
  host.memory_bytes = std::int64_t{8} << 30;
  host.blas = {100, 4};
  host.bf16 = plan::ProductSpeed{200, 4};
  host.memory_bandwidth = 1e10;
  profile.host = host;
  plan::ModelProfile model;
  model.path = "model.pt";
  model.file_digest = hash_text("file");
  model.preprocess = {{"kind", "image"}, {"resize", {9}}, {"crop", {8, 8}}, {"channels", 3}};
  model.graph = graph;
  model.measured.threads = 4;
  model.measured.batches = {1, 4, 16};
  model.measured.whole_seconds = {0, 0, 0};
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    plan::Segment segment;
    segment.first = n;
    segment.last = n + 1;
    for (std::size_t k = 0; k < 3; ++k) {
      const auto batch = static_cast<double>(model.measured.batches[k]);
      segment.seconds.push_back(seconds(n) * batch);
      segment.train_seconds.push_back(2 * seconds(n) * batch);
      segment.peak_bytes.push_back(1000 * model.measured.batches[k]);
      model.measured.whole_seconds[k] += segment.seconds.back();
    }
    model.measured.segments.push_back(segment);
  }
  profile.model = model;
  plan::DataProfile data;
  data.path = "photos";
  data.records = 1000;
  data.classes = 5;
  data.bytes_per_record = 50000;
  data.read_seconds = 1e-4;
  data.decode_seconds = 4e-3; // 1 ms on four cores
  data.threads = 4;
  profile.data = data;
  return profile;
}

/// A linear head on `graph`; each node costs 1 ms a record on both sides.
inline plan::Request make_request(const Graph &graph, double bandwidth = 1e6) {
  plan::Request request;
  request.storage = make_profile(
      graph, [](int) { return 1e-3; }, "there.json");
  request.compute = make_profile(
      graph, [](int) { return 1e-3; }, "here.json");
  request.link.bandwidth = bandwidth;
  request.link.round_trip = 0.01;
  request.scheme.head = graph::Head{};
  return request;
}

inline plan::Problem make_problem(const plan::Request &request) {
  plan::Problem problem{
      *request.storage.model, *request.compute.model, *request.storage.host, *request.compute.host,
      request.storage.data,   request.compute.data,   request.link,          {},
      request.workload,       request.limits};
  problem.graph = graph::apply_scheme(problem.storage_model.graph, request.scheme, 5);
  if (problem.workload.records == 0) problem.workload.records = 1000;
  const auto fill = [](std::int64_t &limit) { limit = limit < 0 ? std::int64_t{4} << 30 : limit; };
  fill(problem.limits.storage_memory);
  fill(problem.limits.compute_memory);
  fill(problem.limits.cache_bytes);
  return problem;
}

} // namespace tl::test
