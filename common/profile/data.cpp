#include "profile/data.h"

#include "cli/error.h"
#include "cli/log.h"
#include "data/decode.h"
#include "data/prepare.h"
#include "runtime/clock.h"
#include "runtime/host.h"
#include "runtime/slots.h"
#include "json/bytes.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace tl::profile {

namespace {

/// Sums over the threads of a measurement.
struct Totals {
  std::size_t good = 0, damaged = 0;
  double bytes = 0, read = 0, decode = 0;
  std::string damage; // the first damaged record and why
  std::exception_ptr failure;
};

class Sampling {
public:
  Sampling(const data::Dataset &dataset, const data::Preprocess &preprocess, const DataOptions &options,
           std::size_t decoders)
      : dataset_(dataset), preprocess_(preprocess), options_(options), decoding_(decoders),
        order_(data::record_order(dataset, true, 0)) {
    order_.resize(std::min(order_.size(), options.records));
  }

  Totals run(std::size_t threads) {
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
    for (std::thread &worker : workers) worker.join();
    if (totals_.failure) std::rethrow_exception(totals_.failure);
    check_interrupt();
    return totals_;
  }

private:
  void work() {
    Totals mine;
    try {
      data::Preparer preparer(preprocess_);
      for (std::size_t i = next_++; i < order_.size() && !interrupted(); i = next_++) {
        if (i > 0 && watch_.seconds() > options_.seconds) break;
        one(order_[i], preparer, mine);
      }
    } catch (...) {
      mine.failure = std::current_exception();
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    totals_.good += mine.good;
    totals_.damaged += mine.damaged;
    totals_.bytes += mine.bytes;
    totals_.read += mine.read;
    totals_.decode += mine.decode;
    if (totals_.damage.empty()) totals_.damage = mine.damage;
    if (!totals_.failure) totals_.failure = mine.failure;
  }

  void one(std::uint32_t index, data::Preparer &preparer, Totals &totals) {
    try {
      const Stopwatch reading;
      const data::Encoded record = dataset_.read(index);
      const double read = reading.seconds();
      const Slots::Hold hold(decoding_);
      const Stopwatch decoding;
      preparer.input(record);
      totals.decode += decoding.seconds();
      totals.read += read;
      totals.bytes += static_cast<double>(record.content.bytes());
      ++totals.good;
    } catch (const data::DecodeError &error) {
      if (totals.damage.empty())
        totals.damage = cli::printable(dataset_.records()[index].id) + ": " + error.what();
      ++totals.damaged;
    }
  }

  const data::Dataset &dataset_;
  const data::Preprocess &preprocess_;
  const DataOptions &options_;
  Slots decoding_;
  std::vector<std::uint32_t> order_;
  Stopwatch watch_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  Totals totals_;
};

} // namespace

MeasuredData measure_data(const data::Dataset &dataset, const data::Preprocess &preprocess,
                          const DataOptions &options) {
  if (dataset.records().empty()) throw Error(dataset.spec() + ": has no records to measure");
  const std::size_t threads = options.threads ? options.threads : static_cast<std::size_t>(usable_cores());
  const std::size_t readers = std::max(threads, dataset.reads_in_flight()); // as the loader has them
  const Totals totals = Sampling(dataset, preprocess, options, threads).run(readers);
  if (totals.good == 0)
    throw Error(dataset.spec() + ": none of " + std::to_string(totals.damaged) +
                " records tried can be used; the first: " + totals.damage);
  MeasuredData result;
  result.sampled = totals.good + totals.damaged;
  result.damaged = totals.damaged;
  if (totals.damaged > 0)
    result.notes.push_back(std::to_string(totals.damaged) + " of " + std::to_string(result.sampled) +
                           " records tried cannot be used; the first: " + totals.damage);
  const auto good = static_cast<double>(totals.good);
  plan::DataProfile &profile = result.profile;
  profile.path = json::escape_bytes(dataset.spec());
  profile.records = static_cast<std::int64_t>(dataset.records().size());
  profile.classes = static_cast<std::int64_t>(dataset.classes().size());
  profile.bytes_per_record = totals.bytes / good;
  profile.read_seconds = totals.read / good / static_cast<double>(readers);
  profile.decode_seconds = totals.decode / good;
  profile.threads = static_cast<int>(threads);
  return result;
}

} // namespace tl::profile
