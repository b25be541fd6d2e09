"""Ten lines of training loop, written out: batches, loss, clipping, AdamW, learning rate."""

import array
import json
import math
import pathlib
import sys

import torch

import reference_models
import safetensors_file


def learning_rate(settings, step):
    """Of step `step`, counted from 1: linear warm-up, then the decay style's curve to min_lr."""
    peak, low = settings["lr"], settings["min_lr"]
    warmup, end = settings["lr_warmup_steps"], settings["lr_decay_steps"]
    if step <= warmup:
        return peak * step / warmup
    if settings["lr_decay_style"] == "constant":
        return peak
    progress = min(1.0, (step - warmup) / (end - warmup))
    if settings["lr_decay_style"] == "linear":
        return peak - (peak - low) * progress
    assert settings["lr_decay_style"] == "cosine", settings
    return low + (peak - low) * (1 + math.cos(math.pi * progress)) / 2


def _batch(stream, settings, step):
    """Inputs and labels [B, s] of step `step` (from 1): samples in order, labels one ahead."""
    batch, length = settings["global_batch_size"], settings["seq_length"]
    begin = (step - 1) * batch * length
    window = stream[begin : begin + batch * length + 1]
    return window[:-1].view(batch, length), window[1:].view(batch, length)


class AdamW:
    """Decoupled weight decay, on tensors of two or more dimensions only; bias correction."""

    def __init__(self, parameters, settings):
        self.parameters = parameters
        self.beta1, self.beta2 = settings["adam_beta1"], settings["adam_beta2"]
        self.epsilon, self.decay = settings["adam_eps"], settings["weight_decay"]
        self.m = {name: torch.zeros_like(p) for name, p in parameters.items()}
        self.v = {name: torch.zeros_like(p) for name, p in parameters.items()}

    @torch.no_grad()
    def step(self, gradients, lr, step):
        for name, p in self.parameters.items():
            gradient = gradients[name]
            self.m[name] = self.beta1 * self.m[name] + (1 - self.beta1) * gradient
            self.v[name] = self.beta2 * self.v[name] + (1 - self.beta2) * gradient**2
            m_hat = self.m[name] / (1 - self.beta1**step)
            v_hat = self.v[name] / (1 - self.beta2**step)
            decay = self.decay if p.dim() >= 2 else 0.0
            p -= lr * (m_hat / (v_hat.sqrt() + self.epsilon) + decay * p)


def train(config, settings, weights, stream, dtype=torch.float64):
    """Trains from {name: (shape, values)} on the token stream.

    Returns {"steps": [{step, loss, grad_norm (before clipping), lr}], "final_param_norms": {...}}; a
    step's balance_loss, beside its loss, where the model adds one.
    """
    torch.set_num_threads(1)  # one order of summation, whatever the machine
    stream = torch.tensor(stream, dtype=torch.int64)
    parameters = {}
    for name, shape in reference_models.parameter_shapes(config).items():
        stored_shape, values = weights[name]
        assert tuple(stored_shape) == shape, (name, stored_shape, shape)
        parameters[name] = torch.tensor(values, dtype=dtype).view(shape).requires_grad_()
    assert set(parameters) == set(weights), set(parameters) ^ set(weights)

    optimizer = AdamW(parameters, settings)
    steps = []
    for step in range(1, settings["steps"] + 1):
        inputs, labels = _batch(stream, settings, step)
        scores, balance_loss = reference_models.logits(config, parameters, inputs)
        log_probabilities = torch.log_softmax(scores, dim=-1)
        loss = -log_probabilities.gather(-1, labels[..., None]).mean()
        gradients = dict(zip(parameters, torch.autograd.grad(loss + balance_loss,
                                                             list(parameters.values()))))
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients.values()))
        clip = settings["clip_grad"]
        if clip > 0 and norm > clip:
            gradients = {name: g * (clip / (norm + 1e-6)) for name, g in gradients.items()}
        lr = learning_rate(settings, step)
        optimizer.step(gradients, lr, step)
        steps.append({"step": step, "loss": loss.item(), "grad_norm": norm, "lr": lr})
        if not isinstance(balance_loss, float):
            steps[-1]["balance_loss"] = balance_loss.item()
    norms = {name: p.detach().norm().item() for name, p in parameters.items()}
    return {"steps": steps, "final_param_norms": norms}


def train_folder(folder, dtype=torch.float64):
    """Trains what config.json, train.json, model.safetensors and tokens.bin of a folder say."""
    folder = pathlib.Path(folder)
    stream = array.array("H", (folder / "tokens.bin").read_bytes())
    if sys.byteorder != "little":
        stream.byteswap()
    return train(json.loads((folder / "config.json").read_text()),
                 json.loads((folder / "train.json").read_text()),
                 safetensors_file.read(folder / "model.safetensors"), stream, dtype)
