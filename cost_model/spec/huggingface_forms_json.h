// The parts of Hugging Face config files that only some families have: experts, latent attention,
// windows. Each fills in `model`, which holds the family's common part. Internal to the import.
#pragma once

#include "cost_model/spec/huggingface_config_json.h"
#include "cost_model/spec/model_spec.h"

namespace tessera::spec {

// The loss that balances the load, which transformers adds only where routers' logits are an output
// of the model. `standard`: its coefficient where the config says none.
void ReadAuxiliaryLoss(HuggingFaceConfig& config, double standard, MoeSpec& moe);
void ReadQwenExperts(HuggingFaceConfig& config, ModelSpec& model);
// DeepSeek-V2, V3 and Kimi K2; without "n_routed_experts" a dense model.
void ReadDeepSeekForms(HuggingFaceConfig& config, ModelSpec& model);
void ReadGptOssForms(HuggingFaceConfig& config, ModelSpec& model);

}  // namespace tessera::spec
