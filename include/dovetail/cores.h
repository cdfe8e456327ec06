#pragma once

// Level 4 for programs of their own: machines of core groups, graphs of tasks, and the decision of
// which task gets which lanes, without an engine and without a model.
//
//   Topology        the groups and lanes of a machine, parsed from text such as "24x(1C2V)"
//   TaskShape       the lanes that a task needs at the same time; AdmissionPolicy: when it gets
//   them Region, Access  the memory that a task reads and writes, from which dependencies are
//   inferred TaskGraph       ready tasks, in rings of fixed size Dispatcher      ready tasks to
//   lanes: a pure state machine without threads and without a clock DeviceExecutor  graph and
//   dispatcher for a device that the program drives by callbacks LaneTrace       what the lanes
//   did, for ui.perfetto.dev
//
// examples/npu/main.cpp drives an imagined device through this header alone. None of these classes
// starts a thread, and each is used by one thread at a time.

#include "cores/admission.h"
#include "cores/dispatcher.h"
#include "cores/names.h"
#include "cores/region.h"
#include "cores/spans.h"
#include "cores/task_graph.h"
#include "cores/topology.h"
#include "cores/trace.h"
#include "dovetail/device_executor.h"
