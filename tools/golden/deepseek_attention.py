"""DeepSeek's latent attention (MLA), its experts and its draft layer in numpy, float64 throughout.

GLM-4.5 has the same experts and draft layer, and attention as most models have it.

With an indexer (DeepSeek-V3.2, GLM-5) a position attends to the index_topk positions of the best scores.

Of a token only a latent row and one rotated key, which all heads share, are kept. Expanded, a head
makes its keys and values of the latent rows; absorbed, it takes its query to the latent rows and
what it read back from there, so that no key or value is ever made. Both are the same sums.

Run alone it prints what YaRN gives for DeepSeek-V3 as published, and checks the golden models of
this kind: both forms must agree with transformers, the drafts with those stored, and both must
miss once any one feature is taken away. Needs numpy only.
"""

import json
import math
import sys

import numpy as np

import reference

# The published code leaves these norms at this, whatever rms_norm_eps is.
LATENT_EPSILON = 1e-6
DRAFTS = 3


def yarn(parameters, size):
    """The first pair that bends, the first that is all divided, and each pair's frequency."""
    theta, original = parameters["rope_theta"], parameters["original_max_position_embeddings"]

    def pair_that_turns(count):
        return size * math.log(original / (count * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair_that_turns(parameters.get("beta_fast", 32))), 0)
    high = min(math.ceil(pair_that_turns(parameters.get("beta_slow", 1))), size - 1)
    pair = np.arange(size // 2)
    divided = np.clip((pair - low) / max(high - low, 0.001), 0, 1)
    plain = theta ** (-2.0 * pair / size)
    return low, high, plain * (1 - divided + divided / parameters["factor"])


def score_scale(config):
    """The factor on queries times keys: YaRN's comes in twice, as if on both."""
    size = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    parameters = reference.rope(config)
    if parameters["rope_type"] == "default":
        return size**-0.5
    factor = reference.mscale(parameters["factor"], parameters.get("mscale_all_dim", 0))
    return size**-0.5 * factor**2


def rotate(config, x, halves=False):
    """x: [..., positions, size]; the parts of a pair are neighbours, or half a size apart."""
    size, parameters = x.shape[-1], reference.rope(config)
    if parameters["rope_type"] == "default":
        frequency, factor = parameters["rope_theta"] ** (-np.arange(0, size, 2) / size), 1.0
    else:
        _, _, frequency = yarn(parameters, size)
        factor = reference.mscale(parameters["factor"], parameters.get("mscale", 1))
        factor /= reference.mscale(parameters["factor"], parameters.get("mscale_all_dim", 0))
    angle = np.arange(x.shape[-2])[:, None] * frequency
    if halves:
        first, second = np.split(x, 2, axis=-1)
        turned = (first + 1j * second) * np.exp(1j * angle) * factor
        return np.concatenate([turned.real, turned.imag], -1)
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle) * factor
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape)


def softmax(x):
    chance = np.exp(x - x.max(-1, keepdims=True))
    return chance / chance.sum(-1, keepdims=True)


def route(config, logits, bias=None):
    """Each position's weights of the experts, 0 for those unused, and the least gap of a choice.

    With a bias (as of DeepSeek-V3) it is sigmoids plus bias that choose, and the sigmoids that
    weigh. Experts of groups that are left out count as minus infinity; the gap sees to it that 0,
    which some implementations put there, chooses the same.
    """
    used = config["num_experts_per_tok"]
    groups = 1 if config.get("topk_method") == "greedy" else config.get("n_group") or 1
    score = softmax(logits) if bias is None else 1 / (1 + np.exp(-logits))
    choice = logits if bias is None else score + bias
    gap = np.inf
    if groups > 1:
        members = np.sort(choice.reshape(len(choice), groups, -1))
        value = members[..., -1] if bias is None else members[..., -2:].sum(-1)
        ranked, kept = -np.sort(-value), config["topk_group"]
        gap = (ranked[:, kept - 1] - ranked[:, kept]).min()
        left_out = np.repeat(value < ranked[:, kept - 1 : kept], members.shape[-1], axis=1)
        choice = np.where(left_out, -np.inf, choice)
    ranked = -np.sort(-choice)
    gap = min(gap, (ranked[:, used - 1] - ranked[:, used]).min())
    if groups > 1 and bias is not None:
        gap = min(gap, ranked[:, used - 1].min())
    weights = np.where(choice >= ranked[:, used - 1 : used], score, 0)
    if config["norm_topk_prob"]:
        weights /= weights.sum(-1, keepdims=True)
    return weights * config["routed_scaling_factor"], float(gap)


class Model:
    """One of these models.

    gap is the least one of its experts' choices so far, and index_gap that of its indexers', as a
    share of the largest score.
    """

    def __init__(self, config, weights, absorbed=False):
        self.config, self.weights, self.absorbed = config, weights, absorbed
        self.gap = self.index_gap = np.inf

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T

    def norm(self, x, name, epsilon=None):
        epsilon = epsilon or self.config["rms_norm_eps"]
        return reference.rms_norm(x, self.weights[name + ".weight"], epsilon)

    def chosen(self, x, q_latent, base):
        """Which positions each one attends to: [positions, positions]."""
        config, count = self.config, len(x)
        seen = np.tri(count, dtype=bool)
        if base + "wk.weight" not in self.weights:
            return seen
        heads, turning = config["index_n_heads"], config["qk_rope_head_dim"]
        top = config["index_topk"]
        q = self.linear(q_latent, base + "wq_b").reshape(count, heads, -1).transpose(1, 0, 2)
        k = self.linear(x, base + "wk")
        k = (k - k.mean(-1, keepdims=True)) / np.sqrt(k.var(-1, keepdims=True) + LATENT_EPSILON)
        k = k * self.weights[base + "k_norm.weight"] + self.weights[base + "k_norm.bias"]
        halves = config["model_type"] != "glm_moe_dsa"
        q, k = (
            np.concatenate([rotate(config, y[..., :turning], halves=halves), y[..., turning:]], -1)
            for y in (q, k)
        )
        weights = self.linear(x, base + "weights_proj").T[..., None]
        score = (weights * np.maximum(q @ k.T, 0)).sum(0)
        for position in range(top, count):
            row = score[position, : position + 1]
            order = np.argsort(-row, kind="stable")
            seen[position, order[top:]] = False
            gap = (row[order[top - 1]] - row[order[top]]) / np.abs(row).max()
            self.index_gap = min(self.index_gap, float(gap))
        return seen

    def attention(self, x, base):
        config, count, heads = self.config, len(x), self.config["num_attention_heads"]
        rank, nope = config["kv_lora_rank"], config["qk_nope_head_dim"]
        if config["q_lora_rank"] is None:
            q_latent = None
            q = self.linear(x, base + "q_proj")
        else:
            q = self.linear(x, base + "q_a_proj")
            q_latent = self.norm(q, base + "q_a_layernorm", LATENT_EPSILON)
            q = self.linear(q_latent, base + "q_b_proj")
        q = q.reshape(count, heads, -1).transpose(1, 0, 2)
        q_turned = rotate(config, q[..., nope:])
        q = q[..., :nope]

        kept = self.linear(x, base + "kv_a_proj_with_mqa")
        latent = self.norm(kept[:, :rank], base + "kv_a_layernorm", LATENT_EPSILON)
        k_turned = rotate(config, kept[:, rank:])
        both = self.weights[base + "kv_b_proj.weight"].reshape(heads, -1, rank)
        to_k, to_v = both[:, :nope], both[:, nope:]

        if self.absorbed:
            score = (q @ to_k) @ latent.T
        else:
            score = q @ (latent @ to_k.transpose(0, 2, 1)).transpose(0, 2, 1)
        score = (score + q_turned @ k_turned.T) * score_scale(config)
        score *= reference.query_scale(config, count)[:, None]
        chance = softmax(np.where(self.chosen(x, q_latent, base + "indexer."), score, -np.inf))
        if self.absorbed:
            mixed = (chance @ latent) @ to_v.transpose(0, 2, 1)
        else:
            mixed = chance @ (latent @ to_v.transpose(0, 2, 1))
        return self.linear(mixed.transpose(1, 0, 2).reshape(count, -1), base + "o_proj")

    def feed_forward(self, x, base):
        def gated(gate, up):
            return gate / (1 + np.exp(-gate)) * up

        def dense(base):
            parts = (self.linear(x, base + part) for part in ("gate_proj", "up_proj"))
            return self.linear(gated(*parts), base + "down_proj")

        if base + "gate.weight" not in self.weights:
            return dense(base)
        bias = self.weights.get(base + "gate.e_score_correction_bias")
        used, gap = route(self.config, self.linear(x, base + "gate"), bias)
        self.gap = min(self.gap, gap)
        y = dense(base + "shared_experts.")
        fused = self.weights.get(base + "experts.gate_up_proj")
        for expert in range(used.shape[1]):
            if fused is None:
                out = dense(f"{base}experts.{expert}.")
            else:
                out = gated(*np.split(x @ fused[expert].T, 2, axis=1))
                out = out @ self.weights[base + "experts.down_proj"][expert].T
            y += used[:, expert, None] * out
        return y

    def layer(self, x, number):
        base = f"model.layers.{number}."
        x = x + self.attention(self.norm(x, base + "input_layernorm"), base + "self_attn.")
        return x + self.feed_forward(self.norm(x, base + "post_attention_layernorm"), base + "mlp.")

    def hidden(self, ids):
        """The rows after the last norm."""
        x = self.weights["model.embed_tokens.weight"][list(ids)]
        for number in range(self.config["num_hidden_layers"]):
            x = self.layer(x, number)
        return self.norm(x, "model.norm")

    def logits(self, ids):
        return self.linear(self.hidden(ids), "lm_head")

    def handed_on(self, row, normed):
        """What the layer makes of a position, for the next draft: as it is, and behind its norm."""
        return normed

    def draft(self, ids, following, count=DRAFTS):
        """Logits of `count` tokens after `following`, which follows ids, by the layer that drafts.

        Its row t is of hidden row t and the embedding of token t + 1, at position t.
        """
        number = self.config["num_hidden_layers"]
        base = f"model.layers.{number}."
        tokens, hidden, logits = [*ids[1:], following], self.hidden(ids), []
        for _ in range(count):
            token = self.weights[base + "embed_tokens.weight"][tokens]
            rows = (self.norm(token, base + "enorm"), self.norm(hidden, base + "hnorm"))
            row = self.layer(self.linear(np.concatenate(rows, 1), base + "eh_proj"), number)[-1:]
            normed = self.norm(row, base + "shared_head.norm")
            logits.append(self.linear(normed, base + "shared_head.head")[0])
            tokens.append(int(logits[-1].argmax()))
            hidden = np.concatenate([hidden, self.handed_on(row, normed)])
        return logits


class PlainAttention(Model):
    """With keys and values of heads, as GLM-4.5 has them."""

    def attention(self, x, base):
        config, count, size = self.config, len(x), self.config["head_dim"]

        def split(name):
            y = self.linear(x, base + name) + self.weights.get(base + name + ".bias", 0)
            return y.reshape(count, -1, size).transpose(1, 0, 2)

        q, k, v = split("q_proj"), split("k_proj"), split("v_proj")
        if base + "q_norm.weight" in self.weights:
            q, k = self.norm(q, base + "q_norm"), self.norm(k, base + "k_norm")
        turning = int(size * config["partial_rotary_factor"])
        q, k = (
            np.concatenate([rotate(config, y[..., :turning], halves=True), y[..., turning:]], -1)
            for y in (q, k)
        )
        k, v = (np.repeat(y, len(q) // len(y), axis=0) for y in (k, v))
        score = q @ k.transpose(0, 2, 1) / math.sqrt(size)
        chance = softmax(np.where(np.tri(count, dtype=bool), score, -np.inf))
        return self.linear((chance @ v).transpose(1, 0, 2).reshape(count, -1), base + "o_proj")


def model_of(config, weights, **options):
    kind = Model if "kv_lora_rank" in config else PlainAttention
    return kind(config, weights, **options)


def rows_before_the_norm(model):
    """The same model, which hands on what stands before a drafting layer's norm."""
    model.handed_on = lambda row, normed: row
    return model


def worst_error(model, golden):
    logits = [model.logits(ids) for ids in golden["prompts"]]
    return max(
        reference.relative_error(logits[e["prompt"]][e["position"]], np.array(e["row"]))
        for e in golden["logits"]
    )


def mutilations(config, weights):
    """The model with one feature taken away each: (what, config, weights)."""
    parameters = reference.rope(config)

    def without(*endings):
        return {n: w for n, w in weights.items() if not n.endswith(endings)}

    def roped(**changes):
        return config | {"rope_parameters": parameters | changes}, weights

    yield "rope theta", *roped(rope_theta=20000.0)
    if "kv_lora_rank" not in config:
        yield "q/k norms", config, without("q_norm.weight", "k_norm.weight")
        yield "biases", config, without("_proj.bias")
        yield "its part of a head", config | {"partial_rotary_factor": 0.5}, weights
    if parameters["rope_type"] == "yarn":
        yield "rope scaling", *roped(rope_type="default")
        yield "betas", *roped(beta_fast=32, beta_slow=1)
        yield "mscale_all_dim", *roped(mscale_all_dim=0, mscale=0)
        yield "mscale", *roped(mscale=2 * parameters["mscale"])
    if "llama_4_scaling_beta" in parameters:
        yield "scaling of queries", *roped(llama_4_scaling_beta=0)
    if (config.get("n_group") or 1) > 1:
        yield "groups of experts", config | {"n_group": 1}, weights
    yield "norm_topk_prob", config | {"norm_topk_prob": not config["norm_topk_prob"]}, weights
    yield "scaling of experts", config | {"routed_scaling_factor": 1.5}, weights
    used = config["num_experts_per_tok"]
    yield "a token's last expert", config | {"num_experts_per_tok": used - 1}, weights
    ending = "e_score_correction_bias"
    if any(name.endswith(ending) for name in weights):
        flat = {n: 0 * w if n.endswith(ending) else w for n, w in weights.items()}
        yield "bias of experts", config, flat
    if "index_topk" in config:
        yield from index_mutilations(config, weights)


def index_mutilations(config, weights):
    """The model with its indexer's features taken away."""

    def changed(ending, change):
        return {n: change(w) if n.endswith("indexer." + ending) else w for n, w in weights.items()}

    yield "a position too many", config | {"index_topk": config["index_topk"] + 1}, weights
    yield "the indexer's choice", config | {"index_topk": 10**9}, weights
    yield "weights of its heads", config, changed("weights_proj.weight", np.abs)
    yield "bias of its keys' norm", config, changed("k_norm.bias", np.zeros_like)
    # Rows in another order are other pairs: of neighbours in place of halves.
    turning, size = config["qk_rope_head_dim"], config["index_head_dim"]
    order = np.arange(size)
    order[:turning] = np.r_[0:turning:2, 1:turning:2]

    def reordered(w):
        return w.reshape(-1, size, w.shape[1])[:, order].reshape(w.shape)

    other = changed("wq_b.weight", reordered)
    for ending in ("wk.weight", "k_norm.weight", "k_norm.bias"):
        other |= {n: w[order] for n, w in weights.items() if n.endswith("indexer." + ending)}
    yield "halves in its rotation", config, other


def draft_mutilations(config, weights):
    """The same for the layer that drafts: (what, weights)."""
    base = f"model.layers.{config['num_hidden_layers']}."

    def changed(name, change):
        return weights | {base + name: change(weights[base + name])}

    last = weights["model.norm.weight"]
    yield "enorm", changed("enorm.weight", np.ones_like)
    yield "hnorm", changed("hnorm.weight", np.ones_like)
    yield "the last norm before hnorm", changed("hnorm.weight", lambda w: w / last)
    yield "a norm of its own", changed("shared_head.norm.weight", lambda w: last)
    yield "the order of its two rows", changed("eh_proj.weight", lambda w: np.roll(w, len(w), 1))
    yield "attention", changed("self_attn.o_proj.weight", np.zeros_like)


def drafts(model, golden):
    firsts = [ids[0] for ids in golden["greedy"]]
    pairs = zip(golden["prompts"], firsts)
    return [[int(row.argmax()) for row in model.draft(*pair)] for pair in pairs]


def check_case(folder):
    config, weights = reference.load_model(folder)
    golden = json.loads((folder / "golden.json").read_text())
    forms = [model_of(config, weights)]
    if "kv_lora_rank" in config:
        forms.append(Model(config, weights, absorbed=True))
    errors = [worst_error(model, golden) for model in forms]
    parts = (f"{e:.1e} {form}" for e, form in zip(errors, ("expanded", "absorbed")))
    print(f"{folder.name}: error {', '.join(parts)}")
    ok = max(errors) < 1e-5
    if "draft" in golden:
        same = all(drafts(model, golden) == golden["draft"] for model in forms)
        print(f"  drafts {'same' if same else 'DIFFER'}")
        ok &= same
        others = [(what, model_of(config, w)) for what, w in draft_mutilations(config, weights)]
        other = rows_before_the_norm(model_of(config, weights))
        others.append(("the norm before the next draft", other))
        for what, other in others:
            differ = drafts(other, golden) != golden["draft"]
            print(f"  drafts without {what}: {'others' if differ else 'SAME'}")
            ok &= differ
    for what, other_config, other_weights in mutilations(config, weights):
        missed = worst_error(model_of(other_config, other_weights), golden)
        print(f"  without {what}: error {missed:.1e}")
        ok &= missed > 1e-3
    return ok


# DeepSeek-V3 as published, and what YaRN makes of it.
PUBLISHED = {
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rope_theta": 10000,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
        "type": "yarn",
    },
}
FREQUENCIES = {
    0: 1.0,
    10: 5.623413e-2,
    15: 8.334509e-3,
    16: 5.5e-3,
    20: 7.905694e-4,
    23: 3.333804e-5,
    31: 3.333804e-6,
}
SCALE = 0.1352338


def check_published():
    low, high, frequency = yarn(reference.rope(PUBLISHED), PUBLISHED["qk_rope_head_dim"])
    scale = score_scale(PUBLISHED)
    print(f"DeepSeek-V3: low {low}, high {high}, scale {scale:.7f}")
    print("  " + ", ".join(f"f_{pair} {frequency[pair]:.6e}" for pair in FREQUENCIES))
    wanted = np.array([*FREQUENCIES.values(), SCALE])
    found = np.array([*frequency[list(FREQUENCIES)], scale])
    return (low, high) == (10, 23) and np.abs(found / wanted - 1).max() < 1e-6


def main():
    ok = check_published()
    for path in sorted(reference.MODELS.glob("*/config.json")):
        config = json.loads(path.read_text())
        if "kv_lora_rank" in config or config["model_type"] == "glm4_moe":
            ok &= check_case(path.parent)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
