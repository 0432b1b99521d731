#include "select/progress.h"

#include "cli/log.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace tl::select {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTold = 0.05; // share of the work that tells how fast this machine is today

double share(double done, double all) { return all > 0 ? std::min(done / all, 1.0) : 1; }

} // namespace

double seconds_left(const Predicted &predicted, const Standing &standing) {
  const double training = std::max(predicted.plan - predicted.making, 0.0);
  const double done = predicted.making * share(static_cast<double>(standing.records),
                                               static_cast<double>(standing.all_records)) +
                      training * share(static_cast<double>(standing.candidates),
                                       static_cast<double>(standing.all_candidates));
  const double left = std::max(predicted.making + training - done, 0.0);
  return done > kTold * (done + left) ? left * standing.seconds / done : left;
}

std::string describe(const Predicted &predicted, const Standing &standing) {
  const auto of = [](auto done, auto all) { return std::to_string(done) + "/" + std::to_string(all); };
  const std::string end = "; about " + cli::human_seconds(seconds_left(predicted, standing)) + " left";
  if (standing.records < standing.all_records)
    return "extracting " + of(standing.records, standing.all_records) + ", then " +
           std::to_string(standing.all_candidates) + " candidates" + end;
  return "training: " + of(standing.candidates, standing.all_candidates) + " candidates done" + end;
}

ExperimentProgress::ExperimentProgress(const ReusePlan &plan)
    : predicted_(plan.predicted), active_(!cli::quiet() && isatty(STDERR_FILENO)), start_(Clock::now()) {
  standing_.all_records = static_cast<std::uint64_t>(plan.records) * plan.passes.size();
  standing_.all_candidates = plan.group_of.size();
}

ExperimentProgress::~ExperimentProgress() {
  if (active_) std::fputs("\r\033[K", stderr);
}

void ExperimentProgress::extracted(std::size_t records) {
  standing_.records += records;
  if (Clock::now() - drawn_ > std::chrono::milliseconds(100)) draw();
}

void ExperimentProgress::trained() {
  standing_.records = standing_.all_records;
  ++standing_.candidates;
  draw();
}

void ExperimentProgress::draw() {
  if (!active_) return;
  drawn_ = Clock::now();
  standing_.seconds = std::chrono::duration<double>(drawn_ - start_).count();
  std::fprintf(stderr, "\r\033[K%s", describe(predicted_, standing_).c_str());
  std::fflush(stderr);
}

} // namespace tl::select
