// The order of the dependence graph: by level, ties by key, and the cycle where there is none.
#include "compiler/program/Graph.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using pipec::Graph;

namespace {

using Order = std::vector<Graph::Node>;

TEST(Graph, emptySorts) {
  Order order{7};
  EXPECT_TRUE(Graph().sort(order));
  EXPECT_TRUE(order.empty());
}

TEST(Graph, levelsComeFirst) {
  Graph graph;
  Graph::Node late = graph.add(1, 0), early = graph.add(1, 9), other = graph.add(1, 5);
  graph.edge(early, late);
  Order order;
  ASSERT_TRUE(graph.sort(order));
  EXPECT_EQ(order, (Order{other, early, late})); // level 0 by tie, then level 1 although its tie is least
}

TEST(Graph, weightsAreLevels) {
  // After a node of weight 2 comes level 2, after one of weight 1 level 1, after one of weight 0 its own level.
  Graph graph;
  Graph::Node two = graph.add(2, 0), one = graph.add(1, 1), zero = graph.add(0, 2);
  Graph::Node afterTwo = graph.add(1, 0), afterOne = graph.add(1, 8), afterZero = graph.add(1, 9);
  graph.edge(two, afterTwo);
  graph.edge(one, afterOne);
  graph.edge(zero, afterZero);
  Order order;
  ASSERT_TRUE(graph.sort(order));
  EXPECT_EQ(order, (Order{two, one, zero, afterZero, afterOne, afterTwo}));
}

TEST(Graph, sortsAgainAsItIsNow) {
  Graph graph;
  Graph::Node first = graph.add(2, 0), other = graph.add(1, 1), after = graph.add(1, 0), afterOther = graph.add(1, 1);
  graph.edge(first, after);
  graph.edge(other, afterOther);
  Order order;
  ASSERT_TRUE(graph.sort(order));
  EXPECT_EQ(order, (Order{first, other, afterOther, after}));
  graph.setWeight(first, 1);
  ASSERT_TRUE(graph.sort(order));
  EXPECT_EQ(order, (Order{first, other, after, afterOther}));
  graph.edge(afterOther, after);
  ASSERT_TRUE(graph.sort(order));
  EXPECT_EQ(order, (Order{first, other, afterOther, after}));
  Graph::Node last = graph.add(1, 0);
  graph.edge(after, last);
  ASSERT_TRUE(graph.sort(order));
  EXPECT_EQ(order, (Order{first, other, afterOther, after, last}));
}

TEST(Graph, levelIsTheLongestPath) {
  Graph graph;
  Graph::Node a = graph.add(1, 0), b = graph.add(1, 0), c = graph.add(1, 0), d = graph.add(1, 9);
  graph.edge(a, b);
  graph.edge(b, c);
  graph.edge(a, c); // the shorter path does not make c earlier
  graph.edge(a, d);
  Order order;
  ASSERT_TRUE(graph.sort(order));
  EXPECT_EQ(order, (Order{a, b, d, c}));
}

TEST(Graph, equalTiesByNumber) {
  Graph graph;
  for (int i = 0; i != 5; ++i)
    graph.add(1, 3);
  Order order;
  ASSERT_TRUE(graph.sort(order));
  EXPECT_EQ(order, (Order{0, 1, 2, 3, 4}));
}

TEST(Graph, cycleOfOne) {
  Graph graph;
  graph.add(1, 0);
  Graph::Node own = graph.add(1, 0);
  graph.edge(own, own);
  Order order;
  EXPECT_FALSE(graph.sort(order));
  EXPECT_EQ(order, Order{own});
}

TEST(Graph, cycleIsClosedAndWithoutItsTail) {
  Graph graph;
  for (int i = 0; i != 6; ++i)
    graph.add(1, 0);
  graph.edge(0, 1); // leads in
  graph.edge(1, 2);
  graph.edge(2, 3);
  graph.edge(3, 1);
  graph.edge(3, 4); // leads out
  Order cycle;
  ASSERT_FALSE(graph.sort(cycle));
  ASSERT_EQ(cycle.size(), 3u);
  // Each waits for the next.
  for (size_t i = 0; i != cycle.size(); ++i)
    EXPECT_EQ(cycle[i] % 3 + 1, cycle[(i + cycle.size() - 1) % cycle.size()]);
}

TEST(Graph, randomGraphsAgreeWithLongestPaths) {
  std::mt19937_64 random(7);
  auto below = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round != 500; ++round) {
    size_t n = 1 + below(30);
    Graph graph;
    std::vector<uint64_t> weight(n), tie(n), level(n);
    for (size_t i = 0; i != n; ++i)
      graph.add(uint32_t(weight[i] = below(3)), tie[i] = below(4));
    for (size_t to = 1; to < n; ++to) // edges go up in number, so one pass finds the longest paths
      for (size_t k = below(4); k != 0; --k) {
        size_t from = below(to);
        graph.edge(Graph::Node(from), Graph::Node(to));
        level[to] = std::max(level[to], level[from] + weight[from]);
      }
    Order order, place(n);
    ASSERT_TRUE(graph.sort(order));
    ASSERT_EQ(order.size(), n);
    for (size_t i = 0; i + 1 < n; ++i) // A node of weight 0 may make ready, at its own level, what has a smaller tie.
      ASSERT_LE(level[order[i]], level[order[i + 1]]);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i != n; ++i)
      ASSERT_EQ(order[i], i);
  }
}

} // namespace
