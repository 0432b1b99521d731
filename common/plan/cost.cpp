#include "plan/cost.h"

#include "cli/error.h"
#include "graph/scheme.h"

#include <algorithm>

namespace tl::plan {

namespace {

bool is_image(const Problem &problem) {
  const json::Value &preprocess = problem.storage_model.preprocess;
  const auto kind = preprocess.find("kind");
  return kind == preprocess.end() || *kind == "image";
}

/// Seconds of one core.
double send_seconds(const HostProfile &host, double bytes) {
  return host.stream ? bytes / host.stream->send_bandwidth : 0;
}
double receive_seconds(const HostProfile &host, double bytes) {
  return host.stream ? bytes / host.stream->receive_bandwidth : 0;
}

bool is_input(const graph::Cut &cut) { return cut.values == std::vector<graph::ValueId>{0}; }

} // namespace

CostModel::CostModel(const Problem &problem)
    : problem_(problem), codecs_(problem.storage_model, problem.compute_model, problem.codecs),
      storage_(problem.storage_model, problem.storage_host, problem.graph),
      compute_(problem.compute_model, problem.compute_host, problem.graph) {
  const std::vector<bool> frozen = graph::frozen(problem.graph);
  deepest_ = graph::deepest_cut(problem.graph, frozen);
  cuts_ = graph::enumerate_cuts(problem.graph, frozen);
  cache_bytes_ = static_cast<double>(deepest_.bytes);
  const double bytes = cache_bytes_ * static_cast<double>(problem.workload.records);
  cached_share_ = bytes > 0 ? std::min(1.0, static_cast<double>(problem.limits.cache_bytes) / bytes) : 0;
}

std::vector<Candidate> CostModel::candidates() const {
  std::vector<Candidate> result;
  for (const graph::Cut &cut : cuts_) {
    if (is_input(cut) && problem_.storage_data && !problem_.codecs.only) {
      const double bytes = problem_.storage_data->bytes_per_record;
      result.push_back({{Codec::fp32, bytes, bytes, 0, 0, 0}, CutKind::files, cut});
    }
    const std::vector<Candidate> here = candidates(cut);
    result.insert(result.end(), here.begin(), here.end());
  }
  return result;
}

/// The cut in each codec.
std::vector<Candidate> CostModel::candidates(const graph::Cut &cut) const {
  std::vector<Candidate> result;
  for (const CodedCut &coded : codecs_.of(problem_.graph, cut, is_input(cut) && is_image(problem_)))
    result.push_back({coded, CutKind::values, cut, !result.empty()});
  return result;
}

std::vector<Option> CostModel::options() const {
  std::vector<Option> result;
  for (const Candidate &candidate : candidates()) result.push_back(choose_batch(candidate));
  return result;
}

/// To read back what was kept: from memory while all of it fits half of that (the rest is for
/// training), else from the disk, whose speed is that of reading the data.
double CostModel::load_seconds(double bytes) const {
  const HostProfile &host = problem_.compute_host;
  const double all = bytes * static_cast<double>(problem_.workload.records);
  const std::optional<DataProfile> &data =
      problem_.compute_data ? problem_.compute_data : problem_.storage_data;
  if (all > static_cast<double>(host.memory_bytes) / 2 && data && data->bytes_per_record > 0)
    return data->read_seconds * bytes / data->bytes_per_record;
  return host.memory_bandwidth > 0 ? bytes / host.memory_bandwidth : 0;
}

double CostModel::later_seconds(const Candidate &candidate, double compute) const {
  const double hot = std::max(load_seconds(cache_bytes_), compute_seconds(compute_, deepest_.position));
  const double decode = (candidate.decode - candidate.stored_decode) / problem_.compute_host.cores;
  const double cold = std::max(load_seconds(candidate.stored_bytes), compute - decode);
  return cached_share_ * hot + (1 - cached_share_) * cold;
}

double CostModel::compute_seconds(const NodeCosts &costs, int position) const {
  const std::int64_t batch = problem_.workload.train_batch;
  return costs.step_seconds(position, batch) / static_cast<double>(batch);
}

double CostModel::decode_seconds(const HostProfile &host, const std::optional<DataProfile> &data) const {
  const DataProfile *measured = data ? &*data : problem_.storage_data ? &*problem_.storage_data : nullptr;
  return measured ? measured->decode_seconds / host.cores : 0;
}

Prediction CostModel::predict(const Candidate &candidate, std::int64_t batch) const {
  Prediction p;
  const double read = problem_.storage_data ? problem_.storage_data->read_seconds : 0;
  p.bytes = candidate.bytes;
  p.link = candidate.bytes / problem_.link.bandwidth;
  p.compute = compute_seconds(compute_, candidate.cut.position);
  const double send = send_seconds(problem_.storage_host, p.bytes);
  const double receive = receive_seconds(problem_.compute_host, p.bytes);
  p.compute_memory = compute_.step_memory(candidate.cut.position, problem_.workload.train_batch);
  if (candidate.kind == CutKind::files) {
    p.storage = std::max(read, send);
    p.compute += decode_seconds(problem_.compute_host, problem_.compute_data);
  } else {
    const double prefix = storage_.prefix_seconds(candidate.cut.position, batch) / static_cast<double>(batch);
    const double decode = decode_seconds(problem_.storage_host, problem_.storage_data);
    const double encode = (candidate.encode + send) / problem_.storage_host.cores;
    p.storage = std::max({read, candidate.encode, send, prefix + decode + encode});
    p.compute = std::max(candidate.decode, p.compute + candidate.decode / problem_.compute_host.cores);
    p.storage_memory = storage_.prefix_memory(candidate.cut.position, batch);
  }
  p.later = later_seconds(candidate, p.compute);
  p.compute = std::max(receive, p.compute + receive / problem_.compute_host.cores);
  add_epochs(p, batch, problem_.link.round_trip);
  return p;
}

void CostModel::add_epochs(Prediction &p, std::int64_t batch, double round_trip) const {
  const Workload &work = problem_.workload;
  const auto records = static_cast<double>(work.records);
  const double slowest = std::max({p.storage, p.link, p.compute});
  // The first batch goes through the tiers one after the other; only the slowest is busy all the time.
  const double first = std::min(static_cast<double>(batch), records);
  const double fill = round_trip + first * (p.storage + p.link + p.compute - slowest);
  p.first_epoch = records * slowest + fill;
  p.later_epoch = records * p.later;
  p.total = p.first_epoch + static_cast<double>(work.epochs - 1) * p.later_epoch;
}

Option CostModel::choose_batch(const Candidate &candidate) const {
  Option best;
  best.candidate = candidate;
  best.name = candidate.kind == CutKind::files ? "files" : candidate.cut.name(problem_.graph);
  best.feasible = false;
  for (const std::int64_t batch : storage_.batches()) {
    const Prediction p = predict(candidate, batch);
    const bool fits = p.storage_memory <= problem_.limits.storage_memory &&
                      p.compute_memory <= problem_.limits.compute_memory;
    // Among those that fit the fastest per record; of equals the smallest, which fills soonest.
    const bool first = batch == storage_.batches().front();
    const bool better = fits && (!best.feasible || p.storage < best.predicted.storage);
    if (!first && !better) continue;
    best.batch = batch;
    best.predicted = p;
    best.feasible = fits;
  }
  return best;
}

Option CostModel::all_in_storage() const {
  std::vector<Candidate> deepest = candidates(deepest_);
  if (deepest.empty())
    throw Error("the codec " + name_of(*problem_.codecs.only) + " was not measured at the deepest cut");
  deepest.front().bytes = 0; // nothing crosses the link
  Option option = choose_batch(deepest.front());
  Prediction &p = option.predicted;
  const double step = compute_seconds(storage_, deepest_.position);
  p.storage += step; // the same cores
  p.compute = 0;
  p.compute_memory = 0;
  p.later = step; // what it trains on is kept, too
  p.storage_memory += storage_.step_memory(deepest_.position, problem_.workload.train_batch);
  option.feasible = p.storage_memory <= problem_.limits.storage_memory;
  add_epochs(p, option.batch, 0);
  return option;
}

} // namespace tl::plan
