#include "pipeline/run/run_queues.h"

namespace dovetail::pipeline {

RunQueues::RunQueues(const PipelineSpec& spec)
    : blocking(static_cast<QueueId>(spec.models.size())), instant(blocking + 1) {
  for (const ColumnDescription& column : spec.columns) {
    const std::string* alias = column.model();
    const QueueId queue = alias != nullptr  ? static_cast<QueueId>(spec.model(*alias))
                          : column.blocks() ? blocking
                                            : instant;
    of_column.push_back(queue);
    plans.push_back({column.needs, queue, column.priority});
  }
}

}  // namespace dovetail::pipeline
