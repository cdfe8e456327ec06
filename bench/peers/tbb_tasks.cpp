// Empty tasks on oneTBB with two threads: a task_group, and a flow graph that is built in each
// round, since TBB finds no dependencies from data. Usage: tbb_tasks [WORKLOAD]

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_group.h>

#include <deque>

#include "workloads.h"

namespace dovetail::bench {
namespace {

using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

const auto kNothing = [](const tbb::flow::continue_msg&) {};

void run(int argc, char** argv) {
  const tbb::global_control two(tbb::global_control::max_allowed_parallelism, 2);
  measure(argc, argv, "independent", [] {
    tbb::task_group group;
    for (int i = 0; i < kTasks; ++i) group.run([] {});
    group.wait();
  });
  measure(argc, argv, "chains", [] {
    tbb::flow::graph graph;
    std::deque<Node> nodes;
    std::vector<Node*> first;
    for (int i = 0; i < kTasks; ++i) {
      Node& node = nodes.emplace_back(graph, kNothing);
      if (i % kChain == 0) {
        first.push_back(&node);
      } else {
        tbb::flow::make_edge(nodes[nodes.size() - 2], node);
      }
    }
    for (Node* node : first) node->try_put({});
    graph.wait_for_all();
  });
  measure(argc, argv, "attention", [] {
    tbb::flow::graph graph;
    std::deque<Node> nodes;
    std::vector<Node*> first;
    Node* updated = nullptr;
    for (int i = 0; i < kTasks / 4; ++i) {
      Node& scores = nodes.emplace_back(graph, kNothing);
      Node& weights = nodes.emplace_back(graph, kNothing);
      Node& part = nodes.emplace_back(graph, kNothing);
      Node& update = nodes.emplace_back(graph, kNothing);
      tbb::flow::make_edge(scores, weights);
      tbb::flow::make_edge(weights, part);
      tbb::flow::make_edge(part, update);
      if (i % kBlocksPerRow != 0) tbb::flow::make_edge(*updated, update);
      updated = &update;
      first.push_back(&scores);
    }
    for (Node* node : first) node->try_put({});
    graph.wait_for_all();
  });
}

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) { dovetail::bench::run(argc, argv); }
