// A folder of small pictures, one sub-folder a class, written without any picture library.
#pragma once

#include "support/files.h"

#include <filesystem>
#include <random>
#include <string>

namespace tl::test {

/// A PPM file of noise; equal seeds give equal files.
inline std::string noise_ppm(int width, int height, unsigned seed) {
  std::mt19937 random(seed);
  std::string file = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
  for (int i = 0; i < width * height * 3; ++i) file += static_cast<char>(random() % 256);
  return file;
}

class Photos {
public:
  std::string root() const { return folder_.path(); }
  /// `id`: "cat/1.ppm".
  void add(const std::string &id, unsigned seed) const { folder_.write(id, noise_ppm(10, 8, seed)); }
  void add_damaged(const std::string &id) const { folder_.write(id, noise_ppm(10, 8, 1).substr(0, 100)); }
  void move(const std::string &from, const std::string &to) const {
    std::filesystem::create_directories(std::filesystem::path(folder_.path(to)).parent_path());
    std::filesystem::rename(folder_.path(from), folder_.path(to));
  }
  void remove(const std::string &id) const { std::filesystem::remove(folder_.path(id)); }

private:
  TempFolder folder_;
};

} // namespace tl::test
