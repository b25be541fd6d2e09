#include "engine/cli/doctor_flags.h"

namespace tessera::engine {

void AddDoctorFlags(CLI::App& command, DoctorFlags& flags, TrainOptions& options) {
  constexpr int64_t kMaxSteps = 1'000'000'000;
  command
      .add_option(
          "--check-replicas", options.check_replicas_interval,
          "Compare checksums of what several ranks hold copies of, weights and reduced "
          "gradients, and sharded gradients with the sum of what the ranks put in, every so "
          "many steps, and end the run where they differ (0: weights at the start alone)")
      ->check(CLI::Range(int64_t{0}, kMaxSteps))
      ->capture_default_str();
  CLI::Option* const profile = command.add_option(
      "--profile", options.profile_path,
      "Write the times of one rank's operations, by kind and shape, as JSON here, and print the "
      "longest; the first step is left out");
  command.add_option("--profile-rank", options.profile_rank, "The rank that --profile looks at")
      ->check(CLI::NonNegativeNumber)
      ->needs(profile)
      ->capture_default_str();
  CLI::Option* const compare =
      command
          .add_option("--compare-layouts", flags.compared_plans,
                      "Train two plans of the same model one after the other instead of --plan, "
                      "and tell the first number or tensor that differs; exit code 1 where one "
                      "does")
          ->expected(2);
  command
      .add_option("--tolerance", flags.tolerance,
                  "Of --compare-layouts: how far tensors may be apart, as a share of their size "
                  "(default 1e-4 in fp32, 1e-2 in fp16, 5e-2 in bf16)")
      ->check(CLI::NonNegativeNumber)
      ->needs(compare);
  for (const char* const other :
       {"--plan", "--save", "--resume", "--export-hf", "--trace", "--metrics", "--profile"}) {
    compare->excludes(command.get_option(other));
  }
}

}  // namespace tessera::engine
