// Small records and networks that training can be tried on, made by code.
#pragma once

#include "model/tensors.h"
#include "support/files.h"
#include "support/models.h"
#include "train/fit.h"
#include "train/network.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tl::test {

/// Records in memory: vectors of `width` numbers around a centre for each class.
struct Points {
  std::int64_t count = 40, classes = 3, width = 4;
  double noise = 0.7;
  std::uint64_t seed = 1;

  train::Chunk all() const {
    Draws draws(seed);
    const at::Tensor centres = draws.uniform({classes, width}, -1, 1);
    at::Tensor values = draws.uniform({count, width}, -noise, noise);
    train::Chunk chunk;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t label = (i * 7 + i / 5) % classes;
      values[i] += centres[label];
      chunk.records.push_back({hash_text("point " + std::to_string(i)), label, "point/" + std::to_string(i)});
    }
    chunk.values.push_back(model::from_torch(values));
    return chunk;
  }
};

inline Tensor rows_of(const Tensor &tensor, const std::vector<std::int64_t> &places) {
  return model::from_torch(model::to_torch(tensor).index_select(0, at::tensor(places, at::kLong)));
}

/// A source over a chunk in memory. `before_next` may throw or wait.
class MemorySource : public train::RecordSource {
public:
  MemorySource(train::Chunk all, std::int64_t classes) : all_(std::move(all)) {
    for (std::int64_t c = 0; c < classes; ++c) names_.push_back("class " + std::to_string(c));
    for (std::size_t i = 0; i < all_.records.size(); ++i) order_.push_back(static_cast<std::int64_t>(i));
  }

  std::function<void(std::size_t delivered)> before_next;
  bool is_cheap = false;
  std::shared_ptr<int> passes = std::make_shared<int>(0); // started after the arrival

  const std::vector<std::string> &classes() const override { return names_; }
  std::optional<std::int64_t> expected() const override { return std::nullopt; }
  const std::vector<std::string> &skipped() const override { return none_; }
  std::int64_t skipped_before() const override { return 0; }
  bool cheap() const override { return is_cheap; }
  void start(std::vector<std::int64_t> positions) override {
    order_ = std::move(positions);
    done_ = 0;
    ++*passes;
  }
  std::optional<train::Chunk> next(std::int64_t limit) override {
    if (before_next) before_next(done_);
    const std::size_t rows = std::min(static_cast<std::size_t>(limit), order_.size() - done_);
    if (rows == 0) return std::nullopt;
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(done_);
    const std::vector<std::int64_t> places(begin, begin + static_cast<std::ptrdiff_t>(rows));
    done_ += rows;
    train::Chunk chunk;
    for (const std::int64_t place : places)
      chunk.records.push_back(all_.records[static_cast<std::size_t>(place)]);
    for (const Tensor &value : all_.values) chunk.values.push_back(rows_of(value, places));
    return chunk;
  }

private:
  train::Chunk all_;
  std::vector<std::string> names_, none_;
  std::vector<std::int64_t> order_;
  std::size_t done_ = 0;
};

/// Vectors [width] -> fc1, relu, (norm: a batch-norm), fc. Values, among others: "fc1", "fc".
inline Module point_net(bool batch_norm, std::int64_t width = 4, std::int64_t classes = 3,
                        std::uint64_t seed = 1) {
  Draws draws(seed);
  Module net("PointNet");
  net.register_module("fc1", linear_module("First", draws, width, 6));
  if (batch_norm) net.register_module("norm", batch_norm_module("PointNorm", draws, 6));
  net.register_module("fc", linear_module("Last", draws, 6, classes));
  const std::string norm = batch_norm ? "self.norm.forward(self.fc1.forward(x))" : "self.fc1.forward(x)";
  net.define("def forward(self, x):\n  return self.fc.forward(torch.relu(" + norm + "))\n");
  return net;
}

/// The net saved, loaded again, and under a scheme that trains what matches `pattern`.
inline train::Network point_network(bool batch_norm, const std::string &pattern = ".*",
                                    std::int64_t width = 4) {
  const TempFolder folder;
  const std::string path = save(point_net(batch_norm, width), folder.path("net.pt"));
  const model::Model model = model::load_model(path, {DType::f32, {width}}, Digest());
  graph::Scheme scheme;
  scheme.train = pattern;
  return train::make_network(model, scheme, 3, 0, "input");
}

inline train::Rows rows_of(const train::Chunk &chunk) {
  train::Rows rows;
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < chunk.records.size(); ++i) {
    rows.records.push_back(&chunk.records[i]);
    rows.positions.push_back(static_cast<std::int64_t>(i));
    labels.push_back(chunk.records[i].label);
  }
  rows.labels = at::tensor(labels, at::kLong);
  for (const Tensor &value : chunk.values) rows.values.push_back(model::to_torch(value));
  return rows;
}

/// Rows [begin, end).
inline train::Rows part_of(const train::Rows &rows, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = begin; i < end; ++i) places.push_back(i);
  return train::select(rows, places);
}

/// Training and validation losses of each epoch, one after the other.
using Losses = std::vector<double>;
inline Losses fit_losses(train::Features &features, train::Trainer &trainer) {
  Losses losses;
  train::fit(features, {&trainer}, [&](std::size_t, const train::EpochResult &result) {
    losses.push_back(result.train.loss);
    if (result.validation) losses.push_back(result.validation->loss());
  });
  return losses;
}

inline double largest_difference(const Losses &a, const Losses &b) {
  if (a.size() != b.size() || a.empty()) return 1e30;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

} // namespace tl::test
