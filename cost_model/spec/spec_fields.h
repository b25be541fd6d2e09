// The JSON keys of every spec, named once for reading and writing.
#pragma once

#include "cost_model/spec/field_visitor.h"
#include "cost_model/spec/plan.h"
#include "cost_model/spec/runtime_spec.h"

namespace tessera::spec {

inline constexpr Presence kOptional = Presence::kOptional;

void VisitModel(FieldVisitor& fields, ModelSpec& model);
void VisitCluster(FieldVisitor& fields, ClusterSpec& cluster);
// Every key of a plan's training section is there, but those of dropout may be absent.
void VisitTraining(FieldVisitor& fields, TrainingSpec& training);
// The flat hyper-parameter file: every key optional.
void VisitHyperparameters(FieldVisitor& fields, TrainingSpec& training);
void VisitParallel(FieldVisitor& fields, ParallelSpec& parallel);
void VisitRuntime(FieldVisitor& fields, RuntimeSpec& runtime);
void VisitStepReport(FieldVisitor& fields, StepReport& report);
// The plan's keys after its format_version.
void VisitPlan(FieldVisitor& fields, Plan& plan);

}  // namespace tessera::spec
