"""The layer that drafts tokens of Qwen3-Next and Qwen3.5 (multi-token prediction), in numpy, float64.

transformers ignores its tensors (mtp.*); only the model's hidden rows, those after its last norm,
come from there. Row t of the layer is fc([norm(embedding of token t + 1), norm(hidden row t)]), at
position t; behind it are attention with output gates and a feed-forward as in the model's other
layers, a norm of its own, and the model's lm_head. A further draft takes the row after that norm
in place of a hidden row of the model. So have vLLM (qwen3_next_mtp.py, qwen3_5_mtp.py) and SGLang.

Run alone it checks the golden models of this kind: the drafts must be those stored, and must be
others once any one feature of the layer is taken away. Needs torch and transformers for that.
"""

import json
import math
import sys

import numpy as np

import reference

FAMILIES = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
DRAFTS = 3


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    chance = np.exp(x - x.max(-1, keepdims=True))
    return chance / chance.sum(-1, keepdims=True)


def gated(gate, up):
    return gate * sigmoid(gate) * up


class Layer:
    """One of these layers; gap is the least one of its experts' choices so far."""

    def __init__(self, config, weights):
        self.config, self.weights = config, weights
        self.gap = np.inf

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T

    def norm(self, x, name):
        # Weights lack the one that is added to them.
        return reference.rms_norm(x, self.weights[f"{name}.weight"] + 1, self.config["rms_norm_eps"])

    def rotate(self, x):
        """x: [heads, positions, head_dim]; a part of each head turns, its halves being pairs."""
        parameters = reference.rope(self.config)
        part = parameters.get("partial_rotary_factor", self.config.get("partial_rotary_factor"))
        dims = int(x.shape[-1] * part)
        frequency = parameters["rope_theta"] ** (-np.arange(0, dims, 2) / dims)
        angle = np.arange(x.shape[1])[:, None] * frequency
        turned = reference.rotate(x[..., :dims], np.cos(angle), np.sin(angle))
        return np.concatenate([turned, x[..., dims:]], -1)

    def attention(self, x):
        config, base, count = self.config, "mtp.layers.0.self_attn.", len(x)
        heads, size = config["num_attention_heads"], config["head_dim"]
        both = self.linear(x, base + "q_proj").reshape(count, heads, 2 * size)
        q, gate = both[..., :size], both[..., size:].reshape(count, -1)
        k, v = (
            self.linear(x, base + name).reshape(count, -1, size) for name in ("k_proj", "v_proj")
        )
        q, k = self.norm(q, base + "q_norm"), self.norm(k, base + "k_norm")
        q, k, v = (part.transpose(1, 0, 2) for part in (q, k, v))
        q, k = self.rotate(q), self.rotate(k)
        k, v = (np.repeat(part, heads // len(part), axis=0) for part in (k, v))
        score = q @ k.transpose(0, 2, 1) / math.sqrt(size)
        chance = softmax(np.where(np.tri(count, dtype=bool), score, -np.inf))
        mixed = (chance @ v).transpose(1, 0, 2).reshape(count, -1)
        return self.linear(mixed * sigmoid(gate), base + "o_proj")

    def feed_forward(self, x):
        def dense(base):
            parts = (self.linear(x, f"{base}.{part}") for part in ("gate_proj", "up_proj"))
            return self.linear(gated(*parts), f"{base}.down_proj")

        base = "mtp.layers.0.mlp"
        if f"{base}.gate.weight" not in self.weights:
            return dense(base)
        logits = self.linear(x, f"{base}.gate")
        used = self.config["num_experts_per_tok"]
        ranked = -np.sort(-logits)
        self.gap = min(self.gap, (ranked[:, used - 1] - ranked[:, used]).min())
        weights = np.where(logits >= ranked[:, used - 1 : used], softmax(logits), 0)
        weights /= weights.sum(-1, keepdims=True)
        y = dense(f"{base}.shared_expert")
        y *= sigmoid(self.linear(x, f"{base}.shared_expert_gate"))
        fused = self.weights.get(f"{base}.experts.gate_up_proj")
        for expert in range(weights.shape[1]):
            if fused is None:
                out = dense(f"{base}.experts.{expert}")
            else:
                out = gated(*np.split(x @ fused[expert].T, 2, axis=1))
                out = out @ self.weights[f"{base}.experts.down_proj"][expert].T
            y += weights[:, expert, None] * out
        return y

    def rows(self, tokens, hidden):
        """What the layer makes of tokens, each the one behind its position, and hidden rows."""
        embedding = self.weights["model.embed_tokens.weight"][list(tokens)]
        both = [
            self.norm(embedding, "mtp.pre_fc_norm_embedding"),
            self.norm(hidden, "mtp.pre_fc_norm_hidden"),
        ]
        x = self.linear(np.concatenate(both, 1), "mtp.fc")
        x = x + self.attention(self.norm(x, "mtp.layers.0.input_layernorm"))
        x = x + self.feed_forward(self.norm(x, "mtp.layers.0.post_attention_layernorm"))
        return self.norm(x, "mtp.norm")

    def draft(self, hidden, ids, following, count=DRAFTS):
        """Logits of `count` tokens after `following`, which follows ids, whose rows are hidden."""
        tied = self.config.get("tie_word_embeddings")
        head = "model.embed_tokens" if tied else "lm_head"
        tokens, logits = [*ids[1:], following], []
        for _ in range(count):
            last = self.rows(tokens, hidden)[-1:]
            logits.append(self.linear(last, head)[0])
            tokens.append(int(logits[-1].argmax()))
            hidden = np.concatenate([hidden, last])
        return logits


def drafts(layer, hidden, golden):
    firsts = [ids[0] for ids in golden["greedy"]]
    triples = zip(hidden, golden["prompts"], firsts, strict=True)
    return [[int(row.argmax()) for row in layer.draft(*triple)] for triple in triples]


def mutilations(config, weights):
    """The layer with one feature taken away each: (what, config, weights, of hidden rows)."""

    def same(rows):
        return rows

    def changed(name, change):
        name = f"mtp.{name}.weight"
        return config, weights | {name: change(weights[name])}, same

    def zero(w):
        return np.zeros_like(w)

    def flat(w):
        return w * 0

    last = weights["model.norm.weight"]
    yield "norm of embeddings", *changed("pre_fc_norm_embedding", flat)
    yield "norm of hidden rows", *changed("pre_fc_norm_hidden", flat)
    yield "the order of the two", *changed("fc", lambda w: np.roll(w, len(w), 1))
    yield "the last norm before", config, weights, lambda rows: rows / (1 + last)
    yield "a norm of its own", *changed("norm", lambda w: last)
    yield "one that is added to norms", *changed("layers.0.input_layernorm", lambda w: w - 1)
    yield "attention", *changed("layers.0.self_attn.o_proj", zero)
    yield "gates", *changed("layers.0.self_attn.q_proj", ungated(config))
    yield "q/k norms", *changed("layers.0.self_attn.k_norm", flat)
    parameters = reference.rope(config) | {"rope_theta": 3.0}
    yield "rope theta", config | {"rope_parameters": parameters, "rope_theta": 3.0}, weights, same
    ending = "mlp.shared_expert_gate"
    if f"mtp.layers.0.{ending}.weight" in weights:
        yield "gate of the shared expert", *changed(f"layers.0.{ending}", zero)
        yield "a token's last expert", config | {"num_experts_per_tok": 1}, weights, same


def ungated(config):
    def change(w):
        parts = w.reshape(config["num_attention_heads"], 2, config["head_dim"], -1).copy()
        parts[:, 1] = 0
        return parts.reshape(w.shape)

    return change


def check_case(folder):
    import make_models  # which imports this one, and torch

    config, weights = reference.load_model(folder)
    golden = json.loads((folder / "golden.json").read_text())
    model = make_models.read_model(folder, make_models.read_config(folder, config), {}).eval()
    hidden = [make_models.hidden_of(model, prompt) for prompt in golden["prompts"]]
    ok = drafts(Layer(config, weights), hidden, golden) == golden["draft"]
    print(f"{folder.name}: drafts {'same' if ok else 'DIFFER'}")
    for what, other_config, other_weights, change in mutilations(config, weights):
        other = Layer(other_config, other_weights)
        differ = drafts(other, [change(rows) for rows in hidden], golden) != golden["draft"]
        print(f"  drafts without {what}: {'others' if differ else 'SAME'}")
        ok &= differ
    return ok


def main():
    ok = True
    for path in sorted(reference.MODELS.glob("*/config.json")):
        if json.loads(path.read_text())["model_type"] in FAMILIES:
            ok &= check_case(path.parent)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
