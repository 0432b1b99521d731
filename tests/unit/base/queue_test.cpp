#include "runtime/queue.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using tl::BoundedQueue;

namespace {
bool short_words(std::string &last, std::string &more) {
  if (last.size() + more.size() > 4) return false;
  last += more;
  return true;
}
} // namespace

TEST_CASE("what waits in a queue is joined up to the limit, in order") {
  BoundedQueue<std::string> queue(10);
  for (const char *part : {"a", "bc", "d", "e", "fghij", "k"}) CHECK(queue.push(part, short_words));
  queue.close();
  std::vector<std::string> popped;
  while (const auto item = queue.pop()) popped.push_back(*item);
  CHECK(popped == std::vector<std::string>{"abcd", "e", "fghij", "k"});
}

TEST_CASE("a full queue still takes what joins its last item, and nothing once it is closed") {
  BoundedQueue<std::string> queue(1);
  CHECK(queue.push("a", short_words));
  CHECK(queue.push("b", short_words)); // would block if it did not join
  queue.close();
  CHECK_FALSE(queue.push("c", short_words));
  CHECK(*queue.pop() == "ab");
  CHECK_FALSE(queue.pop());
}

TEST_CASE("a slow consumer gets everything once and in order, in fewer items") {
  BoundedQueue<std::vector<int>> queue(2);
  std::thread producer([&] {
    for (int i = 0; i < 10000; ++i)
      queue.push({i}, [](std::vector<int> &last, std::vector<int> &more) {
        if (last.size() + more.size() > 7) return false;
        last.insert(last.end(), more.begin(), more.end());
        return true;
      });
    queue.close();
  });
  int next = 0;
  while (const auto item = queue.pop()) {
    CHECK(item->size() <= 7);
    for (const int i : *item)
      if (i == next) ++next;
  }
  producer.join();
  CHECK(next == 10000);
}

TEST_CASE("a failure is thrown after the items that were ready") {
  BoundedQueue<int> queue(4);
  queue.push(1);
  queue.fail(std::make_exception_ptr(std::runtime_error("torn")));
  CHECK(*queue.pop() == 1);
  CHECK_THROWS_WITH(queue.pop(), "torn");
}
